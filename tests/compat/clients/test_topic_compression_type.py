"""Topics that keep a codec of their own, and topics whose records are checked: every client reads what they hold, and so does
Kafka's DumpLogSegments."""

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import ResourceType

from libs.wire.record_batches.compression import Codec
from tests.compat.clients.admin import Admin
from tests.compat.clients.compressed_records import codecs_on_disk, records_of
from tests.compat.clients.five_clients import CLIENTS, Record, read_by_all
from tests.compat.kafka.tools import run_tool
from tests.support.cluster_harness import LocalCluster

KEPT = {"uncompressed": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}
LEVELS = {"gzip": "9", "lz4": "12", "zstd": "10"}


def dumped(cluster: LocalCluster, topic: str) -> str:
    """The dump of the replicas, which are alike: the acks=all answer came when all had the record."""
    files = [found for name in cluster.names for found in cluster.data_directory(name).glob(f"**/{topic}-0/*.log")]
    file, *others = files
    assert len(others) == 2
    assert all(other.read_bytes() == file.read_bytes() for other in others)
    return run_tool("kafka-dump-log", "--deep-iteration", "--files", str(file)).text


@pytest.mark.parametrize("kept", KEPT)
def test_a_topic_keeps_its_own_codec_whatever_the_producers_chose(
    cluster: LocalCluster, admin: Admin, topic: str, kept: str
) -> None:
    config = {"compression.type": kept}
    if kept in LEVELS:
        config[f"compression.{kept}.level"] = LEVELS[kept]
    admin.create(topic, config=config)
    expected: list[Record] = []
    for (name, client), codec in zip(CLIENTS.items(), ("gzip", "none", "zstd", "lz4", "snappy"), strict=True):
        client.write(cluster.bootstrap, topic, records_of(name), codec=codec)
        expected += records_of(name)
    assert codecs_on_disk(cluster, topic) == {KEPT[kept]}
    for name, read in read_by_all(cluster.bootstrap, topic, len(expected)).items():
        assert read == expected, f"as {name} reads it"
    shown = dumped(cluster, topic)
    codec = KEPT[kept].name.lower()
    assert f"compresscodec: {codec}" in shown
    assert shown.count("compresscodec:") == shown.count(f"compresscodec: {codec}")
    assert shown.count("isvalid: true") == shown.count("baseOffset:")


def test_batches_of_every_client_pass_the_check_of_every_record(cluster: LocalCluster, admin: Admin, topic: str) -> None:
    admin.create(topic, config={"record.validation": "full"})
    expected: list[Record] = []
    for name, client in CLIENTS.items():
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            client.write(cluster.bootstrap, topic, records_of(name, 100), codec=codec)
            expected += records_of(name, 100)
    assert codecs_on_disk(cluster, topic) == set(Codec)
    for name, read in read_by_all(cluster.bootstrap, topic, len(expected)).items():
        assert read == expected, f"as {name} reads it"


def test_a_codec_may_change_while_a_producer_writes(cluster: LocalCluster, admin: Admin, topic: str) -> None:
    admin.create(topic)
    client = CLIENTS["confluent-kafka"]
    expected: list[Record] = []
    for kept in ("producer", "zstd", "uncompressed", "lz4", "producer"):
        admin.set_config(ResourceType.TOPIC, topic, "compression.type", kept)
        client.write(cluster.bootstrap, topic, records_of(kept), codec="gzip")
        expected += records_of(kept)
    assert client.read(cluster.bootstrap, topic, len(expected)) == expected
    assert Codec.GZIP in codecs_on_disk(cluster, topic)


def test_a_record_without_a_key_is_refused_on_a_compacted_topic(cluster: LocalCluster, admin: Admin, topic: str) -> None:
    admin.create(topic, config={"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    refusals: list[KafkaError | None] = []
    for key in (b"k", None, b"k"):
        producer.produce(topic, b"value", key, on_delivery=lambda error, message: refusals.append(error))
        assert producer.flush(60) == 0
    assert [error and error.code() for error in refusals] == [None, KafkaError.INVALID_RECORD, None]
    read = CLIENTS["confluent-kafka"].read(cluster.bootstrap, topic, 2)
    assert read == [Record(b"k", b"value")] * 2
