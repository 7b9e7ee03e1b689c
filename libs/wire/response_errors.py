"""The errors in a response: every field `error_code`, however deep, found by the types of its class."""

import types
import typing
from typing import Any, Final

from libs.wire.messages.message import Message

NAME: Final = "error_code"


def errors_in(response: object) -> list[int]:
    """The error codes of a response that are not NONE, with repetitions. What is no message has none."""
    found: list[int] = []
    _collect(response, found)
    return found


def _collect(message: Any, found: list[int]) -> None:
    has_code, nested = _PLANS.get(type(message)) or _plan(type(message))
    if has_code and message.error_code:
        found.append(int(message.error_code))
    for name in nested:
        inner = getattr(message, name)
        if isinstance(inner, (list, tuple)) and not hasattr(inner, "_fields"):
            for each in inner:
                _collect(each, found)
        elif inner is not None:
            _collect(inner, found)


_PLANS: dict[type, tuple[bool, tuple[str, ...]]] = {}


def _plan(cls: type) -> tuple[bool, tuple[str, ...]]:
    """Whether the class has an error code, and its fields that may hold others."""
    hints = _hints(cls) if _is_message(cls) else {}
    nested = tuple(name for name, hint in hints.items() if any(any(_plan(inner)) for inner in _messages(hint)))
    plan = _PLANS[cls] = NAME in hints, nested
    return plan


def _messages(hint: object) -> list[type]:
    """The classes of messages in a type such as `list[Topic] | None`."""
    if isinstance(hint, type) and _is_message(hint):
        return [hint]
    if isinstance(hint, (types.GenericAlias, types.UnionType)) or typing.get_origin(hint) is not None:
        return [message for part in typing.get_args(hint) for message in _messages(part)]
    return []


def _hints(cls: type) -> dict[str, Any]:
    """The types of its fields. A class that the generator wrote out has them at its constructor alone."""
    return typing.get_type_hints(vars(cls)["__init__"] if issubclass(cls, Message) else cls)


def _is_message(cls: type) -> bool:
    return (
        issubclass(cls, Message) or hasattr(cls, "__dataclass_fields__") or (issubclass(cls, tuple) and hasattr(cls, "_fields"))
    )
