"""Batches of idempotent producers that were answered with an error. The client sends them again before the batches behind them.

A producer has several batches in flight. Suppose that the first is refused, since there is no leader, and the second finds a
leader. The second is out of order only because the answer to the first has not arrived yet. It merely has to be sent again too.
An OUT_OF_ORDER_SEQUENCE_NUMBER would make librdkafka begin a new epoch and store records again that may be stored already.
"""

from typing import NamedTuple

from libs.wire.record_batches.batch_layout import is_before

PRODUCERS_MAX = 10_000
TIMEOUT_S = 5.0
"""A producer that gave the batch up never sends it again. After so long it gets OUT_OF_ORDER_SEQUENCE_NUMBER."""
CROSSING_S = 1.0
"""So long may a batch be on its way that its client sent before it heard the answer. A later one without the returned batch comes
from a client that has sent it again through another gateway."""


class Producer(NamedTuple):
    """A producer id and epoch, in one partition."""

    partition: tuple[str, int]
    """The topic's name and the index. A gateway may not know the topic's id yet."""
    producer_id: int
    epoch: int


class ReturnedRange(NamedTuple):
    """The returned batches of a producer. `first` and `last`: the first sequences of the earliest and of the latest one.

    Orders are those in which this gateway received all batches.
    """

    first: int
    last: int
    expires_at: float = 0.0
    returned_before: int = -1
    """An order. Batches below it were here when the last one was returned."""
    crossing_until: float = 0.0
    """Batches that arrive by then were sent before the client knew."""
    resent: int | None = None
    """The order in which the first was sent again; None: it was not."""
    is_producer_known: bool = False
    """Whether a batch was stored since. Then the log of each later leader tells what is out of sequence."""


class ReturnedBatches:
    """The returned batches by producer. It is true while there are any. Times are those of the event loop."""

    def __init__(self) -> None:
        self._returned: dict[Producer, ReturnedRange] = {}
        """The one that expires next comes first."""

    def __bool__(self) -> bool:
        return bool(self._returned)

    def add(self, producer: Producer, sequence: int, before: int, now: float, *, comes_again: bool = True) -> None:
        """Notes a batch that was answered with an error. `before`: the next batch that is received has this order at least.

        `comes_again`: clients retry after that error.
        """
        self._expire(now)
        known = self._returned.pop(producer, None)
        if known is None:
            known = ReturnedRange(sequence, sequence)
            if len(self._returned) >= PRODUCERS_MAX:
                del self._returned[next(iter(self._returned))]
        if comes_again:
            known = known._replace(returned_before=before, crossing_until=now + CROSSING_S, resent=None)
        first = sequence if is_before(sequence, known.first) else known.first
        self._returned[producer] = known._replace(first=first, last=_later(sequence, known.last), expires_at=now + TIMEOUT_S)

    def has_earlier(self, producer: Producer, sequence: int, now: float) -> bool:
        """Whether the producer still has to send a batch before this one again."""
        self._expire(now)
        known = self._returned.get(producer)
        return known is not None and is_before(known.first, sequence)

    def add_behind(self, producer: Producer, sequence: int) -> None:
        """Notes a batch that was out of order behind a returned one. It prolongs nothing: that one may be given up."""
        known = self._returned.get(producer)
        if known is not None:
            self._returned[producer] = known._replace(last=_later(sequence, known.last))

    def overtakes(self, producer: Producer, sequence: int, order: int, now: float) -> bool:
        """Whether a batch, about to be sent, would overtake a returned one. It is noted then: it must be returned, too.

        A leader that does not know the producer would store it, and the returned batch would be out of order for ever.
        """
        self._expire(now)
        known = self._returned.get(producer)
        if known is None or known.is_producer_known:
            return False
        if not is_before(known.first, sequence):
            if sequence == known.first:
                self._returned[producer] = known._replace(resent=order)
            return False
        if known.resent is not None:
            overtakes = order < known.resent
        else:
            overtakes = order < known.returned_before or now < known.crossing_until
        if overtakes:
            del self._returned[producer]
            self._returned[producer] = known._replace(last=_later(sequence, known.last), expires_at=now + TIMEOUT_S)
        return overtakes

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
        if is_before(sequence, known.last):
            self._returned[producer] = known._replace(is_producer_known=True)
        else:
            del self._returned[producer]


def _later(sequence: int, other: int) -> int:
    return sequence if is_before(other, sequence) else other
