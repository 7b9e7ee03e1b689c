"""kio as the oracle: any of its messages, its bytes for them, and what each of its values is in ours."""

import dataclasses
import datetime
import enum
import functools
import importlib
import io
import types
import typing
import uuid
from typing import Any

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import TZAware, i32Timedelta, i64Timedelta

_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_TEXT = st.text(max_size=12)


@functools.cache
def message_class(api: str, side: str, version: int) -> type:
    module = importlib.import_module(f"kio.schema.{api}.v{version}.{side}")
    return getattr(module, "".join(part.title() for part in api.split("_")) + side.title())


def encode(message: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def decode(cls: type, data: bytes) -> Any:
    message, size = entity_reader(cls)(memoryview(data), 0)
    assert size == len(data)
    return message


@functools.cache
def messages(cls: type) -> st.SearchStrategy[Any]:
    """Any message of kio's class `cls`."""
    hints = typing.get_type_hints(cls)
    return st.builds(cls, **{f.name: _values(f, hints[f.name]) for f in dataclasses.fields(cls)})


def _values(field: "dataclasses.Field[Any]", hint: Any) -> st.SearchStrategy[Any]:
    nullable = False
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        nullable = True
        hint = next(a for a in typing.get_args(hint) if a is not types.NoneType)
    kafka_type = field.metadata.get("kafka_type")
    if typing.get_origin(hint) is tuple:
        item = typing.get_args(hint)[0]
        if typing.get_origin(item) is not None:
            item = next(a for a in typing.get_args(item) if a is not types.NoneType)
        strategy = st.lists(_one(kafka_type, item), max_size=3).map(tuple)
    else:
        strategy = _one(kafka_type, hint)
    return st.none() | strategy if nullable else strategy


def _one(kafka_type: str | None, hint: Any) -> st.SearchStrategy[Any]:
    if kafka_type is None:
        return messages(hint)
    if kafka_type in _BITS:
        limit = 1 << _BITS[kafka_type]
        return st.integers(-limit, limit - 1) | st.integers(-1, 3)
    match kafka_type:
        case "string":
            return _TEXT
        case "bool":
            return st.booleans()
        case "float64":
            return st.floats(allow_nan=False)
        case "uint16":
            return st.integers(0, (1 << 16) - 1)
        case "uuid":
            return st.uuids(version=4)
        case "error_code":
            return st.sampled_from(KioErrorCode)
        case "records" | "bytes":
            return st.binary(max_size=80)
        case "timedelta_i32":
            return st.integers(0, 1 << 30).map(lambda s: i32Timedelta.parse(datetime.timedelta(milliseconds=s)))
        case "timedelta_i64":
            return st.integers(0, 1 << 40).map(lambda s: i64Timedelta.parse(datetime.timedelta(milliseconds=s)))
        case "datetime_i64":
            return st.integers(0, 1 << 31).map(lambda s: TZAware.parse(datetime.datetime.fromtimestamp(s, tz=datetime.UTC)))
    raise AssertionError(kafka_type)


def plain(value: Any) -> Any:
    """A value of kio's in our types: milliseconds, codes and ids. Structs become dicts by name."""
    match value:
        case enum.Enum():
            return int(value.value)
        case datetime.timedelta():
            return round(value.total_seconds() * 1000)
        case datetime.datetime():
            return round(value.timestamp() * 1000)
        case uuid.UUID():
            return value.bytes
        case tuple():
            return [plain(item) for item in value]
        case bool() | int() | float() | str() | bytes() | None:
            return value
    assert dataclasses.is_dataclass(value)
    hints = _hints(type(value))
    values = {}
    for field in dataclasses.fields(value):
        mine, kafka_type = plain(getattr(value, field.name)), field.metadata.get("kafka_type")
        if mine is None and kafka_type == "uuid" and typing.get_origin(hints[field.name]) is not tuple:
            mine = b"\0" * 16
        if mine is None and kafka_type == "datetime_i64":
            mine = -1
        values[our_name(field.name, kafka_type)] = mine
    return values


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def our_name(name: str, kafka_type: str | None) -> str:
    name = {"enable2_pc": "enable_2pc"}.get(name, name)
    return name + "_ms" if kafka_type is not None and kafka_type.startswith(("timedelta", "datetime")) else name
