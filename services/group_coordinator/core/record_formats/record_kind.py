"""What is to be known of a kind of record to read and write it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from libs.wire.primitives import STRING_BYTES_MAX, Writer
from services.group_coordinator.core.records import Record


@dataclass(frozen=True, slots=True)
class Kind:
    changed: type
    removed: Callable[..., Record]
    key: tuple[str, ...]
    """The names of its fields: the first of `changed`, and all of `removed`. Strings, but for `partition`."""
    last_version: int
    """Of values, which begin at 0."""
    read: Callable[..., Record]
    """`read(reader, version, *key)`: a value behind its version."""
    write: Callable[[Writer, Any], None]
    """A value, its version first."""


class RecordWriter(Writer):
    """Writes nothing that could not be read again: a shard with such a record would never be loaded."""

    __slots__ = ()

    def string(self, value: str, flexible: bool) -> None:
        if len(value) > STRING_BYTES_MAX // 4 and len(value.encode()) > STRING_BYTES_MAX:
            raise ValueError(f"string of {len(value)} characters does not fit")
        super().string(value, flexible)


def write_compact_string(writer: Writer, value: str) -> None:
    writer.string(value, True)


GROUP = ("group",)
MEMBER = ("group", "member_id")
