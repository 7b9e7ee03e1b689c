"""Message types of a FileDescriptorSet, as `protoc --include_imports --descriptor_set_out` writes it, and which can be columns.

The package `protobuf` has no type stubs: descriptors are `Any` here. A *message type* is its `Descriptor`.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

TIMESTAMP = "google.protobuf.Timestamp"


class InvalidDescriptorSet(ValueError):
    """Bytes that are no FileDescriptorSet, or one without its imports. The message is the reason, as a clause."""


class UnfitMessage(ValueError):
    """A message type that cannot be a struct of columns. The message is the reason, as a clause."""


class MessageTypes:
    """All message types of a descriptor set, nested ones included. Raises InvalidDescriptorSet."""

    def __init__(self, document: bytes) -> None:
        pool = DescriptorPool()
        try:
            files = [pool.Add(file) for file in FileDescriptorSet.FromString(document).file]
        except DecodeError:
            raise InvalidDescriptorSet("its bytes are no FileDescriptorSet") from None
        except TypeError as error:
            raise InvalidDescriptorSet(str(error).removeprefix("Couldn't build proto file into descriptor pool: ")) from None
        found = [each for file in files for each in _with_nested(file.message_types_by_name.values())]
        if not found:
            raise InvalidDescriptorSet("it has no message")
        self._by_name = {each.full_name: each for each in found}

    @property
    def names(self) -> tuple[str, ...]:
        """Full names, in the order of the set: imports come before the files that import them."""
        return tuple(self._by_name)

    def __getitem__(self, name: str) -> Any:
        return self._by_name[name]


def refuse_unfit(message: Any) -> None:
    """Raises UnfitMessage if a message contains itself, has no column, or has columns that Spark cannot tell apart."""
    _refuse_recursive(message, ())
    if not column_fields(message):
        raise UnfitMessage(f"{message.full_name} has no column")


def column_fields(message: Any) -> list[Any]:
    """The fields that become columns, in the order of the declaration. A field of a message without columns is none of them:
    neither Parquet nor Delta has empty structs."""
    return [field for field in message.fields if (inner := nested_message(field)) is None or column_fields(inner)]


def nested_message(field: Any) -> Any:
    """The message type whose fields lie below the field's column, in a struct, an array or a map. None: it has no such fields."""
    inner = map_value(field).message_type if is_map(field) else field.message_type
    return None if inner is None or inner.full_name == TIMESTAMP else inner


def is_map(field: Any) -> bool:
    return field.message_type is not None and is_map_entry(field.message_type)


def is_map_entry(message: Any) -> bool:
    """Whether the type is one that the compiler made for a map field."""
    return bool(message.GetOptions().map_entry)


def map_key(field: Any) -> Any:
    return field.message_type.fields_by_name["key"]


def map_value(field: Any) -> Any:
    return field.message_type.fields_by_name["value"]


def _with_nested(messages: Iterable[Any]) -> Iterator[Any]:
    for message in messages:
        if not is_map_entry(message):
            yield message
            yield from _with_nested(message.nested_types)


def _refuse_recursive(message: Any, outer: tuple[str, ...]) -> None:
    """`outer`: full names of the messages around this one."""
    path = (*outer, message.full_name)
    names: dict[str, str] = {}
    for field in message.fields:
        other = names.setdefault(field.name.lower(), field.name)
        if other != field.name:
            raise UnfitMessage(f"{message.full_name} has {other} and {field.name}, which are one column to Spark")
        inner = nested_message(field)
        if inner is not None and inner.full_name in path:
            raise UnfitMessage(f"{inner.full_name} contains itself by {message.full_name}.{field.name}")
        if inner is not None:
            _refuse_recursive(inner, path)
