"""One plausible request of each API and version, and its variants: each number in it at each of its bounds, one at a time."""

from collections.abc import Iterator
from copy import deepcopy
from itertools import count
from typing import Any, Final, NamedTuple

from libs.wire.api_keys import ApiKey
from libs.wire.record_batches.batches import CRC_START, HEADER, BatchHeader, crc32c
from libs.wire.record_batches.records import Record, build_batch
from libs.wire.schema import Field, Message
from libs.wire.served_versions import SERVED_VERSIONS
from tests.dev.bounds.connection import message_of
from tests.dev.bounds.schema_codec import INTEGERS, Value, fields_of, root_of

TOPIC: Final = "numbers"
DELETED_FROM: Final = "deleted-from"
"""The topic whose records DeleteRecords removes."""
FOREIGN_PRODUCER: Final = 987_654_321
"""A producer id that no client has. An operator's markers name it."""
NODE_ID: Final = 1

_BATCH_FIELDS: Final = {
    name: kind
    for name, kind in zip(
        BatchHeader._fields,
        (
            *("int64", "int32", "int32", "int8", "uint32", "int16", "int32"),
            *("int64", "int64", "int64", "int16", "int32", "int32"),
        ),
        strict=True,
    )
    if name not in ("batch_length", "crc")
}


class Known(NamedTuple):
    """What a request may name that is there."""

    topic_id: bytes
    transactional_id: str
    producer_id: int
    producer_epoch: int
    group: str
    """A classic group with one member, in its first generation."""
    member_id: str
    consumer_group: str
    consumer_member_id: str
    number: int
    """It makes names unique."""


class Variant(NamedTuple):
    request: Value
    changed: str
    """The path of the number that differs from the plausible request, and its value."""


def bounds_of(kind: str, *, few: bool = False) -> tuple[int, ...]:
    bits = INTEGERS[kind]
    if kind.startswith("u"):
        return 0, 1, (1 << bits) - 1
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return (least, -1, 0, most) if few else (least, least + 1, -3, -2, -1, 0, 1, 2, most - 1, most)


def has_numbers(api_key: ApiKey, version: int) -> bool:
    message = message_of(api_key, "request", version)
    return any(field.kind in INTEGERS for struct in message.structs for field in struct.fields)


def variants(api_key: ApiKey, version: int) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """Each number of a request, by its path, with each value that it is to have: fewer in versions before the last."""
    few = version < SERVED_VERSIONS[api_key][1]
    message = message_of(api_key, "request", version)
    for path, field in _numbers(message, root_of(message), ()):
        for value in bounds_of(field.kind, few=few):
            yield path, value


def batch_variants() -> Iterator[tuple[str, int]]:
    """Each number of a batch's header, with each value that it is to have."""
    for name, kind in _BATCH_FIELDS.items():
        for value in bounds_of(kind):
            yield name, value


def batch_with(name: str, value: int, **fields: Any) -> bytes:
    """A sound batch but for that number, with its own CRC."""
    batch = bytearray(build_batch([Record(b"k", b"v", 1_000)], **fields))
    header = BatchHeader.at(memoryview(batch))
    HEADER.pack_into(batch, 0, *header._replace(**{name: value}))
    crc = crc32c(memoryview(batch)[CRC_START:])
    HEADER.pack_into(batch, 0, *BatchHeader.at(memoryview(batch))._replace(crc=crc))
    return bytes(batch)


def changed(request: Value, path: tuple[str | int, ...], value: int) -> Value:
    request = deepcopy(request)
    at: Any = request
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return request


def plausible(api_key: ApiKey, version: int, known: Known) -> Value:
    message = message_of(api_key, "request", version)
    return _struct(message, root_of(message), api_key, known)


def _numbers(message: Message, struct: str, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Field]]:
    for field in fields_of(message, struct):
        place = (*path, field.name, 0) if field.array else (*path, field.name)
        if field.struct:
            yield from _numbers(message, field.kind, place)
        elif field.kind in INTEGERS:
            yield place, field


def _struct(message: Message, struct: str, api_key: ApiKey, known: Known) -> Value:
    return {field.name: _value(message, struct, field, api_key, known) for field in fields_of(message, struct)}


def _value(message: Message, struct: str, field: Field, api_key: ApiKey, known: Known) -> Any:
    given = _given(struct, field.name, api_key, known)
    if given is not ...:
        return given
    if field.struct:
        one = _struct(message, field.kind, api_key, known)
        return [one] if field.array else one
    if field.array:
        return [_text(field.name, api_key, known) if field.kind == "string" else 0]
    if field.kind == "uuid":
        return known.topic_id if field.name == "topic_id" else bytes(16)
    if field.kind == "string":
        return None if field.nullable_from is not None else _text(field.name, api_key, known)
    if field.kind == "records":
        return bytes(build_batch([Record(b"k", b"v", 1_000)]))
    return field.default


def _text(name: str, api_key: ApiKey, known: Known) -> str:
    if "group" in name:
        return known.group
    return known.transactional_id if "transactional" in name else TOPIC


def _given(struct: str, name: str, api_key: ApiKey, known: Known) -> Any:
    """What a field must be, so that the request is plausible; `...` if anything is."""
    values = _BY_API.get(api_key, {})
    for key in (f"{struct}.{name}", name):
        if key in values:
            value = values[key]
            return value(known) if callable(value) else value
    return _EVERYWHERE[name](known) if name in _EVERYWHERE else ...


_EVERYWHERE: Final[dict[str, Any]] = {
    "producer_id": lambda known: known.producer_id,
    "producer_epoch": lambda known: known.producer_epoch,
    "topic_id": lambda known: known.topic_id,
    "timeout_ms": lambda known: 5_000,
    "rack_id": lambda known: "",
    "transactional_id": lambda known: known.transactional_id,
}


def _unique(prefix: str) -> Any:
    return lambda known: f"{prefix}-{known.number}"


_GROUP_MEMBER: Final = {"group_id": lambda known: known.group, "member_id": lambda known: known.member_id, "generation_id": 1}

_ACL: Final = {
    "resource_type": 2,
    "resource_type_filter": 2,
    "resource_pattern_type": 3,
    "pattern_type_filter": 3,
    "operation": 3,
    "permission_type": 3,
    "principal": "User:a",
    "host": "*",
}

_BY_API: Final[dict[ApiKey, dict[str, Any]]] = {
    ApiKey.PRODUCE: {"transactional_id": None, "acks": -1},
    ApiKey.FETCH: {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "partition_max_bytes": 1 << 20,
        "session_epoch": -1,
        "forgotten_topics_data": [],
        "current_leader_epoch": -1,
        "last_fetched_epoch": -1,
        "topic": TOPIC,
    },
    ApiKey.LIST_OFFSETS: {"replica_id": -1, "current_leader_epoch": -1, "timestamp": -1},
    ApiKey.OFFSET_COMMIT: {
        **_GROUP_MEMBER,
        "generation_id_or_member_epoch": 1,
        "committed_metadata": "",
        "retention_time_ms": -1,
    },
    ApiKey.OFFSET_FETCH: {"OffsetFetchRequestGroup.member_id": None, "OffsetFetchRequestGroup.member_epoch": -1},
    ApiKey.JOIN_GROUP: {
        "group_id": _unique("joined"),
        "member_id": "",
        "session_timeout_ms": 6_000,
        "rebalance_timeout_ms": 6_000,
        "protocol_type": "consumer",
        "name": "range",
        "metadata": bytes(10),
        "group_instance_id": "i",
    },
    ApiKey.SYNC_GROUP: {**_GROUP_MEMBER, "assignments": [], "protocol_type": "consumer", "protocol_name": "range"},
    ApiKey.HEARTBEAT: _GROUP_MEMBER,
    ApiKey.TXN_OFFSET_COMMIT: {
        "group_id": "simple",
        "member_id": "",
        "generation_id": -1,
        "committed_metadata": "",
    },
    ApiKey.CONSUMER_GROUP_HEARTBEAT: {
        "group_id": lambda known: known.consumer_group,
        "member_id": lambda known: known.consumer_member_id,
        "member_epoch": 0,
        "rebalance_timeout_ms": 6_000,
        "subscribed_topic_names": [TOPIC],
        "rack_id": None,
        "topic_partitions": [],
        "server_assignor": None,
    },
    ApiKey.CREATE_TOPICS: {"CreatableTopic.name": _unique("made"), "num_partitions": 1, "replication_factor": 1, "configs": []},
    ApiKey.DELETE_TOPICS: {"topic_names": ["gone"], "DeleteTopicState.name": "gone", "topic_id": bytes(16)},
    ApiKey.DELETE_RECORDS: {"name": DELETED_FROM},
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: {
        "ScramCredentialDeletion.name": "gone",
        "ScramCredentialUpsertion.name": "made",
        "mechanism": 1,
        "iterations": 4_096,
        "salt": bytes(16),
        "salted_password": bytes(32),
    },
    ApiKey.DESCRIBE_CLIENT_QUOTAS: {"entity_type": "user", "match_type": 2, "match": None},
    ApiKey.CREATE_PARTITIONS: {"name": TOPIC, "count": 3, "assignments": None, "validate_only": True},
    ApiKey.INIT_PRODUCER_ID: {
        "transactional_id": _unique("made"),
        "transaction_timeout_ms": 6_000,
        "producer_id": -1,
        "producer_epoch": -1,
    },
    ApiKey.ADD_PARTITIONS_TO_TXN: {
        "v3_and_below_transactional_id": lambda known: known.transactional_id,
        "v3_and_below_producer_id": lambda known: known.producer_id,
        "v3_and_below_producer_epoch": lambda known: known.producer_epoch,
    },
    ApiKey.ADD_OFFSETS_TO_TXN: {"group_id": "simple"},
    ApiKey.WRITE_TXN_MARKERS: {"producer_id": FOREIGN_PRODUCER, "producer_epoch": 0, "coordinator_epoch": 0},
    ApiKey.OFFSET_FOR_LEADER_EPOCH: {"replica_id": -1, "current_leader_epoch": -1},
    **dict.fromkeys((ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS), _ACL),
    ApiKey.DESCRIBE_CONFIGS: {"resource_type": 2, "configuration_keys": None},
    ApiKey.ALTER_CONFIGS: {"resource_type": 2, "name": "retention.ms", "value": "100000000", "validate_only": True},
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {
        "resource_type": 2,
        "name": "retention.ms",
        "value": "100000000",
        "config_operation": 0,
        "validate_only": True,
    },
    ApiKey.ALTER_REPLICA_LOG_DIRS: {"path": "/nowhere"},
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: {"replicas": [NODE_ID]},
    ApiKey.UNREGISTER_BROKER: {"broker_id": 77},
    ApiKey.UPDATE_FEATURES: {"feature": "transaction.version", "max_version_level": 2, "upgrade_type": 1, "validate_only": True},
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: {"response_partition_limit": 10, "Cursor.topic_name": TOPIC},
    ApiKey.DESCRIBE_QUORUM: {"topic_name": "__cluster_metadata"},
    ApiKey.LIST_CONFIG_RESOURCES: {"resource_types": [2]},
    ApiKey.FIND_COORDINATOR: {"key": "g", "coordinator_keys": ["g"]},
}

ASSIGNED: Final[Value] = {"num_partitions": -1, "replication_factor": -1}
"""What a topic has beside its replica assignment."""


def without_assignments(request: Value) -> Value:
    """CreateTopics with counts alone. Kafka refuses both together."""
    request = deepcopy(request)
    for topic in request["topics"]:
        topic["assignments"] = []
    return request


def with_assignments(request: Value) -> Value:
    request = deepcopy(request)
    for topic in request["topics"]:
        topic.update(ASSIGNED, name=f"{topic['name']}-assigned")
        topic["assignments"] = [{"partition_index": 0, "broker_ids": [NODE_ID]}]
    return request


NUMBERS = count(1)
