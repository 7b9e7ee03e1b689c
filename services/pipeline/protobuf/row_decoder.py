"""Messages as rows: a dictionary for each message, with a value for each of its columns that is not null.

| field | value |
|---|---|
| enum | the name of its number; the number as text if the type has no name for it |
| message | a dictionary |
| repeated, map | a list of values; a list of pairs |
| `google.protobuf.Timestamp` | microseconds since 1970 in UTC, rounded down |
| any other | as Python's `protobuf` gives it |

A field that the bytes lack is left out if it has presence. Without presence it has its default: Protobuf writes neither a field
that is unset nor one that has its default, so its readers take both for the default. A default that a proto2 file declares is
given also with presence.
"""

from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from services.pipeline.protobuf.message_types import TIMESTAMP, column_fields, is_map, map_key, map_value

Row = dict[str, Any]
Reader = Callable[[Any], Any]
_MICROSECONDS = 1_000_000
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""Years 1 to 9999, as `timestamp.proto` says."""
_NANOS_END = 1_000_000_000
_VARINT, _LENGTH_DELIMITED = 0, 2
"""Wire types."""


class NoValue(ValueError):
    """Bytes that are no value of the message type."""


class RowDecoder:
    """Decodes values of one message type. A call raises NoValue for bytes that do not parse, text that is no UTF-8, a timestamp
    outside the years 1 to 9999, a required field that is absent, and a field of another wire type than the declared one."""

    def __init__(self, message: Any) -> None:
        self._parse = GetMessageClass(message).FromString
        self._read = _message_reader(message)

    def __call__(self, data: bytes) -> Row:
        try:
            parsed = self._parse(data)
        except DecodeError as error:
            raise NoValue(str(error)) from None
        if not parsed.IsInitialized():
            raise NoValue("a required field is absent")
        row: Row = self._read(parsed)
        return row


def _message_reader(message: Any) -> Reader:
    columns = [(field, _reader(field)) for field in column_fields(message)]
    always = [(field.name, reader) for field, reader in columns if not field.has_presence or field.has_default_value]
    at_times = [(field.name, reader) for field, reader in columns if field.has_presence and not field.has_default_value]
    wire_types = {field.number: _wire_type_of_unknown(field) for field in message.fields}
    has_field = GetMessageClass(message).HasField

    def read(message: Any) -> Row:
        for unknown in UnknownFieldSet(message):
            if wire_types.get(unknown.field_number, unknown.wire_type) != unknown.wire_type:
                raise NoValue(f"field {unknown.field_number} has the wire type {unknown.wire_type}")
        row = {name: reader(getattr(message, name)) for name, reader in always}
        for name, reader in at_times:
            if has_field(message, name):
                row[name] = reader(getattr(message, name))
        return row

    return read


def _wire_type_of_unknown(field: Any) -> int | None:
    """The wire type that a declared field may have and be unknown: a number that a closed enum has no name for, or a map's entry
    with one. None: it cannot be, so its wire type is not the declared one."""
    if is_map(field):
        return _LENGTH_DELIMITED if _is_closed_enum(map_value(field)) else None
    return _VARINT if _is_closed_enum(field) else None


def _is_closed_enum(field: Any) -> bool:
    return field.enum_type is not None and bool(field.enum_type.is_closed)


def _reader(field: Any) -> Reader:
    if is_map(field):
        key, value = _value_reader(map_key(field)), _value_reader(map_value(field))
        return lambda entries: [(key(name), value(each)) for name, each in entries.items()]
    reader = _value_reader(field)
    if not field.is_repeated:
        return reader
    return list if reader is _same else lambda values: [reader(each) for each in values]


def _value_reader(field: Any) -> Reader:
    """For one value, be the field repeated or not."""
    if field.enum_type is not None:
        names = {each.number: each.name for each in reversed(field.enum_type.values)}
        return lambda number: names.get(number) or str(number)
    if field.message_type is not None:
        return _timestamp if field.message_type.full_name == TIMESTAMP else _message_reader(field.message_type)
    return _text if field.type == FieldDescriptor.TYPE_STRING else _same


def _same(value: Any) -> Any:
    return value


def _text(value: str | bytes) -> str:
    """`protobuf` refuses text of proto3 that is no UTF-8, and hands out that of proto2 as bytes."""
    if isinstance(value, bytes):
        raise NoValue("text that is no UTF-8")
    return value


def _timestamp(value: Any) -> int:
    if not (_FIRST_SECOND <= value.seconds <= _LAST_SECOND and 0 <= value.nanos < _NANOS_END):
        raise NoValue("a timestamp outside the years 1 to 9999")
    return int(value.seconds * _MICROSECONDS + value.nanos // 1000)
