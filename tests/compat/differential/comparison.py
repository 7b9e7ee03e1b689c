"""Takes from an answer what two correct systems may fill differently, and finds what differs in the rest."""

import re
from collections.abc import Iterator
from math import ceil
from typing import Any

from tests.compat.differential.scenario import ABSENT, UNKNOWN_ID
from tests.compat.differential.systems import System

Path = tuple[str, ...]

# What names an item of an array: its order means nothing then.
IDENTITIES = (
    "name",
    "topic",
    "topic_id",
    "resource_name",
    "api_key",
    "index",
    "partition_index",
    "node_id",
    "broker_id",
    "member_id",
    "group_id",
    "entity_type",
    "key",
    "mechanism",
)
OF_ACLS = ("resource_type", "resource_name", "pattern_type", "principal", "operation", "permission_type")
MADE_BY_COORDINATORS = re.compile(r"(?<![^-])[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$|^[\w-]{22}$")
NO_ID = bytes(16)
ID_OF = "(id of "
ORDERED = ("synonyms",)
TIMES = (
    "log_append_time_ms",
    "last_fetch_timestamp",
    "last_caught_up_timestamp",
    "transaction_start_time_ms",
    "transaction_start_time",
)
WORDS = ("error_message", "batch_index_error_message", "documentation")


def normalise(value: Any, system: System, key: str = "") -> Any:
    """The whole list of what is not compared:

    - words for people: they must be there where Kafka has some; what they say is not compared, and having more is no harm
    - addresses, cluster id and topic ids: each system's own become what they stand for, any other stays as it is
    - what a coordinator makes of a member id: which member it is remains, and what it is named after
    - ids of producers: each system counts by itself
    - the time at which a batch was appended, a transaction began, and a voter was heard of
    - how far the metadata is
    - what of a throttle time is over: it is rounded up to seconds
    - paths and room of log directories
    - the order of what has a name
    """
    match value:
        case dict():
            return {name: normalise(item, system, name) for name, item in value.items()}
        case list():
            items = [normalise(item, system, key) for item in value]
            named = [_identity(item) for item in items]
            if items and key not in ORDERED and None not in named and len(set(named)) == len(named):
                return dict(zip(named, items, strict=True))
            return items
    if key in WORDS:
        return "(words)" if value else None
    if key == "port" and value == system.port:
        return "(port of broker 1)"
    if key == "value" and isinstance(value, str) and f":{system.port}" in value:
        return value.replace(f":{system.port}", ":(port of broker 1)")
    if key == "cluster_id" and value == system.cluster_id:
        return "(cluster id)"
    if key == "topic_id":
        if value in (NO_ID, UNKNOWN_ID):
            return value.hex()
        return next((f"{ID_OF}{name})" for name, known in system.topic_ids.items() if known == value), "(a new id)")
    if key == "log_dir":
        return "(a path)" if value.startswith("/") else value
    if key in ("total_bytes", "usable_bytes") and value > 0:
        return "(bytes)"
    if key in ("member_id", "leader") and isinstance(value, str) and (made := MADE_BY_COORDINATORS.search(value)):
        return f"{value[: made.start()]}(member {system.member_ids.setdefault(value, len(system.member_ids) + 1)})"
    if key == "producer_id" and value >= 0:
        return "(producer id)"
    if key in TIMES and value > 0:
        return "(a time)"
    if key == "throttle_time_ms" and value > 0:
        return f"({ceil(value / 1000)} s)"
    if key == "log_end_offset" and value > 0:
        return "(an offset)"
    return value


def differences(kafka: Any, penstock: Any, path: Path = ()) -> Iterator[tuple[Path, Any, Any]]:
    """(path, Kafka's, Penstock's), as deep in the answer as they differ."""
    if isinstance(kafka, dict) and isinstance(penstock, dict):
        for key in sorted(kafka.keys() | penstock.keys()):
            yield from differences(kafka.get(key, ABSENT), penstock.get(key, ABSENT), (*path, key))
    elif isinstance(kafka, list) and isinstance(penstock, list) and len(kafka) == len(penstock):
        for i, (one, other) in enumerate(zip(kafka, penstock, strict=True)):
            yield from differences(one, other, (*path, str(i)))
    elif path and path[-1] in WORDS and not kafka:
        return
    elif kafka != penstock or type(kafka) is not type(penstock):
        yield path, kafka, penstock


def _identity(item: Any) -> str | None:
    if not isinstance(item, dict):
        return None
    if isinstance(parts := item.get("entity"), dict):  # a quota entity, whose parts have their types as names
        return ", ".join(f"{kind} {part['entity_name']!r}" for kind, part in sorted(parts.items()))
    if "principal" in item or "pattern_type" in item:
        return " ".join(str(item[name]) for name in OF_ACLS if name in item)
    for name in IDENTITIES:
        if item.get(name) not in (None, "", "0" * 32):
            return str(item[name]).removeprefix(ID_OF).removesuffix(")")
    return None
