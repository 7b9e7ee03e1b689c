"""Types and bounds of config values, with Kafka's messages, so that tools show what users know."""

import math
import re
from collections.abc import Callable
from decimal import Decimal
from enum import IntEnum
from typing import Final

from libs.lean_dataclass import dataclass

LONG_MAX: Final = (1 << 63) - 1

ConfigValue = bool | int | float | str | tuple[str, ...]
"""A parsed value: BOOLEAN bool, INT and LONG int, DOUBLE float, STRING str, LIST a tuple of str."""

Complaint = Callable[[ConfigValue], str | None]
"""A function that says in words what is wrong with a parsed value, or None."""


@dataclass(frozen=True, slots=True)
class Check:
    """The valid values of a config: a sentence for docs/use/configs.md, and the function that finds what is wrong."""

    valid: str
    complaint: Complaint

    def __call__(self, value: ConfigValue) -> str | None:
        return self.complaint(value)


class ConfigError(Exception):
    """A name or value that is refused; the message is for the client."""


class UnknownConfig(ConfigError):
    """A config name that does not exist."""


class RetiredConfig(ConfigError):
    """A config name that Kafka has removed; the message names its successors."""


class NotSupportedYet(ConfigError):
    """A value that Kafka accepts and Penstock does not support yet. It is refused, so that it is not ignored silently."""


class ConfigType(IntEnum):
    """The type codes of DescribeConfigs (v3+)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,20}")  # digits of any script, as in Java
_DECIMAL = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?)[fFdD]?")
_HEXADECIMAL = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]{1,9})[fFdD]?")
_REAL_NUMBER_LENGTH_MAX: Final = 400
_COMMA = re.compile(r"\s*,\s*")
_BITS = {ConfigType.SHORT: 15, ConfigType.INT: 31, ConfigType.LONG: 63}


@dataclass(frozen=True, slots=True)
class ConfigDef:
    """One config. `default` None: it has no value unless one is set.

    `synonyms` are the broker configs that give a topic config its default; the first that is set wins. `UNITS_MS` has the units
    of those that differ from the topic config's own.

    A config that Penstock does not support yet is refused, never ignored. `served` False: only the default is accepted.
    `served_values`, when not empty, are the only values that are accepted.
    """

    name: str
    type: ConfigType
    default: str | None
    doc: str
    check: Check | None = None
    importance: str = "medium"
    synonyms: tuple[str, ...] = ()
    served: bool = True
    served_values: tuple[str, ...] = ()
    lacks: Check | None = None
    """Finds what Penstock does not support of a value that Kafka takes."""
    read_only: bool = False
    cluster_wide: bool = False
    """For broker configs only: it has one value for the whole cluster, so it cannot be set for a single broker."""
    one_broker: bool = False
    """For broker configs only: it is a property of one broker, so it cannot be set for all brokers."""
    per_listener: bool = False
    """For broker configs only: it is set under a listener's prefix, `listener.name.NAME.`, while the cluster runs."""
    hidden: bool = False
    effect: bool = True
    """False: Kafka has it, and nothing here acts on it. `doc` says what takes its place. Where it is served, it is accepted, kept
    and described."""
    listed: bool = True
    """False: its name is in no table. See `broker_config`."""

    @property
    def sensitive(self) -> bool:
        """Whether its value is a secret. As in Kafka, that of an unknown config might be one."""
        return self.type in (ConfigType.PASSWORD, ConfigType.UNKNOWN)

    def parse(self, text: str) -> ConfigValue:
        """The value of `text`, as Kafka reads it. Raises ConfigError. It may be a value that Penstock does not support."""
        value = _read(self, text.strip())
        if self.check is not None and (complaint := self.check(value)) is not None:
            raise ConfigError(f"Invalid value {shorten(text)} for configuration {self.name}: {complaint}")
        return value

    def validate(self, text: str) -> None:
        """Raises ConfigError unless `text` is a value that Kafka takes and Penstock acts on."""
        value = self.parse(text)
        if self.default is not None and value == self.parse(self.default):
            return  # it is in force without being set
        if not self.served:
            only = "" if self.default is None else f": only its default, {self.default!r}, is accepted"
            instead = "" if self.effect or not self.doc else f". {self.doc}"
            raise NotSupportedYet(f"{self.name} is not supported yet by Penstock{only}{instead}")
        if self.served_values and show(value) not in self.served_values:
            rejected, served = shorten(show(value)), " or ".join(self.served_values)
            raise NotSupportedYet(f"{self.name}={rejected} is not supported yet by Penstock: only {served} is accepted")
        if self.lacks is not None and (lacking := self.lacks(value)) is not None:
            raise NotSupportedYet(f"{self.name}={shorten(text)} is not supported yet by Penstock: {lacking}")

    def canonical(self, text: str) -> str:
        """The canonical form of `text`: trimmed, booleans in lower case. Raises ConfigError."""
        return show(self.parse(text))


def _read(config: ConfigDef, text: str) -> ConfigValue:
    def refused(why: str) -> ConfigError:
        return ConfigError(f"Invalid value {shorten(text)} for configuration {config.name}: {why}")

    match config.type:
        case ConfigType.BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise refused("Expected value to be either true or false")
            return text.lower() == "true"
        case ConfigType.INT | ConfigType.LONG | ConfigType.SHORT:
            number = int(text) if _WHOLE_NUMBER.fullmatch(text) else None
            limit = 1 << _BITS[config.type]
            if number is None or not -limit <= number < limit:
                raise refused(f"Not a number of type {config.type.name}")
            return number
        case ConfigType.DOUBLE:
            real = _as_java_reads(text)
            if real is None:
                raise refused("Not a number of type DOUBLE")
            return real
        case ConfigType.LIST:
            return tuple(dict.fromkeys(_COMMA.split(text))) if text else ()  # as in Kafka, a name that occurs twice counts once
        case _:
            return text


def show(value: ConfigValue) -> str:
    """A parsed value as DescribeConfigs gives it."""
    match value:
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(value)
        case float():
            return _as_java_writes(value)
        case _:
            return str(value)


def _as_java_reads(text: str) -> float | None:
    """The number of a text of Java's Double.valueOf, which may be hexadecimal and end in f or d. None: it is no such text, or
    not finite, which no config can use."""
    if len(text) > _REAL_NUMBER_LENGTH_MAX:
        return None
    if decimal := _DECIMAL.fullmatch(text):
        real = float(decimal[1])
    elif hexadecimal := _HEXADECIMAL.fullmatch(text):
        try:
            real = float.fromhex(hexadecimal[1])
        except OverflowError:
            return None
    else:
        return None
    return real if math.isfinite(real) else None


def _as_java_writes(value: float) -> str:
    """The text of Java's Double.toString: a plain number from 0.001 up to ten million, else a mantissa and an exponent."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return str(value)
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    power = exponent + len(digits) - 1
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{power}"


def shorten(text: str) -> str:
    """A client's value, shortened so that an error message may repeat it."""
    return text if len(text) <= 128 else text[:128] + "…"


def at_least(low: int) -> Check:
    return Check(
        f"at least {low:,}", lambda value: None if isinstance(value, int) and value >= low else f"Value must be at least {low}"
    )


not_zero: Final = Check(
    "any number but 0; below 0 means no limit", lambda value: None if value != 0 else "Value must be unlimited (-1) or at least 1"
)
"""Kafka's bound of a broker's log.retention.*."""


def between(low: float, high: float) -> Check:
    def complaint(value: ConfigValue) -> str | None:
        assert isinstance(value, int | float)
        if value < low:
            return f"Value must be at least {low}"
        return f"Value must be no more than {high}" if value > high else None

    return Check(f"{low:,} to {high:,}", complaint)


def between_or(low: int, high: int, also: int) -> Check:
    """A range, or one value outside of it that means the library's own default. Kafka's gzip level is such a config."""
    inside = between(low, high)
    return Check(
        f"{inside.valid}, or {also}",
        lambda value: (
            None if value == also or inside(value) is None else f"Value must be between {low} and {high} or equal to {also}"
        ),
    )


def one_of(*allowed: str) -> Check:
    return Check(_either(allowed), lambda value: None if value in allowed else f"String must be one of: {', '.join(allowed)}")


def any_case(*allowed: str) -> Check:
    """One of `allowed`; upper and lower case are the same."""
    return Check(
        f"{_either(allowed)}; upper or lower case",
        lambda value: (
            None
            if isinstance(value, str) and value.lower() in allowed
            else f"String must be one of (case insensitive): {', '.join(each.upper() for each in allowed)}"
        ),
    )


def some_of(*allowed: str) -> Check:
    """A list as of `list_of` that is not empty."""
    each = list_of(*allowed)
    return Check(
        f"at least one of {', '.join(f'`{name}`' for name in allowed)}",
        lambda value: each(value) if value else f"must not be empty. Valid values include: {', '.join(allowed)}",
    )


not_empty: Final = Check("any but empty", lambda value: None if value else "String must be non-empty")


def list_of(*allowed: str) -> Check:
    def complaint(value: ConfigValue) -> str | None:
        assert isinstance(value, tuple)
        if any(item not in allowed for item in value):
            return f"String must be one of: {', '.join(allowed)}"
        return None

    return Check(f"any of {', '.join(f'`{name}`' for name in allowed)}", complaint)


def _either(allowed: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in allowed)


def _bad_replicas(value: ConfigValue) -> str | None:
    assert isinstance(value, tuple)
    if value == ("*",) or all(re.fullmatch(r"([0-9]{1,9}:[0-9]{1,9})?", item, re.ASCII) for item in value):
        return None
    return (
        "must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )


throttled_replicas: Final = Check("`*`, or pairs `partition:broker`", _bad_replicas)
"""All replicas, or a list of pairs, which may be empty (KIP-73)."""
