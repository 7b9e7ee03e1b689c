"""Batches of idempotent producers that were answered with an error. The client sends them again before the batches behind them.

A producer has several batches in flight. Suppose that the first is refused, since there is no leader, and the second finds a
leader. The second is out of order only because the answer to the first has not arrived yet. It merely has to be sent again too.
An OUT_OF_ORDER_SEQUENCE_NUMBER would make librdkafka begin a new epoch and store records again that may be stored already.
"""

from typing import NamedTuple

PRODUCERS_MAX = 10_000
TIMEOUT_S = 5.0
"""A producer that gave the batch up never sends it again. After so long it gets OUT_OF_ORDER_SEQUENCE_NUMBER."""

EVERY = -1
"""An order below all."""

_SEQUENCES = 1 << 31


class Producer(NamedTuple):
    """A producer id and epoch, in one partition."""

    key: tuple[bytes, int]
    producer_id: int
    epoch: int


class ReturnedRange(NamedTuple):
    """The first sequences of the earliest and of the latest returned batch."""

    first: int
    last: int
    expires_at: float
    passing_order: int | None
    """Batches of a higher order may be sent: the first was sent again with this order. None: it was not."""
    is_producer_known: bool
    """Whether the leader knows the producer. Then its log tells what is out of sequence, and all may be sent."""


class ReturnedBatches:
    """The returned batches by producer. It is true while there are any. Times are those of the event loop."""

    def __init__(self) -> None:
        self._returned: dict[Producer, ReturnedRange] = {}
        """The one that expires next comes first."""

    def __bool__(self) -> bool:
        return bool(self._returned)

    def add(self, producer: Producer, sequence: int, now: float, *, comes_again: bool = True, in_log: bool = False) -> None:
        """Notes a batch that was answered with an error. `comes_again`: clients retry after that error. `in_log`: the leader has
        the batch, and answered before its followers had it."""
        self._expire(now)
        first = last = sequence
        passing_order, is_producer_known = None if comes_again else EVERY, in_log
        known = self._returned.pop(producer, None)
        if known is not None:
            first = sequence if _is_before(sequence, known.first) else known.first
            last = sequence if _is_before(known.last, sequence) else known.last
            is_producer_known |= known.is_producer_known
            passing_order = None if comes_again else known.passing_order
        elif len(self._returned) >= PRODUCERS_MAX:
            del self._returned[next(iter(self._returned))]
        self._returned[producer] = ReturnedRange(first, last, now + TIMEOUT_S, passing_order, is_producer_known)

    def has_earlier(self, producer: Producer, sequence: int, now: float) -> bool:
        """Whether the producer still has to send a batch before this one again."""
        self._expire(now)
        known = self._returned.get(producer)
        return known is not None and _is_before(known.first, sequence)

    def overtakes(self, producer: Producer, sequence: int, order: int, now: float) -> bool:
        """Whether a batch, about to be sent, would overtake a returned one. `order`: in which clients sent all batches.

        A leader that does not know the producer would store it. Then the returned batch is out of order for ever.
        """
        self._expire(now)
        known = self._returned.get(producer)
        if known is None or known.is_producer_known:
            return False
        if known.passing_order is not None and known.passing_order < order:
            return False
        if _is_before(known.first, sequence):
            return True
        self._returned[producer] = known._replace(passing_order=order)
        return False

    def _expire(self, now: float) -> None:
        while self._returned and self._returned[first := next(iter(self._returned))].expires_at < now:
            del self._returned[first]

    def stored(self, producer: Producer, sequence: int) -> None:
        """Notes a batch that was stored. The latest returned batch ends the wait, and so does one behind it.

        Earlier ones do not: an append that waits for its followers is answered after a later one that was refused at once.
        """
        known = self._returned.get(producer)
        if known is None:
            return
        if _is_before(sequence, known.last):
            self._returned[producer] = known._replace(is_producer_known=True)
        else:
            del self._returned[producer]


def _is_before(sequence: int, other: int) -> bool:
    """Whether a sequence comes before another one. After the greatest, sequences start again at 0."""
    return 0 < (other - sequence) % _SEQUENCES < _SEQUENCES // 2
