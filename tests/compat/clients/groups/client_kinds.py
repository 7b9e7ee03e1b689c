"""The kinds of members: a client, and the way in which its group shares partitions."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.compat.clients.groups.builds import PROGRAMS, franz_go_member, node_modules
from tests.compat.clients.groups.member import Member
from tests.compat.kafka.jars import KafkaJars
from tests.compat.kafka.tools import TOOL, TOOLS
from tests.support.requirements import ROOT, require

SESSION_MS = 4_000
"""For classic members; those of KIP-848 are told theirs by the coordinator (brokers.py)."""


@dataclass(frozen=True)
class Kind:
    client: str
    protocol: str = "classic"
    strategy: str = "range"

    def __str__(self) -> str:
        return f"{self.client}, {self.strategy if self.protocol == 'classic' else 'KIP-848'}"

    def start(self, directory: Path, arguments: "list[str]", *, session_ms: int = SESSION_MS) -> Member:
        """`arguments`: as VerifiableConsumer understands them. `directory`: of its own."""
        return STARTS[self.client](self, directory, arguments, session_ms)


def _of_python(program: str) -> Callable[[Kind, Path, list[str], int], Member]:
    def start(kind: Kind, directory: Path, arguments: list[str], session_ms: int) -> Member:
        command = [sys.executable, str(PROGRAMS / program), *arguments, *_ways(kind, session_ms)]
        return Member(command, log=directory / "stderr")

    return start


def _of_kafkajs(kind: Kind, directory: Path, arguments: list[str], session_ms: int) -> Member:
    modules = node_modules()
    command = ["node", str(PROGRAMS / "kafkajs" / "member.cjs"), *arguments, *_ways(kind, session_ms)]
    return Member(command, log=directory / "stderr", environment={"NODE_PATH": str(modules)})


def _of_franz_go(kind: Kind, directory: Path, arguments: list[str], session_ms: int) -> Member:
    return Member([str(franz_go_member()), *arguments, *_ways(kind, session_ms)], log=directory / "stderr")


def _of_java(kind: Kind, directory: Path, arguments: list[str], session_ms: int) -> Member:
    require("java", "kafka")
    config = {"fetch.max.wait.ms": "100", "metadata.max.age.ms": "500"}
    ways = ["--group-protocol", kind.protocol]
    if kind.protocol == "classic":
        config["heartbeat.interval.ms"] = "300"
        ways += ["--session-timeout", str(session_ms), "--assignment-strategy", JAVA_ASSIGNORS[kind.strategy]]
    (directory / "consumer.properties").write_text(
        "".join(f"{name}={value}\n" for name, value in config.items()), encoding="utf-8"
    )
    ways += ["--command-config", str(directory / "consumer.properties")]
    tool = TOOLS["kafka-verifiable-consumer"]
    return Member(KafkaJars(ROOT).command(tool, *arguments, *ways, options=TOOL), log=directory / "stderr")


def _ways(kind: Kind, session_ms: int) -> list[str]:
    named = {"group-protocol": kind.protocol, "assignment-strategy": kind.strategy, "session-timeout": session_ms}
    return [part for name, value in named.items() for part in (f"--{name}", str(value))]


JAVA_ASSIGNORS = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
STARTS = {
    "librdkafka": _of_python("librdkafka_member.py"),
    "kafka-python": _of_python("kafka_python_member.py"),
    "aiokafka": _of_python("aiokafka_member.py"),
    "kafkajs": _of_kafkajs,
    "franz-go": _of_franz_go,
    "java": _of_java,
}
KINDS = [
    Kind("librdkafka"),
    Kind("librdkafka", strategy="cooperative-sticky"),
    Kind("librdkafka", protocol="consumer"),
    Kind("java"),
    Kind("java", strategy="cooperative-sticky"),
    Kind("java", protocol="consumer"),
    Kind("kafka-python"),
    Kind("kafka-python", strategy="cooperative-sticky"),
    Kind("aiokafka"),
    Kind("kafkajs", strategy="round robin"),
    Kind("franz-go"),
    Kind("franz-go", strategy="cooperative-sticky"),
    Kind("franz-go", protocol="consumer"),
]
