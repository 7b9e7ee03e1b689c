"""A finding of a check."""

from dataclasses import dataclass

from tests.history.calls import Call
from tests.history.model import Key, Value


@dataclass(frozen=True)
class Finding:
    """`kind`: the rule that does not hold. `calls`: those that show it, in the order in which they began."""

    kind: str
    says: str
    key: Key | None = None
    values: tuple[Value, ...] = ()
    calls: tuple[Call, ...] = ()
    allowed: bool = False
    """Worth knowing, and nothing wrong: Kafka promises no more."""
