"""Messages as plain dicts, written and read by the generator's description of them: any value goes on the wire."""

from collections.abc import Mapping
from typing import Any

from libs.wire.primitives import Reader, Writer
from libs.wire.schema import Field, Message

INTEGERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16, "uint32": 32}
Value = dict[str, Any]


def root_of(message: Message) -> str:
    return message.structs[-1].name


def fields_of(message: Message, struct: str) -> list[Field]:
    return next(each for each in message.structs if each.name == struct).fields


def write(message: Message, value: Mapping[str, Any], *, flexible: bool) -> bytes:
    writer = Writer()
    _write_struct(writer, message, root_of(message), value, flexible)
    return bytes(writer.buffer)


def read(message: Message, reader: Reader, *, flexible: bool) -> Value:
    return _read_struct(reader, message, root_of(message), flexible)


def _write_struct(writer: Writer, message: Message, struct: str, value: Mapping[str, Any], flexible: bool) -> None:
    tagged: list[tuple[int, Writer]] = []
    for field in fields_of(message, struct):
        if field.tag is None:
            _write_field(writer, message, field, value[field.name], flexible)
        elif field.name in value:
            part = Writer()
            _write_field(part, message, field, value[field.name], flexible)
            tagged.append((field.tag, part))
    if flexible:
        writer.tagged_fields(tagged)


def _write_field(writer: Writer, message: Message, field: Field, value: Any, flexible: bool) -> None:
    if not field.array:
        _write_one(writer, message, field, value, flexible)
        return
    writer.array_length(-1 if value is None else len(value), flexible)
    for each in value or ():
        _write_one(writer, message, field, each, flexible)


def _write_one(writer: Writer, message: Message, field: Field, value: Any, flexible: bool) -> None:
    if field.struct:
        if field.nullable_from is not None and not field.array:
            writer.int8(-1 if value is None else 1)
            if value is None:
                return
        _write_struct(writer, message, field.kind, value, flexible)
    elif field.kind == "bool":
        writer.boolean(value)
    elif field.kind == "string":
        (writer.nullable_string if field.nullable_from is not None else writer.string)(value, flexible)
    elif field.kind in ("bytes", "records"):
        writer.nullable_data(value, flexible)
    else:
        getattr(writer, field.kind)(value)


def _read_struct(reader: Reader, message: Message, struct: str, flexible: bool) -> Value:
    value: Value = {}
    fields = fields_of(message, struct)
    for field in fields:
        if field.tag is None:
            value[field.name] = _read_field(reader, message, field, flexible)
    if flexible:
        tags = {field.tag: field for field in fields if field.tag is not None}
        for tag, part in reader.tagged_fields():
            if tag in tags:
                value[tags[tag].name] = _read_field(part, message, tags[tag], flexible)
    return value


def _read_field(reader: Reader, message: Message, field: Field, flexible: bool) -> Any:
    if not field.array:
        return _read_one(reader, message, field, flexible)
    return [_read_one(reader, message, field, flexible) for _ in range(max(0, reader.nullable_array_length(flexible)))]


def _read_one(reader: Reader, message: Message, field: Field, flexible: bool) -> Any:
    if field.struct:
        is_null = field.nullable_from is not None and not field.array and reader.int8() < 0
        return None if is_null else _read_struct(reader, message, field.kind, flexible)
    if field.kind == "bool":
        return reader.boolean()
    if field.kind == "string":
        return reader.nullable_string(flexible)
    if field.kind in ("bytes", "records"):
        data = reader.nullable_data(flexible)
        return None if data is None else bytes(data)
    return getattr(reader, field.kind)()
