"""The brokers of the group tests: Penstock, or Apache Kafka, to see that a test is true.

PENSTOCK_GROUPS_AGAINST=kafka python -m pytest tests/compat/clients/groups        (make clients AGAINST=kafka)
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.compat.kafka.broker import QUICK, KafkaBroker
from tests.compat.kafka.tools import run_tool
from tests.support.cluster_harness import LocalCluster
from tests.support.requirements import require

AGAINST = os.environ.get("PENSTOCK_GROUPS_AGAINST", "penstock")
GROUPS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "4000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",  # librdkafka waits no longer for an answer, either
}
"""Groups that notice within seconds what takes them a minute by default."""
LOGS = {
    "log.segment.bytes": "1048576",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.backoff.ms": "500",
}
"""A cleaner that looks often. Ten times a second, it takes four times the CPU of all else in a node that is idle."""


@dataclass(frozen=True)
class Brokers:
    bootstrap: str
    log_directories: tuple[Path, ...]
    """In which partitions have their folders, by their names."""
    cluster: LocalCluster | None = None
    """None: they are Kafka's."""


def set_for_all(bootstrap: str, settings: dict[str, str]) -> None:
    """Cluster-wide, which neither librdkafka nor kafka-python can say."""
    default = ("--entity-type", "brokers", "--entity-default", "--alter")
    named = ",".join(f"{name}={value}" for name, value in settings.items())
    run_tool("kafka-configs", "--bootstrap-server", bootstrap, *default, "--add-config", named)


@contextmanager
def running(directory: Path) -> Iterator[Brokers]:
    match AGAINST:
        case "kafka":
            require("java", "kafka")
            with KafkaBroker(directory, properties=GROUPS | LOGS, options=QUICK) as broker:
                yield Brokers(broker.bootstrap, (broker.log_directory,))
        case "penstock":
            nodes = ("storage-1", "storage-2", "storage-3")
            environment = {"PENSTOCK_BROKER_CONFIGS": ",".join(f"{name}={value}" for name, value in LOGS.items())}
            with LocalCluster(storage=3, environment_of=dict.fromkeys(nodes, environment)) as cluster:
                set_for_all(cluster.bootstrap, GROUPS)
                yield Brokers(cluster.bootstrap, tuple(cluster.data_directory(name) for name in nodes), cluster)
        case other:
            raise AssertionError(f"PENSTOCK_GROUPS_AGAINST is {other!r}, neither kafka nor penstock")
