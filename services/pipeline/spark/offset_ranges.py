"""Ranges of offsets, and those that the log no longer has. It needs no PySpark."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Partition = tuple[str, int]


@dataclass(frozen=True)
class OffsetRange:
    """From `start` to below `end`."""

    start: int
    end: int

    def joined(self, other: "OffsetRange") -> "OffsetRange":
        """The range from the first to the last offset of both."""
        return OffsetRange(min(self.start, other.start), max(self.end, other.end))


def lost_ranges(wanted: Mapping[Partition, OffsetRange], log_starts: Mapping[Partition, int]) -> dict[Partition, OffsetRange]:
    """The part of each range that lies below the log's start. A partition that is gone has lost all of its range.

    Holes above the log's start are no loss: control records, aborted records and compaction leave them.
    """
    lost = {}
    for partition, of_one in sorted(wanted.items()):
        end = min(of_one.end, log_starts.get(partition, of_one.end))
        if end > of_one.start:
            lost[partition] = OffsetRange(of_one.start, end)
    return lost


def describe(ranges: Mapping[Partition, OffsetRange]) -> str:
    """E.g. `orders-0 offsets 17 to 41, orders-3 offset 5`: first and last offset of each."""
    return ", ".join(f"{topic}-{number} {_offsets(of_one)}" for (topic, number), of_one in ranges.items())


def as_json(ranges: Mapping[Partition, OffsetRange]) -> dict[str, dict[str, list[int]]]:
    """`{topic: {partition: [start, end]}}`; `end` itself is not in the range."""
    found: dict[str, dict[str, list[int]]] = {}
    for (topic, number), of_one in ranges.items():
        found.setdefault(topic, {})[str(number)] = [of_one.start, of_one.end]
    return found


def shrunken(reached: Mapping[Partition, int], log_ends: Mapping[Partition, int]) -> Iterable[tuple[Partition, int, int]]:
    """Partitions whose log ends before what a stream has read: partition, end of the log, offset of the stream."""
    for partition, offset in sorted(reached.items()):
        if partition in log_ends and log_ends[partition] < offset:
            yield partition, log_ends[partition], offset


def grown(before: Mapping[Partition, int], now: Iterable[Partition]) -> Iterable[tuple[str, int]]:
    """Topics that a stream has read before, and that have more partitions now: topic, their number now."""
    partitions, known = set(now), {topic for topic, _ in before}
    for topic in sorted({topic for topic, _ in partitions - before.keys()} & known):
        yield topic, sum(each == topic for each, _ in partitions)


def _offsets(of_one: OffsetRange) -> str:
    last = of_one.end - 1
    return f"offset {last}" if last == of_one.start else f"offsets {of_one.start} to {last}"


def partitions_in_words(count: int) -> str:
    return f"{count} partition" if count == 1 else f"{count} partitions"
