"""Records as JSON values of the metadata store, and back.

A dataclass is an object, a named tuple an array. Fields that this version does not know are ignored, and missing ones take
their default, so that neighbouring versions read each other. Decoders are compiled once per class from its annotations.
"""

import json
import math
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
_Decode = Callable[[Any], Any]


class RecordError(ValueError):
    """A value in the metadata store that is not the record that its key promises. It is refused, and no field is guessed."""


def encode(record: object) -> bytes:
    """The UTF-8 JSON of a record, or of a bare int or str such as `cluster_id` holds."""
    return json.dumps(_plain(record), separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def decode(cls: type[T], value: bytes) -> T:
    """Raises RecordError."""
    try:
        plain = json.loads(value)
    except ValueError as error:  # covers UnicodeDecodeError and JSONDecodeError
        raise RecordError(f"{cls.__name__}: not JSON: {error}") from None
    except RecursionError:
        raise RecordError(f"{cls.__name__}: nested too deeply") from None
    return cast(T, _decoder(cast(Any, cls))(plain))


def _plain(value: object) -> object:
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    raise TypeError(f"no JSON form for {type(value).__name__}")


@cache
def _decoder(kind: Any) -> _Decode:
    if kind in (int, str, bool):
        return _scalar(kind)
    if kind is float:
        return _finite_number
    origin = get_origin(kind)
    if origin is tuple:
        return _array(_decoder(get_args(kind)[0]))
    if origin is dict:
        return _mapping(_decoder(get_args(kind)[1]))
    if is_dataclass(kind):
        return _object(kind)
    if isinstance(kind, type) and issubclass(kind, tuple):
        return _named_tuple(kind)
    raise TypeError(f"no decoder for {kind!r}")


def _scalar(kind: type) -> _Decode:
    def decode_scalar(value: Any) -> Any:
        if type(value) is not kind:
            raise RecordError(f"expected {kind.__name__}, found {type(value).__name__}")
        return value

    return decode_scalar


def _finite_number(value: Any) -> float:
    if type(value) not in (int, float):
        raise RecordError(f"expected a number, found {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise RecordError("expected a finite number")
    return number


def _array(item: _Decode) -> _Decode:
    def decode_array(value: Any) -> Any:
        if not isinstance(value, list):
            raise RecordError(f"expected an array, found {type(value).__name__}")
        return tuple([item(each) for each in value])

    return decode_array


def _mapping(item: _Decode) -> _Decode:
    def decode_mapping(value: Any) -> Any:
        if not isinstance(value, dict):
            raise RecordError(f"expected an object, found {type(value).__name__}")
        return {key: item(each) for key, each in value.items()}

    return decode_mapping


def _object(cls: Any) -> _Decode:
    hints = get_type_hints(cls)
    decoders = [(field.name, _decoder(hints[field.name])) for field in fields(cls)]
    required = {field.name for field in fields(cls) if field.default is MISSING and field.default_factory is MISSING}

    def decode_object(value: Any) -> Any:
        if not isinstance(value, dict):
            raise RecordError(f"{cls.__name__}: expected an object, found {type(value).__name__}")
        values = {}
        for name, decoder in decoders:
            if name in value:
                try:
                    values[name] = decoder(value[name])
                except RecordError as error:
                    raise RecordError(f"{cls.__name__}.{name}: {error}") from None
            elif name in required:
                raise RecordError(f"{cls.__name__}.{name}: missing")
        return cls(**values)

    return decode_object


def _named_tuple(cls: Any) -> _Decode:
    hints = get_type_hints(cls)
    decoders = [_decoder(hints[name]) for name in cls._fields]
    required = len(cls._fields) - len(cls._field_defaults)

    def decode_named_tuple(value: Any) -> Any:
        if not isinstance(value, list) or len(value) < required:
            raise RecordError(f"{cls.__name__}: expected an array of at least {required}")
        return cls(*[decoder(each) for decoder, each in zip(decoders, value, strict=False)])

    return decode_named_tuple
