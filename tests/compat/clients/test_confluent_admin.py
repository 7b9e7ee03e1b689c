"""librdkafka's admin client: topics, partitions, configs, the cluster; and the errors that its users see."""

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.compat.clients.admin import Admin, code_of


def test_a_topic_is_described_with_its_id_leaders_and_replicas(admin: Admin, topic: str) -> None:
    admin.create(topic, partitions=6)
    described = admin.client.describe_topics(TopicCollection([topic]), include_authorized_operations=True)[topic].result()
    assert described.name == topic
    assert not described.is_internal
    assert str(described.topic_id) not in ("", "AAAAAAAAAAAAAAAAAAAAAA")
    assert [partition.id for partition in described.partitions] == list(range(6))
    for partition in described.partitions:
        assert partition.replicas[0].id == partition.leader.id
        assert {node.id for node in partition.replicas} == {node.id for node in partition.isr} == {1, 2, 3}
    assert {partition.leader.id for partition in described.partitions} == {1, 2, 3}


def test_the_end_of_a_topic_counts_what_its_leader_has_acknowledged_alone(admin: Admin, topic: str, bootstrap: str) -> None:
    admin.create(topic)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": 1, "linger.ms": 0})
    for stored in range(1, 11):
        producer.produce(topic, b"x", partition=0)
        assert producer.flush(30) == 0
        partition = TopicPartition(topic, 0)
        assert admin.client.list_offsets({partition: OffsetSpec.latest()})[partition].result().offset == stored
    producer.close()


def test_a_topic_made_again_has_another_id(admin: Admin, topic: str) -> None:
    def topic_id() -> str:
        return str(admin.client.describe_topics(TopicCollection([topic]))[topic].result().topic_id)

    admin.create(topic)
    first = topic_id()
    admin.delete(topic)
    admin.create(topic)
    assert topic_id() != first


def test_the_cluster_is_described_with_every_broker_on_a_port_of_its_own(admin: Admin) -> None:
    described = admin.client.describe_cluster().result()
    assert described.cluster_id
    assert {node.id for node in described.nodes} == {1, 2, 3}
    assert described.controller.id in {1, 2, 3}
    assert len({node.port for node in described.nodes}) == 3


@pytest.mark.parametrize(
    ("new", "code", "words"),
    [
        (NewTopic("replicated", 1, 4), KafkaError.INVALID_REPLICATION_FACTOR, "replication"),
        (NewTopic("none", 0, 1), KafkaError.INVALID_PARTITIONS, "partitions"),
        (NewTopic("no/slash", 1, 1), KafkaError.TOPIC_EXCEPTION, ""),
        (NewTopic("config", 1, 1, config={"no.such.config": "1"}), KafkaError.INVALID_CONFIG, "no.such.config"),
        (NewTopic("config", 1, 1, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG, "retention.ms"),
        (NewTopic("config", 1, 1, config={"local.retention.ms": "5"}), KafkaError.INVALID_CONFIG, "not supported"),
        (NewTopic("assigned", 1, replica_assignment=[[99]]), KafkaError.INVALID_REPLICA_ASSIGNMENT, ""),
    ],
    ids=lambda value: value.topic if isinstance(value, NewTopic) else "",
)
def test_a_topic_that_cannot_be_is_refused_with_a_reason(admin: Admin, new: NewTopic, code: int, words: str) -> None:
    (outcome,) = admin.client.create_topics([new]).values()
    with pytest.raises(KafkaException) as refused:
        outcome.result()
    assert code_of(refused.value) == code
    assert words in refused.value.args[0].str()
    assert new.topic not in admin.names()


def test_a_topic_that_exists_is_not_made_again_and_validating_makes_nothing(admin: Admin, topic: str) -> None:
    (validated,) = admin.client.create_topics([NewTopic(topic, 1)], validate_only=True).values()
    validated.result()
    assert topic not in admin.names()
    admin.create(topic)
    with pytest.raises(KafkaException) as refused:
        admin.create(topic)
    assert code_of(refused.value) == KafkaError.TOPIC_ALREADY_EXISTS


def test_partitions_are_added_and_never_taken_away(admin: Admin, topic: str) -> None:
    admin.create(topic, partitions=2)
    admin.grow(topic, 5)
    assert admin.partition_count(topic) == 5
    for count in (5, 4):
        (outcome,) = admin.client.create_partitions([NewPartitions(topic, count)]).values()
        with pytest.raises(KafkaException) as refused:
            outcome.result()
        assert code_of(refused.value) == KafkaError.INVALID_PARTITIONS


def test_replicas_may_be_placed_by_hand(admin: Admin, topic: str) -> None:
    admin.create_all([NewTopic(topic, 3, replica_assignment=[[3], [1], [3]])])
    partitions = admin.client.describe_topics(TopicCollection([topic]))[topic].result().partitions
    assert [partition.leader.id for partition in partitions] == [3, 1, 3]


def test_deleting_what_is_not_there_says_so(admin: Admin, topic: str) -> None:
    (outcome,) = admin.client.delete_topics([topic]).values()
    with pytest.raises(KafkaException) as refused:
        outcome.result()
    assert code_of(refused.value) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_topics_configs_are_set_shown_with_their_source_and_taken_away(admin: Admin, topic: str) -> None:
    admin.create(topic, config={"retention.ms": "86400000"})
    entries = admin.config(ResourceType.TOPIC, topic)
    assert (entries["retention.ms"].value, entries["retention.ms"].source) == (
        "86400000",
        ConfigSource.DYNAMIC_TOPIC_CONFIG.value,
    )
    assert entries["segment.bytes"].is_default
    assert entries["durability"].value == "synced"
    admin.set_config(ResourceType.TOPIC, topic, "segment.bytes", "20000000")
    assert admin.config(ResourceType.TOPIC, topic)["segment.bytes"].value == "20000000"
    admin.set_config(ResourceType.TOPIC, topic, "segment.bytes", None)
    entries = admin.config(ResourceType.TOPIC, topic)
    assert (entries["segment.bytes"].value, entries["segment.bytes"].is_default) == ("1073741824", True)
    assert entries["retention.ms"].value == "86400000"


@pytest.mark.filterwarnings("ignore:alter_configs has been deprecated:DeprecationWarning")
def test_the_older_alter_configs_replaces_all_overrides(admin: Admin, topic: str) -> None:
    admin.create(topic, config={"retention.ms": "86400000"})
    resource = ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.bytes": "20000000"})
    admin.client.alter_configs([resource])[resource].result()
    entries = admin.config(ResourceType.TOPIC, topic)
    assert entries["segment.bytes"].value == "20000000"
    assert entries["retention.ms"].is_default


def test_a_brokers_own_config_is_set_for_that_broker_alone(admin: Admin) -> None:
    # Neither librdkafka nor kafka-python can name the cluster's default: see Java's tools.
    name = "log.retention.bytes"
    admin.set_config(ResourceType.BROKER, "2", name, "6000000000")
    try:
        shown = {broker: admin.config(ResourceType.BROKER, broker)[name] for broker in ("1", "2")}
        assert {broker: entry.value for broker, entry in shown.items()} == {"1": "-1", "2": "6000000000"}
        assert shown["2"].source == ConfigSource.DYNAMIC_BROKER_CONFIG.value
    finally:
        admin.set_config(ResourceType.BROKER, "2", name, None)
    assert admin.config(ResourceType.BROKER, "2")[name].is_default


def test_a_config_that_means_nothing_is_refused_and_nothing_changes(admin: Admin, topic: str) -> None:
    admin.create(topic)
    entries = [ConfigEntry("segment.bytes", value, incremental_operation=AlterConfigOpType.SET) for value in ("-5",)]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    with pytest.raises(KafkaException) as refused:
        admin.client.incremental_alter_configs([resource])[resource].result()
    assert code_of(refused.value) == KafkaError.INVALID_CONFIG
    assert admin.config(ResourceType.TOPIC, topic)["segment.bytes"].is_default
