"""A kind of record, with its reader and writer."""

from collections.abc import Callable
from typing import Any

from libs.lean_dataclass import dataclass
from libs.wire.primitives import Writer
from services.group_coordinator.core.model.records import Record


@dataclass(frozen=True, slots=True)
class Kind:
    changed: type
    removed: Callable[..., Record]
    key: tuple[str, ...]
    """Field names of the key: the first fields of `changed`, and all of `removed`. All are strings, except `partition`."""
    last_version: int
    """The last version of values. The first is 0."""
    read: Callable[..., Record]
    """`read(reader, version, *key)` reads a value after its version."""
    write: Callable[[Writer, Any], None]
    """Writes a value, its version first."""


def write_compact_string(writer: Writer, value: str) -> None:
    writer.string(value, True)


GROUP = ("group",)
MEMBER = ("group", "member_id")
