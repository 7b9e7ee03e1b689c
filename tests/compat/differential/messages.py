"""Any request of any version as bytes, any response as plain values: by kio, which shares no code with libs/wire.

A request is a dict of fields, and one dict serves all versions: each version takes the fields that it has. A name that no
version has is a mistake in the test, and fails.
"""

import dataclasses
import datetime
import functools
import importlib
import importlib.resources
import io
import struct
import typing
import uuid
from typing import Any

from kio.serial import entity_reader, entity_writer

from tests.wire.kio_messages import plain

CLIENT_ID = "differential"


@functools.cache
def message_class(api: str, side: str, version: int) -> type[Any]:
    module = importlib.import_module(f"kio.schema.{api}.v{version}.{side}")
    return getattr(module, "".join(part.title() for part in api.split("_")) + side.title())


@functools.cache
def versions_of(api: str) -> list[int]:
    """Those that kio knows."""
    names = [entry.name for entry in importlib.resources.files(f"kio.schema.{api}").iterdir()]
    return sorted(int(name[1:]) for name in names if name[0] == "v" and name[1:].isdigit())


def encode_request(
    api: str, version: int, fields: dict[str, Any], *, correlation_id: int, client_id: str | None = CLIENT_ID
) -> bytes:
    """The whole frame, length included."""
    cls = message_class(api, "request", version)
    header = cls.__header_schema__
    buffer = io.BytesIO()
    about = {
        "request_api_key": cls.__api_key__,
        "request_api_version": version,
        "correlation_id": correlation_id,
        "client_id": client_id,
    }
    known = {field.name for field in dataclasses.fields(header)}
    entity_writer(header)(buffer, header(**{name: value for name, value in about.items() if name in known}))
    every = tuple(message_class(api, "request", each) for each in versions_of(api))
    entity_writer(cls)(buffer, _entity(cls, fields, every))
    return framed(buffer.getvalue())


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def decode_response(api: str, version: int, data: bytes) -> dict[str, Any]:
    """The body's fields, of a frame without its length. What is left over or missing is an error."""
    cls = message_class(api, "response", version)
    view = memoryview(data)
    _, header_size = entity_reader(cls.__header_schema__)(view, 0)
    message, size = entity_reader(cls)(view, header_size)
    assert header_size + size == len(data), f"{api} v{version}: {len(data) - header_size - size} bytes too many"
    fields = plain(message)
    assert isinstance(fields, dict)
    return fields


def _entity(cls: type[Any], fields: dict[str, Any], every_version: tuple[type[Any], ...]) -> Any:
    known_somewhere = {field.name for each in every_version for field in dataclasses.fields(each)}
    assert fields.keys() <= known_somewhere, f"{cls.__name__} has no {fields.keys() - known_somewhere} in any version"
    hints = _hints(cls)
    values = {}
    for field in dataclasses.fields(cls):
        if field.name in fields:
            nested = tuple(n for each in every_version if (n := _nested(_hints(each).get(field.name))) is not None)
            values[field.name] = _value(field, hints[field.name], fields[field.name], nested)
        elif field.default is dataclasses.MISSING:
            values[field.name] = _zero(field, hints[field.name])
    return cls(**values)


def _value(field: "dataclasses.Field[Any]", hint: Any, value: Any, nested_in_every: tuple[type[Any], ...]) -> Any:
    if value is None:
        return None
    if (nested := _nested(hint)) is not None:
        if isinstance(value, dict):
            return _entity(nested, value, nested_in_every)
        return tuple(_entity(nested, item, nested_in_every) for item in value)
    match field.metadata.get("kafka_type"):
        case "timedelta_i32":
            return datetime.timedelta(milliseconds=value)
        case "uuid":
            return uuid.UUID(bytes=value) if any(value) else None
    return tuple(value) if isinstance(value, list) else value


def _zero(field: "dataclasses.Field[Any]", hint: Any) -> Any:
    arguments = typing.get_args(hint)
    if type(None) in arguments:
        return None
    if typing.get_origin(hint) is tuple:
        return ()
    kafka_type = field.metadata.get("kafka_type")
    return {"string": "", "bool": False, "timedelta_i32": datetime.timedelta(0)}.get(str(kafka_type), 0)


@functools.cache
def _hints(cls: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(cls)


@functools.cache
def _nested(hint: Any) -> type[Any] | None:
    """The entity in `X`, `X | None`, `tuple[X, ...]` or `tuple[X, ...] | None`."""
    if dataclasses.is_dataclass(hint):
        return typing.cast("type[Any]", hint)
    for argument in typing.get_args(hint):
        if (found := _nested(argument)) is not None:
            return found
    return None
