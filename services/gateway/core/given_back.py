"""Batches of idempotent producers that were answered with an error, and so come again before those that follow them.

A producer has several batches under way. If the first is refused, since no leader was there, and a leader is there for the
second, that one is out of order only because the answer to the first was still on its way: it must be sent again too, and that
is all. To be told OUT_OF_ORDER_SEQUENCE_NUMBER makes librdkafka begin a new epoch and store again what it may have stored.
"""

from typing import NamedTuple

MOST = 10_000
PATIENCE_S = 5.0
"""A producer that gave the batch up never sends it again, and must hear the truth at last."""

_SEQUENCES = 1 << 31


class Producer(NamedTuple):
    """Of one partition."""

    key: tuple[bytes, int]
    producer_id: int
    epoch: int


class Awaited(NamedTuple):
    """First sequences of the earliest and the latest batch that was given back."""

    first: int
    last: int
    until: float


class GivenBack:
    """True when anybody has something to send again."""

    def __init__(self) -> None:
        self._awaited: dict[Producer, Awaited] = {}

    def __bool__(self) -> bool:
        return bool(self._awaited)

    def add(self, producer: Producer, sequence: int, now: float) -> None:
        first = last = sequence
        known = self._awaited.pop(producer, None)
        if known is not None:
            first = sequence if _is_before(sequence, known.first) else known.first
            last = sequence if _is_before(known.last, sequence) else known.last
        elif len(self._awaited) >= MOST:
            del self._awaited[next(iter(self._awaited))]
        self._awaited[producer] = Awaited(first, last, now + PATIENCE_S)

    def is_awaited_before(self, producer: Producer, sequence: int, now: float) -> bool:
        """Whether an earlier batch than this one is still to come."""
        known = self._awaited.get(producer)
        if known is None:
            return False
        if known.until < now:
            del self._awaited[producer]
            return False
        return _is_before(known.first, sequence)

    def came(self, producer: Producer, sequence: int) -> None:
        """A batch was stored. The latest that was given back ends the wait, and so does one behind it. Earlier ones do not: an
        append that waits for its followers is answered after one behind it that was refused at once."""
        known = self._awaited.get(producer)
        if known is not None and not _is_before(sequence, known.last):
            del self._awaited[producer]


def _is_before(one: int, other: int) -> bool:
    """Sequences go on at 0 after the greatest."""
    return 0 < (other - one) % _SEQUENCES < _SEQUENCES // 2
