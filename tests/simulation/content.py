"""The content of a log as plain bytes: recovered logs are compared with it, batch by batch."""

from bisect import bisect_left
from collections.abc import Sequence

from libs.wire.record_batches.batches import BatchHeader


class Content:
    """Batches, in order; gaps between their offsets are what a cleaner took."""

    __slots__ = ("data", "headers", "places", "swaps")

    def __init__(self, batches: Sequence[bytes] = ()) -> None:
        self.data = bytearray()
        self.swaps = 0
        """How many have led to this."""
        self.headers: list[BatchHeader] = []
        self.places = [0]
        """Where in `data` each batch begins, and where the last one ends."""
        for batch in batches:
            self.add(batch)

    def add(self, batch: bytes) -> None:
        self.data += batch
        self.headers.append(BatchHeader.at(batch))
        self.places.append(len(self.data))

    def copy(self) -> "Content":
        other = Content()
        other.data, other.headers, other.places = bytearray(self.data), list(self.headers), list(self.places)
        other.swaps = self.swaps
        return other

    def keep(self, count: int) -> None:
        """The first `count` batches, and no others."""
        del self.headers[count:], self.places[count + 1 :]
        del self.data[self.places[count] :]

    def batch(self, number: int) -> bytes:
        return bytes(self.data[self.places[number] : self.places[number + 1]])

    def batches(self, start: int = 0, stop: int | None = None) -> list[bytes]:
        return [self.batch(number) for number in range(start, len(self.headers) if stop is None else stop)]

    def first_from(self, offset: int) -> int:
        """The batch that holds `offset`, or else the next one; their number if there is none."""
        return bisect_left(self.headers, offset, key=lambda header: header.last_offset)

    def replaced(self, base_offset: int, end_offset: int, batches: Sequence[bytes]) -> "Content":
        """The content once `batches` have taken the place of what lies in [base_offset, end_offset)."""
        start, stop = self.first_from(base_offset), self.first_from(end_offset)
        content = Content([*self.batches(0, start), *batches, *self.batches(stop)])
        content.swaps = self.swaps + 1
        return content

    def match(self, found: bytes, first_offset: int) -> tuple[int, int] | None:
        """If `found` is a row of whole batches from `first_offset` on: the number of the first, and of the one after the last."""
        start = self.first_from(first_offset)
        size = self.places[start] + len(found)
        stop = bisect_left(self.places, size)
        if stop == len(self.places) or self.places[stop] != size or self.data[self.places[start] : size] != found:
            return None
        return start, stop
