"""Configs at the start of brokers, by server.properties there and PENSTOCK_BROKER_CONFIGS here: both describe the same."""

from collections.abc import Iterator

import pytest

from tests.compat.differential.comparison import differences, normalise
from tests.compat.differential.systems import KAFKA, System
from tests.compat.kafka.broker import QUICK, KafkaBroker
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually
from tests.support.requirements import require

TOPIC, BROKER = 2, 4
NAME = "started-with"
STARTED_WITH = {
    "log.retention.hours": "3",
    "log.retention.minutes": "90",
    "log.roll.hours": "48",
    "log.roll.jitter.hours": "2",
    "log.roll.jitter.ms": "60000",
    "log.flush.scheduler.interval.ms": "5000",
    "log.segment.bytes": "2097152",
    "log.segment.delete.delay.ms": "0",
    "log.index.interval.bytes": "1024",
    "log.preallocate": "true",
    "log.retention.bytes": "-7",
    "log.cleanup.policy": "compact,delete",
    "message.max.bytes": "5000",
    "producer.id.expiration.ms": "70000",
    "log.retention.check.interval.ms": "4000",
}
CHANGED = {"log.retention.ms": "-3", "log.flush.interval.ms": "9", "log.roll.ms": "7200000"}
OF_TOPICS = [
    *("retention.ms", "segment.ms", "segment.jitter.ms", "flush.ms", "segment.bytes", "file.delete.delay.ms"),
    *("index.interval.bytes", "preallocate", "retention.bytes", "cleanup.policy", "max.message.bytes"),
]

FORGOTTEN = {
    ("results", "1", "configs", name, "value")
    for name in ("log.flush.scheduler.interval.ms", "log.retention.hours", "log.retention.minutes", "log.roll.hours")
}
"""The difference broker-configs-coarse."""


@pytest.fixture(scope="module")
def systems(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[System, System]]:
    require("java", "kafka", "etcd")
    environment = {"PENSTOCK_BROKER_CONFIGS": ",".join(f"{name}={value}" for name, value in STARTED_WITH.items())}
    with (
        KafkaBroker(tmp_path_factory.mktemp("kafka"), properties=STARTED_WITH, options=QUICK) as kafka,
        LocalCluster(storage=1, gateways=1, environment_of={"storage-1": environment}) as penstock,
    ):
        both = System(KAFKA, kafka.port), System("Penstock", penstock.shape.port + 1)
        for system in both:
            wanted = {"name": NAME, "num_partitions": 1, "replication_factor": 1, "configs": []}
            answer = system.ask("create_topics", 7, {"topics": [wanted], "timeout": 30_000})
            assert isinstance(answer, dict)
            assert answer["topics"][0]["error_code"] == 0, answer
        yield both


def described(system: System) -> object:
    asked = [
        {"resource_type": TOPIC, "resource_name": NAME, "configuration_keys": OF_TOPICS},
        {"resource_type": BROKER, "resource_name": "1", "configuration_keys": sorted({*STARTED_WITH, *CHANGED})},
    ]
    answer = system.ask("describe_configs", 4, {"resources": asked, "include_synonyms": True})
    assert isinstance(answer, dict)
    assert [result["error_code"] for result in answer["results"]] == [0, 0], answer
    return normalise(answer, system)


def change(system: System, name: str, value: str) -> None:
    configs = [{"name": name, "config_operation": 0, "value": value}]
    resource = {"resource_type": BROKER, "resource_name": "1", "configs": configs}
    answer = system.ask("incremental_alter_configs", 1, {"resources": [resource], "validate_only": False})
    assert isinstance(answer, dict)
    assert answer["responses"][0]["error_code"] == 0, (name, answer)


def test_configs_from_a_brokers_start_hold_in_kafkas_order(systems: tuple[System, System]) -> None:
    kafka, penstock = systems
    assert list(differences(described(kafka), described(penstock))) == []
    for name, value in CHANGED.items():
        for system in systems:
            change(system, name, value)
    # Both go by a change soon, but not at once.
    eventually(lambda: {path for path, _, _ in differences(described(kafka), described(penstock))} == FORGOTTEN)
