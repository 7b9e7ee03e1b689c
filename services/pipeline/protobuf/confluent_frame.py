"""The message indexes of Confluent's framing, which lie between schema id and message.

A count and as many indexes, all of them zigzag varints, name the message type within the file of the writer's schema: the index
of a type of the file, then that of a type nested in it, and so on. The single byte 0 is short for the first type of the file.
"""

from typing import Any

from services.pipeline.protobuf.message_types import is_map_entry

HEADER_BYTES = 5
"""A zero byte and a schema id of four bytes, before each value of any format."""
Path = tuple[int, ...]
FIRST: Path = (0,)
_VARINT_BITS_MAX = 35
"""Confluent's indexes are 32-bit: five bytes of seven bits."""


def index_paths(message: Any) -> frozenset[Path]:
    """The paths that name the message type, one or two. Confluent's Java client counts the types that a file declares. Its Python
    and Go clients also count those that the compiler makes for map fields."""
    return frozenset({_path(message, with_map_entries=True), _path(message, with_map_entries=False)})


def read_indexes(data: bytes, position: int) -> tuple[Path, int]:
    """The path that begins at `position`, and the position behind it. Raises ValueError where there is none."""
    count, position = _zigzag(data, position)
    if count == 0:
        return FIRST, position
    if not 0 < count <= len(data) - position:
        raise ValueError(f"{count} message indexes")
    path = []
    for _ in range(count):
        index, position = _zigzag(data, position)
        path.append(index)
    return tuple(path), position


def _path(message: Any, *, with_map_entries: bool) -> Path:
    outer = message.containing_type
    siblings = message.file.message_types_by_name.values() if outer is None else outer.nested_types
    counted = [each.full_name for each in siblings if with_map_entries or not is_map_entry(each)]
    index = counted.index(message.full_name)
    return (index,) if outer is None else (*_path(outer, with_map_entries=with_map_entries), index)


def _zigzag(data: bytes, position: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, _VARINT_BITS_MAX, 7):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position
    raise ValueError("no varint")
