"""docs/quotas.md: quotas are set, seen, changed and removed as it is printed, and its outputs are what the commands print."""

from collections.abc import Iterator

import pytest

from tests.support.printed_blocks import blocks_of, section_of
from tests.support.printed_commands import PrintedCommands, printed_commands
from tests.support.printed_pages import differing_lines
from tests.support.requirements import ROOT, require

PAGE = ROOT / "docs" / "quotas.md"
SECTIONS = ("Set and see quotas", "Why a client is slow", "Change and remove quotas")
"""In the order of the page: what one has set, the next shows."""


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrintedCommands]:
    require("java", "kafka", "etcd")
    tools = ("kafka-topics", "kafka-configs", "kafka-producer-perf-test")
    with printed_commands(PAGE, tmp_path_factory.mktemp("quotas"), tools=tools) as ready:
        ready.section("A cluster to try it on")
        yield ready


def expected(section: str) -> str:
    own = section_of(PAGE.read_text(encoding="utf-8"), section)
    return "".join(block.text for block in blocks_of(own) if block.language == "text")


def test_the_commands_print_what_the_page_says(commands: PrintedCommands) -> None:
    for section in SECTIONS:
        printed = commands.section(section)
        assert not list(differing_lines(expected(section), printed)), printed


def test_two_gateways_together_let_a_client_produce_its_rate(commands: PrintedCommands) -> None:
    metrics = "curl -s 127.0.0.1:9149/metrics 127.0.0.1:9150/metrics"
    lines = commands.sh(f"{metrics} | grep '^penstock_gateway_throttle_seconds_total.*produce'").splitlines()
    assert len(lines) == 2, "both gateways muted the producer"
    assert all(float(line.split()[-1]) > 0 for line in lines)
