"""The requests of the programs, as functions. A refusal is raised as a sentence of the broker."""

import time
from collections.abc import Callable

from libs.client.fetch import fetch_batches
from libs.client.kafka_connection import KafkaConnection
from libs.client.metadata import Partition
from libs.telemetry.tracing.span import SpanContext
from libs.telemetry.tracing.traceparent import TRACEPARENT, format_traceparent
from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages import (
    create_topics,
    delete_topics,
    describe_cluster,
    describe_log_dirs,
    incremental_alter_configs,
    unregister_broker,
)
from libs.wire.primitives import Writer
from libs.wire.record_batches.records import Record, build_batch, iter_records

Connect = Callable[[str, int], KafkaConnection]
"""Opens a connection to a host and port, by TLS and as a user if the cluster asks for them."""

BROKER = 4
SET, DELETE = 0, 1
ACKS_ALL = -1
TIMEOUT_MS = 10_000


class Refused(Exception):
    """A broker's answer with an error."""


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


def topics_on(connection: KafkaConnection) -> set[str]:
    """The topics of which the broker behind the connection has logs. It takes DESCRIBE on the cluster, and none on topics."""
    request = describe_log_dirs.DescribeLogDirsRequest(topics=None)
    response = connection.ask_message(describe_log_dirs, ApiKey.DESCRIBE_LOG_DIRS, 3, request)
    _refuse("DescribeLogDirs", response.error_code, None)
    return {topic.name for directory in response.results for topic in directory.topics}


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


def produce(connection: KafkaConnection, partition: Partition, value: bytes, context: SpanContext) -> int:
    """Appends one record with acks=all, which carries the trace context. Returns its offset."""
    headers = ((TRACEPARENT, format_traceparent(context).encode()),)
    batch = build_batch([Record(None, value, time.time_ns() // 1_000_000, headers)])
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
    fetched = fetch_batches(connection, partition.topic, partition.index, offset, wait_ms=500, bytes_max=1 << 20)
    _refuse(f"{partition.topic}-{partition.index} is not read", fetched.error_code, None)
    return next(iter_records(fetched.records)).value if fetched.records else None


def _refuse(what: str, code: int, message: str | None) -> None:
    if code:
        raise Refused(f"{what}: {ErrorCode(code).name}{f' ({message})' if message else ''}")
