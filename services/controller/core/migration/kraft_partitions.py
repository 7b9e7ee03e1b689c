"""PartitionRecord and PartitionChangeRecord of Kafka's metadata log: who holds a partition, and who of them is in sync."""

from libs.lean_dataclass import dataclass
from libs.wire.primitives import Reader, Writer


@dataclass(frozen=True, slots=True)
class PartitionAdded:
    """`directories`: the id of each replica's log directory, in the order of `replicas`; () where they are not known."""

    topic_id: bytes
    index: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    directories: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionChanged:
    """What changed of a partition. None: that did not change. `leader` None: nor did the leader epoch."""

    topic_id: bytes
    index: int
    isr: tuple[int, ...] | None = None
    leader: int | None = None
    replicas: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    directories: tuple[bytes, ...] | None = None


def read_added(reader: Reader, version: int) -> PartitionAdded:
    """The record, without its recovery state and its eligible leader replicas: each replica is asked for its log anyway."""
    index, topic_id = reader.int32(), reader.uuid()
    replicas, isr, removing, adding = [tuple(reader.array(True, Reader.int32)) for _ in range(4)]
    leader, leader_epoch, partition_epoch = reader.int32(), reader.int32(), reader.int32()
    directories = tuple(reader.array(True, Reader.uuid)) if version >= 1 else ()
    return PartitionAdded(topic_id, index, replicas, isr, leader, leader_epoch, partition_epoch, removing, adding, directories)


def write_added(writer: Writer, record: PartitionAdded) -> None:
    """Version 1, without its tagged fields."""
    writer.int32(record.index)
    writer.uuid(record.topic_id)
    for node_ids in (record.replicas, record.isr, record.removing, record.adding):
        writer.array(node_ids, True, Writer.int32)
    writer.int32(record.leader)
    writer.int32(record.leader_epoch)
    writer.int32(record.partition_epoch)
    writer.array(record.directories, True, Writer.uuid)


def read_changed(reader: Reader, version: int) -> PartitionChanged:
    index, topic_id = reader.int32(), reader.uuid()
    node_ids: dict[int, tuple[int, ...]] = {}
    leader: int | None = None
    directories: tuple[bytes, ...] | None = None
    for tag, field in reader.tagged_fields():
        if tag == 1:
            leader = field.int32()
        elif tag in (0, 2, 3, 4):
            node_ids[tag] = tuple(field.array(True, Reader.int32))
        elif tag == 8:
            directories = tuple(field.array(True, Reader.uuid))
    return PartitionChanged(
        topic_id, index, node_ids.get(0), leader, node_ids.get(2), node_ids.get(3), node_ids.get(4), directories
    )
