"""What the tests of groups run against: Penstock, or Apache Kafka, to see that a test is true.

PENSTOCK_GROUPS_AGAINST=kafka python -m pytest tests/clients/groups        (make clients AGAINST=kafka)
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import ResourceType

from tests.clients.admin import Admin
from tests.cluster_harness import LocalCluster
from tests.kafka.broker import QUICK, KafkaBroker
from tests.requirements import require

AGAINST = os.environ.get("PENSTOCK_GROUPS_AGAINST", "kafka")
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "4000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
}
"""Groups that notice within seconds what takes them a minute by default."""


@dataclass(frozen=True)
class Brokers:
    bootstrap: str
    log_directories: tuple[Path, ...]
    """In which partitions have their folders, by their names."""


@contextmanager
def running(directory: Path) -> Iterator[Brokers]:
    match AGAINST:
        case "kafka":
            require("java", "kafka")
            with KafkaBroker(directory, properties=SETTINGS, options=QUICK) as broker:
                yield Brokers(broker.bootstrap, (broker.log_directory,))
        case "penstock":
            with LocalCluster(storage=3) as cluster:
                admin = Admin(cluster.bootstrap)
                for name, value in SETTINGS.items():
                    admin.set_config(ResourceType.BROKER, "", name, value)
                admin.close()
                nodes = [name for name in cluster.names if name.startswith("storage-")]
                yield Brokers(cluster.bootstrap, tuple(cluster.data_directory(name) for name in nodes))
        case other:
            raise AssertionError(f"PENSTOCK_GROUPS_AGAINST is {other!r}, neither kafka nor penstock")
