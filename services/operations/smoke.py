"""The smoke test: one record to each broker and back, at the addresses that the cluster advertises."""

import time
from collections.abc import Callable
from random import SystemRandom
from secrets import token_hex

from libs.client.kafka_connection import BrokerUnreachable, KafkaConnection
from libs.client.metadata import Broker, ClusterView, metadata
from libs.host_port import with_port
from libs.telemetry.tracing.ids import random_context
from libs.wire.errors import ErrorCode
from services.operations.requests import (
    Connect,
    Refused,
    create_topic,
    delete_topic,
    fetch,
    produce,
)

PAUSE_S = 0.2


class SmokeFailed(Exception):
    """What did not work, in a sentence."""


def smoke(connect: Connect, host: str, port: int, timeout_s: float, say: Callable[[str], None]) -> None:
    """Produces to a topic of its own and consumes from it. Raises SmokeFailed, BrokerUnreachable, Refused,
    SecurityProblem."""
    deadline = time.monotonic() + timeout_s
    topic = f"penstock-smoke-{token_hex(4)}"
    with _connected(connect, host, port, deadline) as bootstrap:
        brokers = metadata(bootstrap, []).brokers
        for broker in brokers.values():
            _check_address(connect, broker)
            say(f"broker {broker.node_id} answers at {with_port(broker.host, broker.port)}")
        create_topic(bootstrap, topic, max(1, len(brokers)))
        try:
            for index in range(len(_led(bootstrap, topic, deadline).partitions)):
                leader, trace_id = _round_trip(connect, bootstrap, topic, index, deadline)
                say(f"a record went to {topic}-{index} at broker {leader} and came back (trace {trace_id:032x})")
        finally:
            delete_topic(bootstrap, topic)


def _connected(connect: Connect, host: str, port: int, deadline: float) -> KafkaConnection:
    """The cluster may have been installed a moment ago."""
    while True:
        try:
            connection = connect(host, port)
            if _names_brokers(connection):
                return connection
            problem = f"{connection.address} names no broker yet"
        except BrokerUnreachable as error:
            problem = str(error)
        _pause(deadline, problem)


def _names_brokers(connection: KafkaConnection) -> bool:
    """Otherwise the connection is closed."""
    has_brokers = False
    try:
        has_brokers = bool(metadata(connection, []).brokers)
    finally:
        if not has_brokers:
            connection.close()
    return has_brokers


def _check_address(connect: Connect, broker: Broker) -> None:
    with connect(broker.host, broker.port) as connection:
        metadata(connection, [])


def _led(bootstrap: KafkaConnection, topic: str, deadline: float) -> ClusterView:
    """The topic once each of its partitions has a leader."""
    while True:
        view = metadata(bootstrap, [topic])
        if view.errors.get(topic) == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise Refused(f"topic {topic} is not described: {ErrorCode.TOPIC_AUTHORIZATION_FAILED.name}")
        if view.partitions and all(partition.leader in view.brokers for partition in view.partitions):
            return view
        _pause(deadline, f"partitions of {topic} have no leader")


def _round_trip(connect: Connect, bootstrap: KafkaConnection, topic: str, index: int, deadline: float) -> tuple[int, int]:
    """Sends a record to the partition's leader and reads it there. Returns that broker's id, and the id of the record's trace.

    After a refusal it asks who leads now, as clients do. In a cluster that has just started, leaderships move; a new leader may
    refuse at first, as may a partition whose followers have not begun.
    """
    value, context = token_hex(16).encode(), random_context(SystemRandom())
    offset: int | None = None
    while True:
        view = _led(bootstrap, topic, deadline)
        partition = next(each for each in view.partitions if each.index == index)
        broker = view.brokers[partition.leader]
        try:
            with connect(broker.host, broker.port) as connection:
                if offset is None:
                    offset = produce(connection, partition, value, context)
                while (read := fetch(connection, partition, offset)) is None:
                    _pause(deadline, f"the record at offset {offset} of {topic}-{index} is not visible")
        except Refused as refusal:
            _pause(deadline, str(refusal))
            continue
        if read != value:
            raise SmokeFailed(f"{topic}-{index} has {read!r} at offset {offset}, not {value!r}")
        return partition.leader, context.trace_id


def _pause(deadline: float, problem: str) -> None:
    if time.monotonic() > deadline:
        raise SmokeFailed(f"{problem}, and the time is over")
    time.sleep(PAUSE_S)
