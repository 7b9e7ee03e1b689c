"""Protobuf files for tests, written in lines of `.proto` and compiled without `protoc`, and the messages that they declare."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.duration_pb2 import DESCRIPTOR as DURATION
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP

from services.pipeline.protobuf.message_types import MessageTypes

FIELD = re.compile(
    r"(?:in (?P<oneof>\w+): )?(?:(?P<label>optional|required|repeated) )?"
    r"(?:map<(?P<key>\w+), (?P<value>[\w.]+)>|(?P<kind>[\w.]+)) "
    r"(?P<name>\w+) = (?P<number>\d+)(?: \[default = (?P<default>\w+)\])?"
)

TYPES = dict(FieldDescriptorProto.Type.items())


def enum(name: str, **numbers: int) -> EnumDescriptorProto:
    made = EnumDescriptorProto(name=name)
    for value, number in numbers.items():
        made.value.add(name=value, number=number)
    made.options.allow_alias = len(set(numbers.values())) < len(numbers)
    return made


def message(name: str, *fields: str, nested: Iterable[DescriptorProto] = (), proto2: bool = False) -> DescriptorProto:
    """Fields such as `repeated string tags = 3`, `map<string, .shop.Item> items = 4`, `in payment: string card = 5` (a oneof).
    Nested types come after the fields, and so after the types that the compiler makes for maps."""
    made = DescriptorProto(name=name)
    for line in fields:
        parts = FIELD.fullmatch(line)
        assert parts is not None, line
        _add_field(made, parts.groupdict(), proto2)
    made.nested_type.extend(nested)
    # The compiler puts the oneofs that stand for `optional` last.
    for field in made.field:
        if field.proto3_optional:
            field.oneof_index = len(made.oneof_decl)
            made.oneof_decl.add(name=f"_{field.name}")
    return made


def file(
    name: str, *types: DescriptorProto | EnumDescriptorProto, imports: Iterable[str] = (), syntax: str = "proto3"
) -> FileDescriptorProto:
    messages = [each for each in types if isinstance(each, DescriptorProto)]
    enums = [each for each in types if isinstance(each, EnumDescriptorProto)]
    return FileDescriptorProto(
        name=name, package="shop", syntax=syntax, message_type=messages, enum_type=enums, dependency=imports
    )


def descriptor_set(*files: FileDescriptorProto) -> bytes:
    """With the files of Timestamp and Duration, so the files may import them."""
    known = [FileDescriptorProto.FromString(each.serialized_pb) for each in (TIMESTAMP, DURATION)]
    return FileDescriptorSet(file=[*known, *files]).SerializeToString()


def message_class(descriptors: bytes, name: str) -> Any:
    return GetMessageClass(MessageTypes(descriptors)[name])


def _add_field(made: DescriptorProto, parts: Mapping[str, str | None], proto2: bool) -> None:
    name, kind, label = parts["name"], parts["kind"], parts["label"]
    field = made.field.add(name=name, number=int(parts["number"] or 0))
    field.label = getattr(FieldDescriptorProto, f"LABEL_{(label or 'optional').upper()}")
    if parts["key"] is not None:
        entry = f"{(name or '').title().replace('_', '')}Entry"
        made.nested_type.append(message(entry, f"{parts['key']} key = 1", f"{parts['value']} value = 2"))
        made.nested_type[-1].options.map_entry = True
        field.label, kind = FieldDescriptorProto.LABEL_REPEATED, entry
    scalar = f"TYPE_{(kind or '').upper()}"
    if scalar in TYPES:
        field.type = TYPES[scalar]
    else:
        field.type_name = kind or ""
    if parts["default"] is not None:
        field.default_value = parts["default"]
    if parts["oneof"] is not None:
        names = [each.name for each in made.oneof_decl]
        if parts["oneof"] not in names:
            made.oneof_decl.add(name=parts["oneof"])
        field.oneof_index = [each.name for each in made.oneof_decl].index(parts["oneof"])
    field.proto3_optional = label == "optional" and not proto2
