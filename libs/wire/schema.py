"""The generator's description of a message: one for all its versions, read from kio's classes.

kio has one set of dataclasses for each version of each message. Here they become one set, with a version range on each field.
Only the generator imports this, and it needs kio, which is a development dependency.
"""

import dataclasses
import importlib
import types
import typing
from dataclasses import dataclass, field

_MILLISECONDS = {"timedelta_i32": "int32", "timedelta_i64": "int64", "datetime_i64": "int64"}
_KAFKA_NAMES = {"enable2_pc": "enable_2pc"}
"""Names in Kafka's spelling where kio splits words in another way."""


_NULL_BY_DEFAULT = {("ConsumerGroupHeartbeatRequest", "topic_partitions")}
"""Arrays of structs whose default is null in Kafka's schema. kio leaves that out."""


class SchemaError(Exception):
    """A part of kio's description that the generator cannot express."""


@dataclass(slots=True)
class Field:
    """A field. `kind` is a Kafka primitive, or the name of a struct when `struct` is true. Version bounds are inclusive."""

    name: str
    kind: str
    struct: bool
    array: bool
    tag: int | None
    default: object
    first: int
    last: int
    nullable_from: int | None  # the first version that allows null, None: no version does


@dataclass(slots=True)
class Struct:
    name: str
    first: int
    last: int
    fields: list[Field] = field(default_factory=list)


@dataclass(slots=True)
class Message:
    """A request or a response. `structs` are in dependency order, the message itself last."""

    structs: list[Struct]


def read_message(api: str, side: str, first: int, last: int) -> Message:
    """Reads a message's description. `api` is in snake case, as kio names its packages; `side` is "request" or "response"."""
    structs: dict[str, Struct] = {}
    root = "".join(part.title() for part in api.split("_")) + side.title()
    for version in range(first, last + 1):
        module = importlib.import_module(f"kio.schema.{api}.v{version}.{side}")
        _merge_class(getattr(module, root), version, structs)
    ordered: dict[str, Struct] = {}
    _order(structs[root], structs, ordered)
    return Message([*ordered.values()])


def _order(struct: Struct, structs: dict[str, Struct], ordered: dict[str, Struct]) -> None:
    """The structs in an order in which each comes after the ones that it needs, by the order of its fields."""
    for f in struct.fields:
        if f.struct:
            _order(structs[f.kind], structs, ordered)
    ordered.setdefault(struct.name, struct)


def _merge_class(cls: type, version: int, structs: dict[str, Struct]) -> None:
    if cls.__name__ in structs and structs[cls.__name__].last == version:
        return  # of two fields
    hints = typing.get_type_hints(cls)
    described = []
    for kio_field in dataclasses.fields(cls):
        new, nested = _describe(kio_field, hints[kio_field.name], version)
        if (cls.__name__, new.name) in _NULL_BY_DEFAULT:
            new.default = None
        if nested is not None:
            _merge_class(nested, version, structs)
        described.append(new)
    struct = structs.setdefault(cls.__name__, Struct(cls.__name__, version, version))
    struct.last = version
    position = 0
    for new in described:
        existing = next((f for f in struct.fields if f.name == new.name), None)
        if existing is None:
            struct.fields.insert(position, new)
            position += 1
            continue
        if (existing.kind, existing.struct, existing.array, existing.tag) != (new.kind, new.struct, new.array, new.tag):
            raise SchemaError(f"{cls.__name__}.{new.name} changes its type in version {version}")
        if existing.last != version - 1:
            raise SchemaError(f"{cls.__name__}.{new.name} is missing between versions {existing.last} and {version}")
        if existing.nullable_from is not None and new.nullable_from is None:
            raise SchemaError(f"{cls.__name__}.{new.name} stops being nullable in version {version}")
        existing.last = version
        existing.default = new.default
        if existing.nullable_from is None:
            existing.nullable_from = new.nullable_from
        position = struct.fields.index(existing) + 1


def _describe(kio_field: "dataclasses.Field[object]", hint: object, version: int) -> tuple[Field, type | None]:
    """The field as this version has it, and the class of its struct if it is one."""
    hint, nullable = _without_none(hint)
    array = typing.get_origin(hint) is tuple
    element = typing.get_args(hint)[0] if array else hint
    kafka_type = kio_field.metadata.get("kafka_type")
    nested: type | None = None
    name = _KAFKA_NAMES.get(kio_field.name, kio_field.name)
    if kafka_type is None:
        if not isinstance(element, type):
            raise SchemaError(f"no type for {kio_field.name}")
        nested, kind = element, element.__name__
    else:
        kind = _MILLISECONDS.get(kafka_type, "int16" if kafka_type == "error_code" else kafka_type)
        if kafka_type in _MILLISECONDS:
            name += "_ms"
        if not array and (kind == "uuid" or kafka_type == "datetime_i64"):
            nullable = False  # kio's None is Kafka's zero UUID, or timestamp -1
    new = Field(
        name=name,
        kind=kind,
        struct=nested is not None,
        array=array,
        tag=kio_field.metadata.get("tag"),
        default=_default(kio_field, kind, array, nested is not None, nullable),
        first=version,
        last=version,
        nullable_from=version if nullable else None,
    )
    return new, nested


def _default(kio_field: "dataclasses.Field[object]", kind: str, array: bool, struct: bool, nullable: bool) -> object:
    """Kafka's default, as a plain value: None, int, float, bool, str, bytes, or () for an empty array or a default struct.

    A nullable string for which Kafka states none is None here, where Java says "": a reply must not say "" by omission.
    """
    given = kio_field.default
    if given is None and nullable:
        return None
    if array or struct:
        return ()
    if kind == "uuid":
        return b"\0" * 16
    if given is None:
        return -1  # kio's missing timestamp
    if given is dataclasses.MISSING:
        if kind in ("string", "bytes", "records"):
            return None if nullable else ("" if kind == "string" else b"")
        return {"bool": False, "float64": 0.0}.get(kind, 0)
    if hasattr(given, "total_seconds"):
        return round(given.total_seconds() * 1000)
    if isinstance(given, bool | str | bytes | float):
        return given
    return int(typing.cast(int, given))


def _without_none(hint: object) -> tuple[object, bool]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        rest = [a for a in typing.get_args(hint) if a is not types.NoneType]
        if len(rest) != 1:
            raise SchemaError(f"cannot express {hint}")
        return rest[0], True
    return hint, False
