"""The wire forms of one version's RPC contracts and metadata records: that of the source on PYTHONPATH.

write           prints {name: {"fields": [names], "forms": [hexadecimal]}}, two examples of each: a full one and the least
read            takes {name: [hexadecimal]}, and prints {name: [what was read, by field, or an error]}
"""

import dataclasses
import importlib
import json
import pkgutil
import sys
import types
import typing
from collections.abc import Iterator
from typing import Any

import msgpack

from libs.cluster import codec, records
from libs.rpc import contracts

try:
    from libs.rpc.messages import schema
except ModuleNotFoundError:  # where older versions have it
    from libs.rpc import schema  # type: ignore[attr-defined, no-redef]

FULL, LEAST = True, False
SCALARS: dict[Any, Any] = {int: 7, str: "seven", bytes: b"\x07", bool: True, float: 0.5}


def kinds() -> Iterator[tuple[str, Any]]:
    """Contracts and records by the names of their modules and classes."""
    found = [importlib.import_module(f"{contracts.__name__}.{each.name}") for each in pkgutil.iter_modules(contracts.__path__)]
    for module in (*found, records):
        for name, value in vars(module).items():
            if isinstance(value, type) and dataclasses.is_dataclass(value) and value.__module__ == module.__name__:
                yield f"{module.__name__}.{name}", value


def example(hint: Any, full: bool) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint in SCALARS:
        return SCALARS[hint] if full else type(SCALARS[hint])()
    if origin in (types.UnionType, typing.Union):
        return example(next(arg for arg in args if arg is not types.NoneType), full) if full else None
    if origin is dict:
        return {example(args[0], full): example(args[1], full)} if full else {}
    if origin is tuple and args[1:] == (...,):
        return (example(args[0], full),) * 2 if full else ()
    if origin is tuple:
        return tuple(example(arg, full) for arg in args)
    names = hint._fields if hasattr(hint, "_fields") else [field.name for field in dataclasses.fields(hint)]
    hints = typing.get_type_hints(hint)
    return hint(**{name: example(hints[name], full) for name in names})


def write(name: str, value: Any) -> bytes:
    return codec.encode(value) if name.startswith(records.__name__) else msgpack.packb(schema.pack(value))


def read(name: str, kind: Any, form: bytes) -> Any:
    """By field, or a text that says why it cannot be read."""
    try:
        value = codec.decode(kind, form) if name.startswith(records.__name__) else schema.unpack(kind, msgpack.unpackb(form))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return plain(value)


def plain(value: Any) -> Any:
    """As JSON, with the names of fields."""
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(value, "_asdict"):
        return {name: plain(each) for name, each in value._asdict().items()}
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return value.hex() if isinstance(value, bytes) else value


def forms(name: str, kind: Any) -> dict[str, Any]:
    values = [example(kind, full) for full in (FULL, LEAST)]
    return {"values": [plain(value) for value in values], "forms": [write(name, value).hex() for value in values]}


if sys.argv[1] == "write":
    print(json.dumps({name: forms(name, kind) for name, kind in kinds()}))
else:
    known, asked = dict(kinds()), json.load(sys.stdin)
    both = [name for name in asked if name in known]
    print(json.dumps({name: [read(name, known[name], bytes.fromhex(form)) for form in asked[name]] for name in both}))
