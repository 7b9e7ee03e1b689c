"""README.md: every command that it prints runs as it stands there, in the order of the page, on one cluster."""

from collections.abc import Iterator

import pytest

from tests.support.printed_blocks import blocks_of, section_of
from tests.support.printed_commands import PrintedCommands, printed_commands
from tests.support.requirements import ROOT, require

PAGE = ROOT / "README.md"
TOOLS = (
    "kafka-topics",
    "kafka-configs",
    "kafka-console-producer",
    "kafka-console-consumer",
    "kafka-consumer-groups",
    "kafka-get-offsets",
)
PROGRAM = "greetings.py"
CONFIGS = "kafka-configs.sh --bootstrap-server 127.0.0.1:9092"


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrintedCommands]:
    require("java", "kafka", "kcat", "etcd")
    folder = tmp_path_factory.mktemp("readme")
    with printed_commands(PAGE, folder, tools=TOOLS, places={PROGRAM: str(folder / PROGRAM)}) as ready:
        yield ready


def test_try_it(commands: PrintedCommands) -> None:
    (program,) = (
        block.text for block in blocks_of(section_of(PAGE.read_text(encoding="utf-8"), "Try it")) if block.language == "python"
    )
    commands.save(PROGRAM, program)
    printed = commands.section("Try it").splitlines()
    assert [f"line {number}" for number in range(1, 6)] == [line for line in printed if line.startswith("line ")]
    assert "order 1" in printed
    assert any(line.split()[:2] == ["billing", "orders"] for line in printed), "the group is described"
    assert any(line.startswith("orders:") for line in printed), "its offsets are got"
    assert printed[-1] == "b'hello'"


def test_durability(commands: PrintedCommands) -> None:
    commands.section("Durability")
    assert "durability=replicated" in commands.sh(f"{CONFIGS} --describe --topic orders")


def test_replication(commands: PrintedCommands) -> None:
    assert "shipments" in commands.section("Replication")


def test_consumer_groups(commands: PrintedCommands) -> None:
    printed = commands.section("Consumer groups")
    assert "billing" in printed
    assert '"kind": "classic"' in printed


def test_storage(commands: PrintedCommands) -> None:
    commands.section("Storage")
    assert "cleanup.policy=compact" in commands.sh("kafka-topics.sh --bootstrap-server 127.0.0.1:9092 --describe --topic users")


def test_no_command_of_the_page_is_in_another_section() -> None:
    page = PAGE.read_text(encoding="utf-8")
    sections = ("Try it", "Durability", "Replication", "Consumer groups", "Storage")
    run = sum(block.language == "sh" for section in sections for block in blocks_of(section_of(page, section)))
    assert run == sum(block.language == "sh" for block in blocks_of(page))
    assert not [block.text for block in blocks_of(page) if not block.language and "make up" in block.text]
