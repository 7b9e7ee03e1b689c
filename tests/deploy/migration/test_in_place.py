"""A stopped Kafka's log directories under Penstock, and Penstock's under Kafka, without a copy of any record.

One cluster goes all the way: Kafka writes, Penstock takes over and writes, Kafka takes over and writes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import ResourceType

from tests.compat.clients.admin import Admin
from tests.compat.kafka.broker import CLUSTER_ID, QUICK, KafkaBroker
from tests.compat.kafka.tools import run_tool
from tests.deploy.migration.launcher import Launcher, format_beside
from tests.deploy.migration.served_content import QUIET, Content, commit, content_of, partition_content, produce
from tests.support.requirements import require

pytestmark = pytest.mark.timeout(900)
TOPICS = {
    "orders": (3, {"retention.ms": "-1", "segment.bytes": "1048576"}),
    "keys": (1, {"cleanup.policy": "compact", "max.compaction.lag.ms": "86400000"}),
}
COORDINATORS = {"offsets.topic.num.partitions": "7", "transaction.state.log.num.partitions": "5"}
WHOM = ("--entity-type", "users", "--entity-name", "ann", "--entity-type", "clients", "--entity-default")
QUOTAS = "controller_mutation_rate=2.5,producer_byte_rate=100000000"
USER = ("--entity-type", "users", "--entity-name", "bob")
CREDENTIAL = "SCRAM-SHA-512=[iterations=8192,password=bobs-secret]"
STATIC = {"log.retention.hours": "-1", "min.insync.replicas": "1", **COORDINATORS}


@dataclass
class Journey:
    """What each of the three served at its beginning, and at its end."""

    kafka: Content
    taken_over: Content
    written_on: Content
    given_back: Content
    retention: str | None
    """The retention.ms in Penstock of a topic that has none of its own."""
    stable_end: dict[str, int] = field(default_factory=dict)
    """The last stable offset of the partition with the open transaction, by step."""
    said: dict[str, str] = field(default_factory=dict)
    """What the commands said."""
    users: str = ""
    """The users whose SCRAM credentials Kafka described at its end."""
    quotas: str = ""
    """The client quotas that Penstock described after the take-over."""


def transaction(bootstrap: str, values: list[bytes]) -> Producer:
    """A producer with an open transaction, which fences whoever had its id before."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "mover", "transaction.timeout.ms": 900_000, **QUIET})
    producer.init_transactions(60)
    producer.begin_transaction()
    for value in values:
        producer.produce("orders", value, partition=2)
    assert producer.flush(60) == 0
    return producer


def stable_end(bootstrap: str) -> int:
    return partition_content(bootstrap, "orders", 2, "read_committed").end


@pytest.fixture(scope="module")
def journey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journey]:
    require("java", "kafka", "etcd")
    root = tmp_path_factory.mktemp("journey")
    with Launcher(root / "run") as penstock:
        yield travel(root, penstock)


def travel(root: Path, penstock: Launcher) -> Journey:
    said: dict[str, str] = {}
    ends: dict[str, int] = {}
    with KafkaBroker(root / "kafka", properties=STATIC, options=QUICK) as kafka:
        data = kafka.log_directory
        admin = Admin(kafka.bootstrap)
        for name, (partitions, configs) in TOPICS.items():
            admin.create(name, partitions, configs)
        produce(kafka.bootstrap, "orders", range(900), 3)
        produce(kafka.bootstrap, "keys", range(300), 1, keys=20)
        transaction(kafka.bootstrap, [b"committed by Kafka"]).commit_transaction(60)
        run_tool("kafka-configs", "--bootstrap-server", kafka.bootstrap, "--alter", *WHOM, "--add-config", QUOTAS)
        first_open = transaction(kafka.bootstrap, [b"open in Kafka"])
        commit(kafka.bootstrap, {("orders", 0): 17, ("orders", 1): 300, ("keys", 0): 5})
        before = content_of(kafka.bootstrap, TOPICS)
        ends["Kafka"] = stable_end(kafka.bootstrap)
        said["running"] = penstock("from-kafka", str(data), succeeds=False)
        kafka.stop()
        del first_open
        said["dry run"] = penstock("from-kafka", "--dry-run", str(data))
        said["from Kafka"] = penstock("from-kafka", str(kafka.directory / "server.properties"))
        said["again"] = penstock("from-kafka", str(data), succeeds=False)

        penstock("up")
        taken_over = content_of(penstock.bootstrap, TOPICS)
        retention = Admin(penstock.bootstrap).config(ResourceType.TOPIC, "keys")["retention.ms"].value
        quotas = run_tool("kafka-configs", "--bootstrap-server", penstock.bootstrap, "--describe", *WHOM).text
        ends["Penstock"] = stable_end(penstock.bootstrap)
        transaction(penstock.bootstrap, [b"committed by Penstock"]).commit_transaction(60)
        run_tool("kafka-configs", "--bootstrap-server", penstock.bootstrap, "--alter", *USER, "--add-config", CREDENTIAL)
        Admin(penstock.bootstrap).create("made-by-penstock", 2, {"retention.bytes": "1000000", "durability": "replicated"})
        produce(penstock.bootstrap, "made-by-penstock", range(40), 2)
        produce(penstock.bootstrap, "orders", range(900, 1200), 3)
        commit(penstock.bootstrap, {("orders", 0): 301, ("made-by-penstock", 1): 7})
        second_open = transaction(penstock.bootstrap, [b"open in Penstock"])
        written_on = content_of(penstock.bootstrap, [*TOPICS, "made-by-penstock"])
        ends["Penstock at its end"] = stable_end(penstock.bootstrap)
        metadata = {"metadata.log.dir": str(root / "metadata")}
        format_beside(root, CLUSTER_ID, metadata, kafka)
        said["to Kafka while it runs"] = penstock("to-kafka", str(root / "metadata"), succeeds=False)
        penstock("down")
        del second_open
        said["unformatted"] = penstock("to-kafka", str(root / "run"), succeeds=False)
        said["to Kafka"] = penstock("to-kafka", "--with-credentials", str(root / "metadata"))

        kafka.properties.update(metadata)
        kafka.start()
        given_back = content_of(kafka.bootstrap, [*TOPICS, "made-by-penstock"])
        ends["Kafka again"] = stable_end(kafka.bootstrap)
        produce(kafka.bootstrap, "orders", range(1200, 1230), 3)
        transaction(kafka.bootstrap, [b"committed by Kafka again"]).commit_transaction(60)
        users = run_tool("kafka-configs", "--bootstrap-server", kafka.bootstrap, "--describe", *USER).text
        ends["all committed"] = stable_end(kafka.bootstrap)
        kafka.stop()
        said["used"] = penstock("to-kafka", str(root / "metadata"), succeeds=False)
    return Journey(before, taken_over, written_on, given_back, retention, ends, said, users, quotas)


def test_penstock_serves_every_record_topic_id_config_and_offset_of_kafka(journey: Journey) -> None:
    assert sum(partition.records for partition in journey.kafka.partitions.values()) == 1202
    assert journey.kafka.committed == {("orders", 0): 17, ("orders", 1): 300, ("keys", 0): 5}
    assert journey.taken_over == journey.kafka


def test_kafka_serves_every_record_topic_id_config_and_offset_of_penstock(journey: Journey) -> None:
    assert sum(partition.records for partition in journey.written_on.partitions.values()) == 1202 + 342
    assert journey.written_on.committed == {**journey.kafka.committed, ("orders", 0): 301, ("made-by-penstock", 1): 7}
    assert without_own_configs(journey.given_back) == without_own_configs(journey.written_on)
    assert "durability" not in journey.given_back.configs["made-by-penstock"]


def without_own_configs(content: Content) -> Content:
    configs = {name: {key: value for key, value in of.items() if key != "durability"} for name, of in content.configs.items()}
    return Content(content.topic_ids, configs, content.partitions, content.committed)


def test_a_topic_without_configs_is_kept_for_as_long_as_server_properties_say(journey: Journey) -> None:
    assert journey.retention == "-1"


def test_an_open_transaction_stays_open_until_its_producer_comes_back(journey: Journey) -> None:
    ends = journey.stable_end
    end = journey.kafka.partitions["orders", 2].end
    assert ends["Kafka"] == ends["Penstock"] == end - 1, "consumers stop in front of the open record"
    assert ends["Penstock at its end"] == ends["Kafka again"] == journey.written_on.partitions["orders", 2].end - 1
    assert ends["all committed"] > ends["Kafka again"] + 1, "Kafka aborted what Penstock had left open"


def test_client_quotas_of_a_single_broker_stay_as_they_are(journey: Journey) -> None:
    shown = "controller_mutation_rate=2.5, producer_byte_rate=1.0E8"
    assert journey.quotas.strip() == f"Quota configs for user-principal 'ann', the default client-id are {shown}"
    assert "client quotas of 1 entities" in journey.said["to Kafka"]


def test_kafka_has_the_users_that_it_was_given_back(journey: Journey) -> None:
    assert "SCRAM-SHA-512=iterations=8192" in journey.users
    assert "1 SCRAM credentials of users are in each bootstrap.checkpoint" in journey.said["to Kafka"]


def test_the_commands_say_what_they_did_and_what_is_in_the_way(journey: Journey) -> None:
    said = journey.said
    assert "stop it first" in said["running"]
    assert "would take over cluster" in said["dry run"]
    assert "topics: 4, partitions: 16; no record is copied or changed" in said["from Kafka"]
    assert "holds a cluster already" in said["again"]
    assert "still run: `make down" in said["to Kafka while it runs"]
    assert "format it first" in said["unformatted"]
    assert "topic made-by-penstock: durability=replicated is Penstock's own" in said["to Kafka"]
    assert "what PENSTOCK_BROKER_CONFIGS gave to storage nodes is in no metadata" in said["to Kafka"]
    assert "a Kafka has run with" in said["used"]
