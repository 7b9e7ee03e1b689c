"""Reads a frozen config dataclass from a TOML file and the environment. The environment wins.

Field `data_dir` is `PENSTOCK_DATA_DIR` in the environment and `data_dir` in the file that `PENSTOCK_CONFIG` names. A field
without a default must be given. Lists are comma separated in the environment. Spaces around a value do not count, as in Kafka.
"""

import dataclasses
import os
import sys
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from libs.java_properties import trimmed

T = TypeVar("T")


class ConfigError(Exception):
    """The error of a setting. It names the variable or the key, its value and the expected one."""


_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def load(cls: type[T], *, env: Mapping[str, str], prefix: str = "PENSTOCK_", beside: Sequence[type] = ()) -> T:
    """Raises ConfigError. Keys of the file that neither this config nor those `beside` it know are errors; other variables
    are not ours to judge."""
    assert dataclasses.is_dataclass(cls)
    path = env.get(f"{prefix}CONFIG")
    given = _read_file(path) if path else {}
    hints = typing.get_type_hints(cls)
    names = [field.name for field in dataclasses.fields(cls)]
    others = {field.name for other in beside for field in dataclasses.fields(other)}
    unknown = sorted(given.keys() - set(names) - others)
    if unknown:
        raise ConfigError(f"{path}: unknown key {unknown[0]!r} (known: {', '.join(names)})")
    values: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        variable = f"{prefix}{field.name.upper()}"
        if variable in env:
            values[field.name] = _from_text(hints[field.name], trimmed(env[variable]), variable)
        elif field.name in given:
            values[field.name] = _from_toml(hints[field.name], given[field.name], f"{path}: {field.name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ConfigError(f"{variable} is not set (nor {field.name} in the file that {prefix}CONFIG names)")
    try:
        return cls(**values)
    except ValueError as error:  # of a __post_init__ that checks bounds
        raise ConfigError(str(error)) from error


def load_or_exit(cls: type[T], service: str, *, beside: Sequence[type] = ()) -> T:
    """For `__main__`: what is wrong with the settings is said in one line, and the process ends."""
    try:
        return load(cls, env=os.environ, beside=beside)
    except ConfigError as error:
        sys.exit(f"{service}: {error}")


def _read_file(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error


def _item(hint: Any) -> Any:
    """X of `tuple[X, ...]`; None for anything else."""
    args = typing.get_args(hint)
    return args[0] if typing.get_origin(hint) is tuple and len(args) == 2 and args[1] is Ellipsis else None


def _without_none(hint: Any) -> Any:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return next(arg for arg in typing.get_args(hint) if arg is not types.NoneType)
    return hint


def _from_text(hint: Any, text: str, where: str) -> Any:
    wanted = _without_none(hint)
    if wanted is not hint and text == "":
        return None
    item = _item(wanted)
    if item is not None:
        if text and not text.replace(",", "").strip():
            raise ConfigError(f"{where} is {text!r}; expected a list, separated by commas")
        return tuple(_from_text(item, part, where) for part in map(trimmed, text.split(",")) if part)
    if wanted is bool:
        if text.lower() in _TRUE + _FALSE:
            return text.lower() in _TRUE
        raise ConfigError(f"{where} is {text!r}; expected true or false")
    if wanted in (int, float):
        try:
            return wanted(text)
        except ValueError:
            raise ConfigError(f"{where} is {text!r}; expected {_spoken(wanted)}") from None
    if wanted is str:
        return text
    raise TypeError(f"{where}: a config field cannot be {hint!r}")


def _from_toml(hint: Any, value: Any, where: str) -> Any:
    wanted = _without_none(hint)
    item = _item(wanted)
    if item is not None and isinstance(value, list):
        return tuple(_from_toml(item, part, where) for part in value)
    if wanted is float and type(value) is int:
        return float(value)
    if item is None and type(value) is wanted:
        return trimmed(value) if wanted is str else value
    raise ConfigError(f"{where} is {value!r}; expected {_spoken(wanted)}")


def _spoken(hint: Any) -> str:
    if hint is int:
        return "a whole number"
    if hint is float:
        return "a number"
    if hint is bool:
        return "true or false"
    return "a string" if hint is str else "a list"
