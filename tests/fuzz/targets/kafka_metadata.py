"""Records of Kafka's metadata log, which `make from-kafka` reads. An input is the value of one record."""

from collections.abc import Iterator

from services.controller.core.migration.kraft_partitions import PartitionAdded
from services.controller.core.migration.kraft_records import (
    BrokerRegistered,
    ConfigSet,
    ProducerIdsTaken,
    TopicAdded,
    UnreadableRecord,
    decode,
    encode,
)
from services.controller.core.migration.kraft_security import AclAdded, ScramSet
from tests.controller import kafka_metadata as kafka

_ENCODED = (BrokerRegistered, TopicAdded, PartitionAdded, ConfigSet, ProducerIdsTaken, AclAdded, ScramSet)


def check(data: bytes) -> None:
    try:
        record = decode(data)
    except UnreadableRecord:
        return
    if isinstance(record, _ENCODED):
        assert decode(encode(record)) == record, record


def seeds() -> Iterator[bytes]:
    yield from kafka.a_topic()
    yield from kafka.brokers(2)
    yield kafka.quota({"user": "u", "client-id": None}, "producer_byte_rate", 1024.0)
    yield kafka.quota({"ip": "10.0.0.1"}, "connection_creation_rate", None)
    yield from (kafka.KAFKAS_ACL, kafka.KAFKAS_ACL_REMOVAL, kafka.KAFKAS_SCRAM, kafka.KAFKAS_SCRAM_REMOVAL)
