"""The records of Kafka's metadata log (KRaft) that say what a cluster holds: decoded from values, and encoded as such.

A value is a frame version, the record's key and its version, all as unsigned varints, and the record in compact encodings. The
schemas are those of Kafka 4.2: `metadata/src/main/resources/common/metadata`.
"""

from collections.abc import Callable
from operator import itemgetter
from typing import Final

from libs.lean_dataclass import dataclass
from libs.rpc.contracts.controller import QuotaEntityParts
from libs.wire.primitives import NO_UUID, ProtocolError, Reader, Writer
from services.controller.core.migration.kraft_partitions import (
    PartitionAdded,
    PartitionChanged,
    read_added,
    read_changed,
    write_added,
)
from services.controller.core.migration.kraft_security import (
    AclAdded,
    AclRemoved,
    ScramRemoved,
    ScramSet,
    TokenChanged,
    read_acl,
    read_scram,
    read_scram_removal,
    write_acl,
    write_scram,
)

FRAME_VERSION: Final = 1


class UnreadableRecord(Exception):
    """A record that this version cannot read. The message says which one."""


@dataclass(frozen=True, slots=True)
class BrokerRegistered:
    """A broker's registration. It is fenced, without listeners, in what is encoded."""

    broker_id: int
    rack: str
    log_dirs: tuple[bytes, ...]
    epoch: int


@dataclass(frozen=True, slots=True)
class BrokerChanged:
    """`log_dirs`: () if they did not change."""

    broker_id: int
    log_dirs: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class BrokerUnregistered:
    broker_id: int


@dataclass(frozen=True, slots=True)
class TopicAdded:
    name: str
    topic_id: bytes


@dataclass(frozen=True, slots=True)
class TopicRemoved:
    topic_id: bytes


@dataclass(frozen=True, slots=True)
class ConfigSet:
    """`value` None removes the config. `resource_type` is Kafka's number."""

    resource_type: int
    resource: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class FeatureLevelSet:
    name: str
    level: int


@dataclass(frozen=True, slots=True)
class ProducerIdsTaken:
    next_producer_id: int


@dataclass(frozen=True, slots=True)
class QuotaSet:
    """A client quota of one entity. `value` None removes it."""

    entity: QuotaEntityParts
    key: str
    value: float | None


@dataclass(frozen=True, slots=True)
class TransactionBegun:
    """Records up to `TransactionEnded` count only then."""


@dataclass(frozen=True, slots=True)
class TransactionEnded:
    commits: bool


KraftRecord = (
    BrokerRegistered
    | BrokerChanged
    | BrokerUnregistered
    | TopicAdded
    | TopicRemoved
    | PartitionAdded
    | PartitionChanged
    | ConfigSet
    | FeatureLevelSet
    | ProducerIdsTaken
    | QuotaSet
    | AclAdded
    | AclRemoved
    | ScramSet
    | ScramRemoved
    | TokenChanged
    | TransactionBegun
    | TransactionEnded
)

EncodedRecord = BrokerRegistered | TopicAdded | PartitionAdded | ConfigSet | ProducerIdsTaken | AclAdded | ScramSet

_BROKER, _TOPIC, _PARTITION, _CONFIG, _FEATURE_LEVEL, _PRODUCER_IDS, _ACL, _SCRAM = 0, 2, 3, 4, 12, 15, 18, 11
_LOG_DIRS_TAG = 0
_WITHOUT_MEANING_HERE: Final = {7: 0, 8: 0, 20: 0, 21: 0, 26: 0, 27: 0, 28: 0}
"""The last versions of fences, removals of what is not taken over, no-ops, controllers and such."""


def decode(value: bytes) -> KraftRecord | None:
    """None for a record without a meaning here. Raises UnreadableRecord."""
    try:
        reader = Reader(memoryview(value))
        frame_version, key, version = reader.uvarint(), reader.uvarint(), reader.uvarint()
        if frame_version != FRAME_VERSION:
            raise UnreadableRecord(f"frame version {frame_version} of a record, not {FRAME_VERSION}")
        if version <= _WITHOUT_MEANING_HERE.get(key, -1):
            return None
        if key not in _READERS:
            raise UnreadableRecord(f"record type {key} in version {version}, which Kafka 4.2 does not write")
        last_version, read = _READERS[key]
        if version > last_version:
            raise UnreadableRecord(f"version {version} of record type {key}, not 0 to {last_version}")
        return read(reader, version)
    except ProtocolError as error:
        raise UnreadableRecord(f"a record that ends too early or has a broken field: {error}") from error


def encode(record: EncodedRecord) -> bytes:
    """The value of a record."""
    writer = Writer()
    writer.uvarint(FRAME_VERSION)
    match record:
        case BrokerRegistered():
            _begin(writer, _BROKER, 3)
            _write_registration(writer, record)
            return bytes(writer.buffer)
        case TopicAdded(name, topic_id):
            _begin(writer, _TOPIC, 0)
            writer.string(name, True)
            writer.uuid(topic_id)
        case PartitionAdded():
            _begin(writer, _PARTITION, 1)
            write_added(writer, record)
        case ConfigSet(resource_type, resource, name, value):
            _begin(writer, _CONFIG, 0)
            writer.int8(resource_type)
            writer.string(resource, True)
            writer.string(name, True)
            writer.nullable_string(value, True)
        case ProducerIdsTaken(next_producer_id):
            _begin(writer, _PRODUCER_IDS, 0)
            writer.int32(-1)
            writer.int64(-1)
            writer.int64(next_producer_id)
        case AclAdded():
            _begin(writer, _ACL, 0)
            write_acl(writer, record)
        case ScramSet():
            _begin(writer, _SCRAM, 0)
            write_scram(writer, record)
    writer.no_tagged_fields()
    return bytes(writer.buffer)


def _begin(writer: Writer, key: int, version: int) -> None:
    writer.uvarint(key)
    writer.uvarint(version)


def _read_registration(reader: Reader, version: int) -> BrokerRegistered:
    broker_id = reader.int32()
    if version >= 2:
        reader.boolean()
    reader.uuid()
    epoch = reader.int64()
    reader.array(True, _skip_endpoint)
    reader.array(True, _skip_feature)
    rack = reader.nullable_string(True) or ""
    reader.boolean()
    if version >= 1:
        reader.boolean()
    return BrokerRegistered(broker_id, rack, _tagged_directories(reader, _LOG_DIRS_TAG), epoch)


def _write_registration(writer: Writer, record: BrokerRegistered) -> None:
    """Version 3: fenced, without an incarnation, listeners or features."""
    writer.int32(record.broker_id)
    writer.boolean(False)
    writer.uuid(NO_UUID)
    writer.int64(record.epoch)
    writer.array_length(0, True)
    writer.array_length(0, True)
    writer.nullable_string(record.rack or None, True)
    writer.boolean(True)
    writer.boolean(False)
    log_dirs = Writer()
    log_dirs.array(record.log_dirs, True, Writer.uuid)
    writer.tagged_fields([(_LOG_DIRS_TAG, log_dirs)])


def _skip_endpoint(reader: Reader) -> None:
    reader.string(True)
    reader.string(True)
    reader.uint16()
    reader.int16()
    reader.skip_tagged_fields()


def _skip_feature(reader: Reader) -> None:
    reader.string(True)
    reader.int16()
    reader.int16()
    reader.skip_tagged_fields()


def _read_registration_change(reader: Reader, version: int) -> BrokerChanged:
    broker_id = reader.int32()
    reader.int64()
    return BrokerChanged(broker_id, _tagged_directories(reader, 2))


def _tagged_directories(reader: Reader, wanted: int) -> tuple[bytes, ...]:
    found: tuple[bytes, ...] = ()
    for tag, field in reader.tagged_fields():
        if tag == wanted:
            found = tuple(field.array(True, Reader.uuid))
    return found


def _read_config(reader: Reader, version: int) -> ConfigSet:
    return ConfigSet(reader.int8(), reader.string(True), reader.string(True), reader.nullable_string(True))


def _read_quota(reader: Reader, version: int) -> QuotaSet:
    entity = reader.array(True, _read_entity_part)
    key, value, is_removed = reader.string(True), reader.float64(), reader.boolean()
    return QuotaSet(tuple(sorted(entity, key=itemgetter(0))), key, None if is_removed else value)


def _read_entity_part(reader: Reader) -> tuple[str, str | None]:
    kind, name = reader.string(True), reader.nullable_string(True)
    reader.skip_tagged_fields()
    return kind, name


def _read_producer_ids(reader: Reader, version: int) -> ProducerIdsTaken:
    reader.int32()
    reader.int64()
    return ProducerIdsTaken(reader.int64())


_READERS: Final[dict[int, tuple[int, Callable[[Reader, int], KraftRecord]]]] = {
    _BROKER: (3, _read_registration),
    1: (0, lambda reader, version: BrokerUnregistered(reader.int32())),
    _TOPIC: (0, lambda reader, version: TopicAdded(reader.string(True), reader.uuid())),
    _PARTITION: (2, read_added),
    _CONFIG: (0, _read_config),
    5: (2, read_changed),
    9: (0, lambda reader, version: TopicRemoved(reader.uuid())),
    10: (0, lambda reader, version: TokenChanged()),
    _SCRAM: (0, read_scram),
    _FEATURE_LEVEL: (0, lambda reader, version: FeatureLevelSet(reader.string(True), reader.int16())),
    14: (0, _read_quota),
    _PRODUCER_IDS: (0, _read_producer_ids),
    17: (2, _read_registration_change),
    _ACL: (0, read_acl),
    19: (0, lambda reader, version: AclRemoved(reader.uuid())),
    22: (0, read_scram_removal),
    23: (0, lambda reader, version: TransactionBegun()),
    24: (0, lambda reader, version: TransactionEnded(True)),
    25: (0, lambda reader, version: TransactionEnded(False)),
}
"""The last version of each record that Kafka 4.2 knows, and its reader."""
