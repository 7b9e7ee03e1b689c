"""A tool in a JVM that it shares with others does what it does in a JVM of its own."""

import subprocess
from collections.abc import Iterator

import pytest

from tests.compat.kafka.archives import archive_options
from tests.compat.kafka.jars import KafkaJars
from tests.compat.kafka.tool_server import PROGRAM, ToolServers
from tests.compat.kafka.tools import TOOL, TOOLS
from tests.support.requirements import ROOT, require

NOBODY = ("--bootstrap-server", "127.0.0.1:1")
ENDS = {
    "its main method returns": ("kafka-topics", "--version"),
    "it exits by Kafka's own way": ("kafka-topics", *NOBODY),
    "it exits, what Scala prints": ("kafka-configs", "--help"),
    "it throws": ("kafka-dump-log", "--files", "/nowhere/0.log"),
    "the parser of its arguments ends the JVM": ("kafka-features", "no-such-command"),
}


@pytest.fixture(scope="module")
def servers() -> Iterator[ToolServers]:
    require("java", "kafka")
    opened = ToolServers(KafkaJars(ROOT).command(str(PROGRAM), options=TOOL))
    yield opened
    opened.close()


def test_brokers_and_tools_have_an_archive_of_their_classes():
    require("java", "kafka")
    assert archive_options(KafkaJars(ROOT)) != (), "ArchivedClasses.java has failed"


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("words", ENDS.values(), ids=list(ENDS))
def test_a_tool_ends_and_says_what_it_does_in_a_jvm_of_its_own(servers: ToolServers, words: tuple[str, ...], again: bool) -> None:
    main_class, arguments = TOOLS[words[0]], words[1:]
    alone = subprocess.run(KafkaJars(ROOT).command(main_class, *arguments, options=TOOL), capture_output=True, timeout=120)
    code, said, complained = servers.run([main_class, *arguments], b"", 120.0)
    assert (code, said) == (alone.returncode, alone.stdout)
    # Of a stack, the innermost lines: what called `main` differs.
    assert complained.splitlines()[:3] == alone.stderr.splitlines()[:3]


def test_a_tool_that_takes_too_long_is_ended_and_the_next_one_runs(servers: ToolServers) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        servers.run([TOOLS["kafka-topics"], *NOBODY, "--list"], b"", 2.0)
    assert servers.run([TOOLS["kafka-topics"], "--version"], b"", 120.0)[0] == 0


def test_a_tool_reads_its_standard_input_and_its_last_records_are_sent_at_its_end(kafka, topic):
    servers = ToolServers(KafkaJars(ROOT).command(str(PROGRAM), options=TOOL))
    try:
        server = ("--bootstrap-server", kafka.bootstrap)
        assert servers.run([TOOLS["kafka-topics"], *server, "--create", "--topic", topic], b"", 120.0)[0] == 0
        for number in range(2):
            line = f"line {number}\n".encode()
            assert servers.run([TOOLS["kafka-console-producer"], *server, "--topic", topic], line, 120.0) == (0, b"", b"")
        code, said, _ = servers.run([TOOLS["kafka-get-offsets"], *server, "--topic", topic], b"", 120.0)
        assert (code, said) == (0, f"{topic}:0:2\n".encode())
    finally:
        servers.close()
