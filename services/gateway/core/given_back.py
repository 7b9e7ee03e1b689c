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


class GivenBack:
    """True when anybody has something to send again."""

    def __init__(self) -> None:
        self._earliest: dict[Producer, tuple[int, float]] = {}  # first sequence, and until when it is awaited

    def __bool__(self) -> bool:
        return bool(self._earliest)

    def add(self, producer: Producer, sequence: int, now: float) -> None:
        known = self._earliest.pop(producer, None)
        if known is not None and not _is_before(sequence, known[0]):
            sequence = known[0]
        elif known is None and len(self._earliest) >= MOST:
            del self._earliest[next(iter(self._earliest))]
        self._earliest[producer] = sequence, now + PATIENCE_S

    def is_awaited_before(self, producer: Producer, sequence: int, now: float) -> bool:
        """Whether an earlier batch than this one is still to come."""
        known = self._earliest.get(producer)
        if known is None:
            return False
        if known[1] < now:
            del self._earliest[producer]
            return False
        return _is_before(known[0], sequence)

    def came(self, producer: Producer, sequence: int) -> None:
        """A batch was stored; the one that was awaited, or one before it, ends the wait."""
        known = self._earliest.get(producer)
        if known is not None and not _is_before(known[0], sequence):
            del self._earliest[producer]


def _is_before(one: int, other: int) -> bool:
    """Sequences go on at 0 after the greatest."""
    return 0 < (other - one) % _SEQUENCES < _SEQUENCES // 2
