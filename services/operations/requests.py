"""The requests of the programs, as functions. A refusal is raised as a sentence of the broker."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from libs.client.kafka_connection import KafkaConnection
from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages import create_topics, delete_topics, describe_cluster, incremental_alter_configs, unregister_broker
from libs.wire.primitives import Writer
from libs.wire.record_batches.records import Record, build_batch, iter_records

BROKER = 4
SET, DELETE = 0, 1
ACKS_ALL = -1
TIMEOUT_MS = 10_000


class Refused(Exception):
    """A broker's answer with an error."""


@dataclass(frozen=True)
class Broker:
    node_id: int
    host: str
    port: int


@dataclass(frozen=True)
class Partition:
    topic: str
    index: int
    leader: int
    replicas: tuple[int, ...]


@dataclass(frozen=True)
class ClusterView:
    """A Metadata response."""

    brokers: Mapping[int, Broker]
    partitions: tuple[Partition, ...]


def metadata(connection: KafkaConnection, topics: Sequence[str] | None = None) -> ClusterView:
    """All topics, or those named. Version 8, the last without tagged fields."""
    writer = Writer()
    writer.int32(-1 if topics is None else len(topics))
    for name in topics or ():
        writer.string(name, flexible=False)
    for flag in (False, False, False):  # no topic is created, and no authorized operations are asked for
        writer.boolean(flag)
    reader = connection.ask(ApiKey.METADATA, 8, writer)
    reader.int32()
    brokers = {}
    for _ in range(reader.array_length(False)):
        broker = Broker(reader.int32(), reader.string(False), reader.int32())
        reader.nullable_string(False)
        brokers[broker.node_id] = broker
    reader.nullable_string(False)
    reader.int32()
    partitions: list[Partition] = []
    for _ in range(reader.array_length(False)):
        reader.int16()
        name = reader.string(False)
        reader.boolean()
        for _ in range(reader.array_length(False)):
            reader.int16()
            index, leader, _ = reader.int32(), reader.int32(), reader.int32()
            replicas, _, _ = (tuple(reader.int32() for _ in range(reader.array_length(False))) for _ in range(3))
            partitions.append(Partition(name, index, leader, replicas))
        reader.int32()
    return ClusterView(brokers, tuple(partitions))


def living_brokers(connection: KafkaConnection) -> set[int]:
    return {broker.broker_id for broker in _registered(connection) if not broker.is_fenced}


def registered_brokers(connection: KafkaConnection) -> set[int]:
    """Also those that are gone, however long ago, until they are unregistered."""
    return {broker.broker_id for broker in _registered(connection)}


def _registered(connection: KafkaConnection) -> list[describe_cluster.DescribeClusterBroker]:
    request = describe_cluster.DescribeClusterRequest(include_fenced_brokers=True)
    response = connection.ask_message(describe_cluster, ApiKey.DESCRIBE_CLUSTER, 2, request)
    _refuse("DescribeCluster", response.error_code, response.error_message)
    brokers: list[describe_cluster.DescribeClusterBroker] = response.brokers
    return brokers


def create_topic(connection: KafkaConnection, name: str, partitions: int) -> None:
    """With the cluster's default replication factor."""
    request = create_topics.CreateTopicsRequest([create_topics.CreatableTopic(name, partitions, -1)], TIMEOUT_MS)
    response = connection.ask_message(create_topics, ApiKey.CREATE_TOPICS, 5, request)
    for topic in response.topics:
        _refuse(f"topic {name} is not created", topic.error_code, topic.error_message)


def delete_topic(connection: KafkaConnection, name: str) -> None:
    request = delete_topics.DeleteTopicsRequest(topic_names=[name], timeout_ms=TIMEOUT_MS)
    response = connection.ask_message(delete_topics, ApiKey.DELETE_TOPICS, 5, request)
    for topic in response.responses:
        _refuse(f"topic {name} is not deleted", topic.error_code, topic.error_message)


def set_decommission(connection: KafkaConnection, node_id: int) -> None:
    _change_decommission(connection, node_id, SET)


def take_back_decommission(connection: KafkaConnection, node_id: int) -> None:
    _change_decommission(connection, node_id, DELETE)


def _change_decommission(connection: KafkaConnection, node_id: int, operation: int) -> None:
    value = "true" if operation == SET else None
    config = incremental_alter_configs.AlterableConfig("decommission", operation, value)
    resource = incremental_alter_configs.AlterConfigsResource(BROKER, str(node_id), [config])
    request = incremental_alter_configs.IncrementalAlterConfigsRequest([resource])
    response = connection.ask_message(incremental_alter_configs, ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, request)
    for changed in response.responses:
        _refuse(f"decommission of broker {node_id} is not changed", changed.error_code, changed.error_message)


def unregister(connection: KafkaConnection, node_id: int) -> None:
    request = unregister_broker.UnregisterBrokerRequest(node_id)
    response = connection.ask_message(unregister_broker, ApiKey.UNREGISTER_BROKER, 0, request)
    if response.error_code != ErrorCode.BROKER_ID_NOT_REGISTERED:
        _refuse(f"broker {node_id} is not unregistered", response.error_code, response.error_message)


def produce(connection: KafkaConnection, partition: Partition, value: bytes) -> int:
    """Appends one record with acks=all. Returns its offset."""
    batch = build_batch([Record(None, value, time.time_ns() // 1_000_000)])
    writer = Writer()
    writer.nullable_string(None, flexible=False)
    writer.int16(ACKS_ALL)
    writer.int32(TIMEOUT_MS)
    writer.int32(1)
    writer.string(partition.topic, flexible=False)
    writer.int32(1)
    writer.int32(partition.index)
    writer.nullable_data(batch, flexible=False)
    reader = connection.ask(ApiKey.PRODUCE, 3, writer)
    reader.array_length(False)
    reader.string(False)
    reader.array_length(False)
    reader.int32()
    _refuse(f"a record for {partition.topic}-{partition.index} is not taken", reader.int16(), None)
    return reader.int64()


def fetch(connection: KafkaConnection, partition: Partition, offset: int) -> bytes | None:
    """The value of the first record at that offset, if consumers see it already."""
    writer = Writer()
    for number in (-1, 500, 1, 1 << 20):  # replica, wait, least and most bytes
        writer.int32(number)
    writer.int8(0)
    writer.int32(1)
    writer.string(partition.topic, flexible=False)
    writer.int32(1)
    writer.int32(partition.index)
    writer.int64(offset)
    writer.int32(1 << 20)
    reader = connection.ask(ApiKey.FETCH, 4, writer)
    reader.int32()
    reader.array_length(False)
    reader.string(False)
    reader.array_length(False)
    reader.int32()
    _refuse(f"{partition.topic}-{partition.index} is not read", reader.int16(), None)
    for _ in range(2):  # high watermark, last stable offset
        reader.int64()
    for _ in range(max(0, reader.nullable_array_length(False))):
        reader.int64()
        reader.int64()
    records = reader.nullable_data(False)
    return next(iter_records(records)).value if records else None


def _refuse(what: str, code: int, message: str | None) -> None:
    if code:
        raise Refused(f"{what}: {ErrorCode(code).name}{f' ({message})' if message else ''}")
