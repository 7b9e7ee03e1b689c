"""Kafka's command-line tools by the names that its users know."""

import os
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Timer

from tests.compat.kafka.archives import BRIEF
from tests.compat.kafka.jars import COMPACTION_TESTER, SHARED, KafkaJars
from tests.compat.kafka.tool_server import PROGRAM as SERVER
from tests.compat.kafka.tool_server import tool_servers
from tests.support.requirements import ROOT, require

TOOLS = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-share-consumer-perf-test": "org.apache.kafka.tools.ShareConsumerPerformance",
    "kafka-verifiable-share-consumer": "org.apache.kafka.tools.VerifiableShareConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "kafka.tools.DumpLogSegments",
    "kafka-e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-replica-verification": "org.apache.kafka.tools.ReplicaVerificationTool",
    "kafka-server-start": "kafka.Kafka",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-streams-application-reset": "org.apache.kafka.tools.StreamsResetter",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "transactional-message-copier": "org.apache.kafka.tools.TransactionalMessageCopier",
}

# A tool lives for a second: C1 only and the serial collector start quicker on two cores. Measurements pass options=().
SHORT_LIVED = (*BRIEF, SHARED)

# The logger that needs no configuration: the other one takes more of a tool's start than all else.
SIMPLE_LOGS = (
    "-Dlog4j2.loggerContextFactory=org.apache.logging.log4j.simple.SimpleLoggerContextFactory",
    "-Dorg.apache.logging.log4j.simplelog.level=WARN",
    "-Dorg.apache.logging.log4j.simplelog.showdatetime=true",
)
TOOL = (*SHORT_LIVED, *SIMPLE_LOGS)
HEAP = "256m"

OWN_JVM = {
    "kafka-dump-log",
    *("kafka-console-consumer", "kafka-console-share-consumer", "kafka-server-start"),
    *(
        "kafka-verifiable-consumer",
        "kafka-verifiable-producer",
        "kafka-verifiable-share-consumer",
        "transactional-message-copier",
    ),
}
"""They count in static variables, do not end by themselves, or map files while their JVM lives: a disk that has the files cannot
be unmounted then. The others run in JVMs that they share (tool_server.py)."""


@dataclass(frozen=True)
class ToolResult:
    returncode: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        return self.stdout.decode()


def run_tool(
    tool: str,
    *arguments: str,
    stdin: bytes = b"",
    timeout_s: float = 120.0,
    check: bool = True,
    heap: str = HEAP,
    options: tuple[str, ...] = TOOL,
) -> ToolResult:
    """Runs one of TOOLS, or a main class, to its end. With `check`, any exit code but 0 fails the test and shows why."""
    require("java", "kafka")
    jars, main_class = KafkaJars(ROOT), TOOLS.get(tool, tool)
    if tool not in OWN_JVM and heap == HEAP and options == TOOL:
        servers = tool_servers(tuple(jars.command(str(SERVER), heap=heap, options=options)))
        result = ToolResult(*servers.run([main_class, *arguments], stdin, timeout_s))
    else:
        command = jars.command(main_class, *arguments, heap=heap, options=options)
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=timeout_s)
        result = ToolResult(done.returncode, done.stdout, done.stderr)
    if check:
        shown = f"{result.stdout[-2000:].decode(errors='replace')}\n{result.stderr[-4000:].decode(errors='replace')}"
        assert result.returncode == 0, f"{tool} {' '.join(arguments)} ended with {result.returncode}:\n{shown}"
    return result


def run_endless_tool(tool: str, *arguments: str, until: Sequence[str], timeout_s: float = 120.0) -> None:
    """Runs a tool that never ends until it has said all of `until`, each in a line."""
    require("java", "kafka")
    command = KafkaJars(ROOT).command(TOOLS[tool], *arguments, heap="256m", options=TOOL)
    unsaid, said = set(until), ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8") as running:
        assert running.stdout is not None
        watchdog = Timer(timeout_s, running.kill)
        watchdog.start()
        try:
            while unsaid and (line := running.stdout.readline()):
                said += line
                unsaid = {each for each in unsaid if each not in line}
        finally:
            watchdog.cancel()
            running.kill()
    assert not unsaid, f"{tool} did not say {unsaid} within {timeout_s} s:\n{said[-4000:]}"


def run_compaction_tester(*arguments: str, timeout_s: float = 300.0) -> str:
    """LogCompactionTester; returns what it said. It ends when it has read nothing new for 20 seconds."""
    require("java", "compaction-tester")
    command = KafkaJars(ROOT, COMPACTION_TESTER).command("kafka.tools.LogCompactionTester", *arguments, options=SHORT_LIVED)
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=timeout_s)
    assert done.returncode == 0, f"it ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def run_tools(*runs: tuple[str, ...]) -> list[ToolResult]:
    """The results of `run_tool` for each, as many at once as there are cores: JVM starts take most of a tool's time."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda run: run_tool(*run), runs))


def run_kcat(*arguments: str, stdin: bytes = b"", timeout_s: float = 120.0, check: bool = True) -> ToolResult:
    """Runs kcat to its end."""
    require("kcat")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KCAT_")}
    done = subprocess.run(["kcat", *arguments], input=stdin, capture_output=True, timeout=timeout_s, env=environment)
    result = ToolResult(done.returncode, done.stdout, done.stderr)
    assert not check or result.returncode == 0, f"kcat {' '.join(arguments)}: {result.stderr[-4000:].decode(errors='replace')}"
    return result
