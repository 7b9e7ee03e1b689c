"""Log directories as a stopped Kafka leaves them, made without a Kafka."""

from collections.abc import Mapping
from pathlib import Path

from libs.commitlog.files.filesystem import OsFileSystem
from libs.commitlog.partition_log.directory import encode_id
from libs.wire.primitives import Writer
from libs.wire.record_batches.records import Record, build_batch
from services.controller.core.migration.kraft_partitions import PartitionAdded
from services.controller.core.migration.kraft_records import BrokerRegistered, ConfigSet, ProducerIdsTaken, TopicAdded, encode

FS = OsFileSystem()
CLUSTER = "cGVuc3RvY2stdGVzdHMtMQ"
DIRECTORY_ID = bytes([7]) * 16
ORDERS = bytes([1]) * 16
METADATA_TOPIC = (1).to_bytes(16, "big")
METADATA_4_2 = b"\x01\x0c\x00\x11metadata.version\x00\x1d\x00"
"""FeatureLevelRecord of metadata.version 29, as Kafka 4.2.1 wrote it."""

KAFKAS_ACL = bytes.fromhex(
    "0112000102030405060708090a0b0c0d0e0f1002086f72646572732d0409557365723a616e6e10303a303a303a303a303a303a303a31030300"
)
"""AccessControlEntryRecord: `User:ann` may READ topics that begin with `orders-`, from `0:0:0:0:0:0:0:1`. It is as Kafka 4.2.1
writes it, like those below."""
KAFKAS_ACL_REMOVAL = bytes.fromhex("0113000102030405060708090a0b0c0d0e0f1000")
KAFKAS_SCRAM = bytes.fromhex("010b0004616e6e01117369787465656e206279746573206f660773746f726564077365727665720000100000")
"""UserScramCredentialRecord of ann."""
KAFKAS_SCRAM_REMOVAL = bytes.fromhex("01160004616e6e0100")


def partition_of(topic_id: bytes, index: int = 0, node_id: int = 1) -> PartitionAdded:
    return PartitionAdded(topic_id, index, (node_id,), (node_id,), node_id, 4, 9, directories=(DIRECTORY_ID,))


def a_topic() -> list[bytes]:
    """The records of a cluster with the topic orders."""
    records = [
        TopicAdded("orders", ORDERS),
        partition_of(ORDERS),
        ConfigSet(2, "orders", "retention.ms", "777000"),
        ProducerIdsTaken(5000),
    ]
    return [METADATA_4_2, *map(encode, records)]


def quota(entity: Mapping[str, str | None], key: str, value: float | None) -> bytes:
    """A ClientQuotaRecord. `value` None removes the quota."""
    writer = Writer()
    writer.buffer += b"\x01\x0e\x00"
    writer.array_length(len(entity), True)
    for kind, name in entity.items():
        writer.string(kind, True)
        writer.nullable_string(name, True)
        writer.no_tagged_fields()
    writer.string(key, True)
    writer.float64(0.0 if value is None else value)
    writer.boolean(value is None)
    writer.no_tagged_fields()
    return bytes(writer.buffer)


def brokers(count: int) -> list[bytes]:
    """The registrations of so many brokers."""
    return [encode(BrokerRegistered(broker_id, "", (DIRECTORY_ID,), 1)) for broker_id in range(1, count + 1)]


def metadata_log(directory: Path, values: list[bytes]) -> None:
    """A `__cluster_metadata-0` with these values of records, a batch each."""
    at = directory / "__cluster_metadata-0"
    at.mkdir(parents=True, exist_ok=True)
    (at / "partition.metadata").write_text(f"version: 0\ntopic_id: {encode_id(METADATA_TOPIC)}", encoding="utf-8")
    batches = [build_batch([Record(None, value, 0)], base_offset=i, leader_epoch=1) for i, value in enumerate(values)]
    (at / f"{0:020d}.log").write_bytes(b"".join(bytes(batch) for batch in batches))


def log_directory(
    path: Path, *, node_id: int = 1, directory_id: bytes = DIRECTORY_ID, clean: bool = True, values: list[bytes] | None = None
) -> Path:
    """A log directory with the partition orders-0, and with a metadata log unless `values` is []."""
    path.mkdir(parents=True)
    lines = {"version": "1", "node.id": str(node_id), "cluster.id": CLUSTER, "directory.id": encode_id(directory_id)}
    (path / "meta.properties").write_text("".join(f"{name}={value}\n" for name, value in lines.items()), encoding="utf-8")
    (path / "orders-0").mkdir()
    (path / "orders-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {encode_id(ORDERS)}", encoding="utf-8")
    (path / "orders-0" / f"{0:020d}.log").write_bytes(b"")
    if clean:
        (path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":12}', encoding="utf-8")
    if values != []:
        metadata_log(path, a_topic() if values is None else values)
    return path
