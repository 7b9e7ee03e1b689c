"""Regular expressions of subscriptions (KIP-848): RE2's syntax, matched in time linear in the topic's name.

Kafka uses RE2J, which has the same syntax, except that it refuses two groups with the same name. A pattern has to match the whole
name.
"""

from collections.abc import Iterable
from typing import Any, Final

import re2

from services.group_coordinator.core.model.quoting import quoted

LENGTH_MAX: Final = 4096
"""Longest expression, in characters. Kafka has no limit."""
_MEMORY_MAX: Final = 1 << 20  # bytes of one compiled pattern; RE2 refuses what would take more

_AS_KAFKA_SAYS: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "unexpected )": "unexpected )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}


class InvalidRegularExpression(ValueError):
    """An invalid expression. Its text is Kafka's message for INVALID_REGULAR_EXPRESSION."""


def matching_topics(regex: str, names: Iterable[str]) -> tuple[str, ...]:
    """The matching names in order. Raises InvalidRegularExpression."""
    pattern = _compiled(regex)
    return tuple(sorted(name for name in names if pattern.fullmatch(name) is not None))


def _compiled(regex: str) -> Any:
    """The compiled pattern. RE2's Python module caches the last 128."""
    if len(regex) > LENGTH_MAX:
        raise _invalid(f"{regex[:40]}...", f"it is longer than {LENGTH_MAX} characters")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_MAX
    try:
        return re2.compile(regex, options)
    except re2.error as error:
        reason = error.args[0]
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        kind = text.partition(": ")[0]
        raise _invalid(regex, _AS_KAFKA_SAYS.get(kind, kind)) from None


def _invalid(regex: str, why: str) -> InvalidRegularExpression:
    return InvalidRegularExpression(f"SubscribedTopicRegex `{quoted(regex)}` is not a valid regular expression: {why}.")
