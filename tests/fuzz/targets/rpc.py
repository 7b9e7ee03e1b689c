"""RPC frames, hellos, and each contract that a frame's body may be.

Byte 0 is the contract, 255 for none but a hello. The rest is a frame without its length.
"""

import dataclasses
import importlib
import pkgutil
import types
import typing
from collections.abc import Iterator
from functools import cache
from typing import Any

from libs.rpc import contracts
from libs.rpc.messages.envelope import Frame, Hello, Kind, pack_body, pack_frame, pack_hello, read_hello, unpack_frame
from libs.rpc.messages.errors import ContractError, EnvelopeError
from libs.rpc.messages.schema import pack, unpack

_LENGTH = 4
_SAMPLES = {int: 7, str: "name", bytes: bytes(range(16)), bool: True, float: 0.5}


def check(data: bytes) -> None:
    if not data:
        return
    try:
        frame = unpack_frame(memoryview(data)[1:])
    except EnvelopeError:
        return
    packed = _packed(frame)
    # Bytes, since a float may be NaN, which equals nothing.
    assert _packed(unpack_frame(memoryview(packed)[_LENGTH:])) == packed, frame
    try:
        hello = read_hello(frame)
        assert read_hello(unpack_frame(memoryview(pack_hello(hello, frame.sent_at_ms))[_LENGTH:])) == hello
    except EnvelopeError:
        pass
    every = _contracts()
    if data[0] < len(every):
        _check_contract(every[data[0]], frame.body)


def _packed(frame: Frame) -> bytes:
    return pack_frame(
        frame.kind, frame.request_id, frame.method, frame.deadline_ms, frame.trace, pack_body(frame.body), len(frame.payload),
        frame.descriptors, frame.sent_at_ms,
    ) + frame.payload  # fmt: skip


def _check_contract(cls: type, body: list[object]) -> None:
    try:
        message = unpack(cls, body)
    except ContractError:
        return
    again = pack(message)
    assert pack_body(pack(unpack(cls, again))) == pack_body(again), message


@cache
def _contracts() -> list[type]:
    """Every contract, in the order of their names."""
    found = {}
    for module in pkgutil.iter_modules(contracts.__path__):
        for name, value in vars(importlib.import_module(f"{contracts.__name__}.{module.name}")).items():
            if dataclasses.is_dataclass(value) and isinstance(value, type):
                found[f"{value.__module__}.{name}"] = value
    return [found[name] for name in sorted(found)]


def seeds() -> Iterator[bytes]:
    assert len(_contracts()) < 255, "a byte chooses the contract"
    for number, cls in enumerate(_contracts()):
        for is_full in (False, True):
            body = pack_body(pack(_sample(cls, is_full)))
            yield bytes((number,)) + pack_frame(Kind.REQUEST, number, "storage.append", 500, b"trace", body, 3)[_LENGTH:] + b"abc"
    for hello in (Hello("gateway", 1, 7, "0.1.0", 3, "cluster"), Hello("", -1, 0, "", 0)):
        yield b"\xff" + pack_hello(hello, 5)[_LENGTH:]
    yield b"\xff" + pack_frame(Kind.ERROR, 1, "", 0, None, pack_body([[[[1.5, None, True, "x", b"y"]]]]))[_LENGTH:]


def _sample(hint: Any, is_full: bool) -> Any:
    """A value of a contract's type; `is_full`: with an element in each array and no null."""
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        return typing.cast(Any, hint)(*(_sample(hints[field.name], is_full) for field in dataclasses.fields(hint)))
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return _sample(next(each for each in arguments if each is not types.NoneType), is_full) if is_full else None
    if typing.get_origin(hint) is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return (_sample(arguments[0], is_full),) if is_full else ()
        return tuple(_sample(each, is_full) for each in arguments)
    return _SAMPLES[hint]
