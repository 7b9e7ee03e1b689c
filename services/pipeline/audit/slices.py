"""Slices of the log beside slices of the lake: which buckets differ, and where offsets are absent. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Partition(NamedTuple):
    topic: str
    number: int


class Bucket(NamedTuple):
    """The offsets `number * size` to `(number + 1) * size - 1` of a partition."""

    topic: str
    partition: int
    number: int


class Range(NamedTuple):
    """Offsets `first` to `last` of a partition, inclusive."""

    topic: str
    partition: int
    first: int
    last: int


class Slice(NamedTuple):
    """The checksums of one slice (`transforms/checksums.py:slice_checksums`). `start_s` is seconds since 1970,
    None of records whose timestamp Spark cannot hold."""

    topic: str
    partition: int
    bucket: int
    start_s: int | None
    records: int
    bytes: int
    first: int
    last: int
    low: int
    high: int
    folded: int


@dataclass(frozen=True, slots=True)
class Scope:
    """The offsets of one partition that an audit compares: `start` up to, not including, `end`."""

    start: int
    end: int


@dataclass(slots=True)
class _Extent:
    records: int
    first: int
    last: int


def differing_buckets(log: Iterable[Slice], lake: Iterable[Slice]) -> set[Bucket]:
    """Buckets with a slice that only one side has, or has differently."""
    return {Bucket(*each[:3]) for each in set(log) ^ set(lake)}


def absent_offsets(slices: Iterable[Slice], scopes: Mapping[Partition, Scope]) -> tuple[list[Range], set[Bucket]]:
    """Gaps between buckets of the log, and the buckets that have gaps within."""
    extents: dict[Bucket, _Extent] = {}
    for each in slices:
        known = extents.get(bucket := Bucket(*each[:3]))
        if known is None:
            extents[bucket] = _Extent(each.records, each.first, each.last)
        else:
            known.records += each.records
            known.first, known.last = min(known.first, each.first), max(known.last, each.last)
    holed = {bucket for bucket, extent in extents.items() if extent.records < extent.last - extent.first + 1}
    by_partition: dict[Partition, list[Bucket]] = defaultdict(list)
    for bucket in sorted(extents):
        by_partition[Partition(*bucket[:2])].append(bucket)
    between = []
    for partition, scope in sorted(scopes.items()):
        reached = scope.start
        for bucket in by_partition[partition]:
            if extents[bucket].first > reached:
                between.append(Range(*partition, reached, extents[bucket].first - 1))
            reached = max(reached, extents[bucket].last + 1)
        if reached < scope.end:
            between.append(Range(*partition, reached, scope.end - 1))
    return between, holed


def touching_joined(ranges: Iterable[Range]) -> list[Range]:
    """In the order of offsets; ranges that touch are one."""
    runs: list[Range] = []
    for each in sorted(ranges):
        if runs and runs[-1][:2] == each[:2] and each.first <= runs[-1].last + 1:
            runs[-1] = runs[-1]._replace(last=max(runs[-1].last, each.last))
        else:
            runs.append(each)
    return runs
