"""Regular expressions that consumers subscribe with (KIP-848): RE2's syntax, in time linear in the name that is looked at.

Kafka takes RE2J, which has the same syntax, except that it refuses two groups of one name. A pattern has to match the whole name
of a topic.
"""

from collections.abc import Iterable
from typing import Any, Final

import re2

from services.group_coordinator.core.quoted import quoted

LENGTH_MAX: Final = 4096
"""In characters. Kafka knows no bound."""
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
    """Its text is what Kafka tells clients beside INVALID_REGULAR_EXPRESSION (128)."""


def matching_topics(regex: str, names: Iterable[str]) -> tuple[str, ...]:
    """In order. Raises InvalidRegularExpression."""
    pattern = _compiled(regex)
    return tuple(sorted(name for name in names if pattern.fullmatch(name) is not None))


def _compiled(regex: str) -> Any:
    """RE2's Python side keeps the last 128."""
    if len(regex) > LENGTH_MAX:
        raise _invalid(f"{regex[:40]}...", f"it is longer than {LENGTH_MAX} characters")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_MAX
    try:
        return re2.compile(regex, options)
    except re2.error as error:
        said = error.args[0]
        text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        kind = text.partition(": ")[0]
        raise _invalid(regex, _AS_KAFKA_SAYS.get(kind, kind)) from None


def _invalid(regex: str, why: str) -> InvalidRegularExpression:
    return InvalidRegularExpression(f"SubscribedTopicRegex `{quoted(regex)}` is not a valid regular expression: {why}.")
