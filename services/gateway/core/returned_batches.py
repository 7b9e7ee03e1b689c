"""Batches of idempotent producers that were answered with an error. The client sends them again before the batches behind them.

A producer has several batches in flight. Suppose that the first is refused, since there is no leader, and the second finds a
leader. The second is out of order only because the answer to the first has not arrived yet. It merely has to be sent again too.
An OUT_OF_ORDER_SEQUENCE_NUMBER would make librdkafka begin a new epoch and store records again that may be stored already.
"""

from typing import NamedTuple

PRODUCERS_MAX = 10_000
TIMEOUT_S = 5.0
"""A producer that gave the batch up never sends it again. After so long it gets OUT_OF_ORDER_SEQUENCE_NUMBER."""

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
    resent: bool = False
    """Whether the first was sent again."""


class ReturnedBatches:
    """The returned batches by producer. It is true while there are any."""

    def __init__(self) -> None:
        self._returned: dict[Producer, ReturnedRange] = {}

    def __bool__(self) -> bool:
        return bool(self._returned)

    def add(self, producer: Producer, sequence: int, now: float) -> None:
        """Notes a batch that was answered with an error."""
        first = last = sequence
        known = self._returned.pop(producer, None)
        if known is not None:
            first = sequence if _is_before(sequence, known.first) else known.first
            last = sequence if _is_before(known.last, sequence) else known.last
        elif len(self._returned) >= PRODUCERS_MAX:
            del self._returned[next(iter(self._returned))]
        self._returned[producer] = ReturnedRange(first, last, now + TIMEOUT_S)

    def has_earlier(self, producer: Producer, sequence: int, now: float) -> bool:
        """Whether the producer still has to send a batch before this one again."""
        known = self._returned.get(producer)
        if known is None:
            return False
        if known.expires_at < now:
            del self._returned[producer]
            return False
        return _is_before(known.first, sequence)

    def overtakes(self, producer: Producer, sequence: int, now: float) -> bool:
        """Whether a batch, about to be sent, would overtake a returned one: its producer has sent none of those again.

        A leader that does not know the producer would store it. Then the returned batch is out of order for ever.
        """
        known = self._returned.get(producer)
        if known is None or known.resent:
            return False
        if not _is_before(known.first, sequence):
            self._returned[producer] = known._replace(resent=True)
            return False
        return self.has_earlier(producer, sequence, now)

    def stored(self, producer: Producer, sequence: int) -> None:
        """Notes a batch that was stored. The latest returned batch ends the wait, and so does one behind it.

        Earlier ones do not: an append that waits for its followers is answered after a later one that was refused at once.
        """
        known = self._returned.get(producer)
        if known is not None and not _is_before(sequence, known.last):
            del self._returned[producer]


def _is_before(sequence: int, other: int) -> bool:
    """Whether a sequence comes before another one. After the greatest, sequences start again at 0."""
    return 0 < (other - sequence) % _SEQUENCES < _SEQUENCES // 2
