"""Contract dataclasses to msgpack-able lists and back. Pure.

A contract is a frozen dataclass of int, str, bytes, bool, float, `X | None`, `tuple[X, ...]`, `tuple[X, Y]` and other
contracts. Its wire form is the list of its fields, in order. For each class one function each way is generated from the
annotations, once: these run for every request, and a generic walk would cost ten times as much.

Evolution: fields are only ever added at the end, with a default. Readers ignore what follows and default
what is missing.
"""

import dataclasses
import types
import typing
from collections.abc import Callable
from typing import Any, TypeVar, cast

from libs.rpc.messages.errors import ContractError

T = TypeVar("T")

INT_MIN, INT_MAX = -(1 << 63), (1 << 63) - 1

_packers: dict[type, Callable[[Any], list[object]]] = {}
_unpackers: dict[type, Callable[[object], Any]] = {}


def pack(contract: object) -> list[object]:
    cls = type(contract)
    packer = _packers.get(cls)
    if packer is None:
        packer = _packers[cls] = _compile_packer(cls)
    return packer(contract)


def unpack(cls: type[T], value: object) -> T:
    """Raises ContractError, naming the field."""
    unpacker = _unpackers.get(cls)
    if unpacker is None:
        unpacker = _unpackers[cls] = _compile_unpacker(cls)
    return cast(T, unpacker(value))


def _hints(cls: type) -> list[tuple[str, Any]]:
    if not dataclasses.is_dataclass(cls):
        raise TypeError(f"{cls!r} is not a contract dataclass")
    hints = typing.get_type_hints(cls)
    return [(field.name, hints[field.name]) for field in dataclasses.fields(cls)]


def _optional(hint: Any) -> Any:
    """The type X of `X | None`; None for any other type."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        inner = [arg for arg in typing.get_args(hint) if arg is not types.NoneType]
        if len(inner) != 1 or len(typing.get_args(hint)) != 2:
            raise TypeError(f"{hint!r}: only `X | None` unions have a wire form")
        return inner[0]
    return None


class _Source:
    """The source of one generated function: its lines, and the objects that they name."""

    def __init__(self, cls: type) -> None:
        self.cls = cls
        self.names: dict[str, Any] = {"cls": cls, "bad": _bad}
        self.lines: list[str] = []
        self._count = 0

    def fresh(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def compile(self, head: str) -> Callable[[Any], Any]:
        source = "\n    ".join([head, *self.lines])
        exec(compile(source, f"<contract {self.cls.__qualname__}>", "exec"), self.names)
        return cast(Callable[[Any], Any], self.names["made"])


# Packing


def _compile_packer(cls: type) -> Callable[[Any], list[object]]:
    source = _Source(cls)
    source.lines = [f"return {_pack_class(source, cls, 'c')}"]
    return source.compile("def made(c):")


def _pack_class(source: _Source, cls: type, name: str) -> str:
    return "[" + ", ".join(_pack_value(source, hint, f"{name}.{field}") for field, hint in _hints(cls)) + "]"


def _pack_value(source: _Source, hint: Any, value: str) -> str:
    inner = _optional(hint)
    if inner is not None:
        packed = _pack_value(source, inner, value)
        return value if packed == value else f"(None if {value} is None else {packed})"
    if dataclasses.is_dataclass(hint):
        return _pack_class(source, cast(type, hint), value)
    if typing.get_origin(hint) is tuple:
        args = typing.get_args(hint)
        if len(args) == 2 and args[1] is Ellipsis:
            item = source.fresh("i")
            packed = _pack_value(source, args[0], item)
            return f"list({value})" if packed == item else f"[{packed} for {item} in {value}]"
        return "[" + ", ".join(_pack_value(source, arg, f"{value}[{n}]") for n, arg in enumerate(args)) + "]"
    if hint in (int, str, bytes, bool, float):
        return value
    raise TypeError(f"{hint!r} has no wire form")


# Unpacking


def _compile_unpacker(cls: type) -> Callable[[object], Any]:
    source = _Source(cls)
    source.lines = ["if type(v) is not list: bad(cls, '', 'an array', v)", "n = len(v)"]
    required = 0
    made = []
    for index, field in enumerate(dataclasses.fields(cls)):
        hint = _hints(cls)[index][1]
        local = f"f{index}"
        where = repr(field.name)
        default = _default(field)
        if default is dataclasses.MISSING:
            required = index + 1
            source.lines.insert(2 + index, f"{local} = v[{index}]")
            source.lines += _check(source, hint, local, where)
        else:
            source.names[f"d{index}"] = default
            source.lines.append(f"if n > {index}:")
            source.lines.append(f"    {local} = v[{index}]")
            source.lines += ["    " + line for line in _check(source, hint, local, where)]
            source.lines.append(f"else: {local} = d{index}")
        made.append(local)
    source.lines.insert(2, f"if n < {required}: bad(cls, '', 'at least {required} fields', v)")
    source.lines.append(f"return cls({', '.join(made)})")
    return source.compile("def made(v):")


def _default(field: "dataclasses.Field[Any]") -> Any:
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default


def _check(source: _Source, hint: Any, name: str, where: str) -> list[str]:
    """Lines that check `name` and leave the decoded value in it."""
    inner = _optional(hint)
    if inner is not None:
        return [f"if {name} is not None:", *("    " + line for line in _check(source, inner, name, where))]
    if dataclasses.is_dataclass(hint):
        nested = source.fresh("u")
        source.names[nested] = _compile_unpacker(cast(type, hint))
        return [f"{name} = {nested}({name})"]
    if typing.get_origin(hint) is tuple:
        args = typing.get_args(hint)
        lines = [f"if type({name}) is not list: bad(cls, {where}, 'an array', {name})"]
        if len(args) == 2 and args[1] is Ellipsis:
            if dataclasses.is_dataclass(args[0]):
                nested = source.fresh("u")
                source.names[nested] = _compile_unpacker(cast(type, args[0]))
                return [*lines, f"{name} = tuple([{nested}(i) for i in {name}])"]
            item, items = source.fresh("i"), source.fresh("l")
            checks = ["    " + line for line in _check(source, args[0], item, where)]
            return [
                *lines,
                f"{items} = []",
                f"for {item} in {name}:",
                *checks,
                f"    {items}.append({item})",
                f"{name} = tuple({items})",
            ]
        parts = [source.fresh("p") for _ in args]
        lines.append(f"if len({name}) < {len(args)}: bad(cls, {where}, '{len(args)} values', {name})")
        lines.append(f"{', '.join(parts)}{',' if len(parts) == 1 else ''} = {name}[:{len(args)}]")
        for part, arg in zip(parts, args, strict=True):
            lines += _check(source, arg, part, where)
        return [*lines, f"{name} = ({', '.join(parts)}{',' if len(parts) == 1 else ''})"]
    if hint is int:
        return [f"if type({name}) is not int or not {INT_MIN} <= {name} <= {INT_MAX}: bad(cls, {where}, 'an int64', {name})"]
    if hint in (str, bytes, bool, float):
        return [f"if type({name}) is not {hint.__name__}: bad(cls, {where}, '{hint.__name__}', {name})"]
    raise TypeError(f"{hint!r} has no wire form")


def _bad(cls: type, field: str, expected: str, value: object) -> None:
    where = f"{cls.__name__}.{field}" if field else cls.__name__
    raise ContractError(f"{where}: expected {expected}, got {type(value).__name__}")
