"""What goes by itself: offsets that are old by the state of their group, or of deleted topics, and groups with nothing left.

All groups of the shard are looked at once in `offsets.retention.check.interval.ms`, a slice at a time, with pauses between them:
all timers that are due are decided in one go, and whoever asks meanwhile would wait for all slices.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from libs.runtime.shards.pending import RECORD_OVERHEAD
from libs.runtime.shards.timers import TimerKey
from libs.wire.errors import ErrorCode
from services.group_coordinator.core.happened import NOTHING_LEFT, GroupDeleted, Happened, OffsetsExpired
from services.group_coordinator.core.kinds.kind import SINCE_COMMIT, Kind
from services.group_coordinator.core.offsets.table import OffsetTable, is_gone
from services.group_coordinator.core.records import OffsetCommitted, OffsetRemoved, Record
from services.group_coordinator.core.topics_view import TopicsView

TOMBSTONES_BYTES_MAX: Final = 200_000
"""In one decision. Less than what a batch of several decisions takes."""
_SLICE_GROUPS_MAX: Final = 100
_SLICE_OFFSETS_MAX: Final = 500
"""Where all of them are old, that is some milliseconds."""
PAUSE_MS: Final = 10
_TOMBSTONE_FIELDS: Final = RECORD_OVERHEAD + 10


class Look(NamedTuple):
    table: OffsetTable
    topics: TopicsView
    retention_ms: int
    now_ms: int


class Tombstones:
    """As many as one decision may have."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.happened: list[Happened] = []
        self._bytes = 0

    @property
    def full(self) -> bool:
        return self._bytes >= TOMBSTONES_BYTES_MAX

    def remove(self, committed: OffsetCommitted) -> None:
        self.records.append(OffsetRemoved(committed.group, committed.topic, committed.partition))
        self._bytes += _TOMBSTONE_FIELDS + 4 * len(committed.group) + len(committed.topic)

    def tell_expired(self, group: str, old: int, of_deleted_topics: int, left: int) -> None:
        if old or of_deleted_topics:
            self.happened.append(OffsetsExpired(group, old, of_deleted_topics, left))

    def add(self, records: Iterable[Record]) -> None:
        """Of a group that is empty: a few."""
        for record in records:
            self.records.append(record)
            self._bytes += _TOMBSTONE_FIELDS + 4 * len(record.group)


def slices(groups: Iterable[str], table: OffsetTable) -> Iterator[tuple[str, ...]]:
    """All groups, in portions that are looked at without making others wait."""
    names: list[str] = []
    offsets = 0
    for name in groups:
        names.append(name)
        offsets += table.size(name)
        if len(names) >= _SLICE_GROUPS_MAX or offsets >= _SLICE_OFFSETS_MAX:
            yield tuple(names)
            names, offsets = [], 0
    if names:
        yield tuple(names)


def is_old(committed: OffsetCommitted, since_ms: int, retention_ms: int, now_ms: int) -> bool:
    if committed.expire_ms != -1:
        return now_ms >= committed.expire_ms
    begun_ms = committed.commit_ms if since_ms == SINCE_COMMIT else since_ms
    return now_ms - begun_ms >= retention_ms


def expire(kind: Kind, name: str, look: Look, into: Tombstones) -> bool:
    """False: `into` is full, and the group has to be looked at again."""
    since_ms, subscription = kind.old_since(name), kind.subscription(name)
    stay = old = gone = 0
    for committed in look.table.of(name):
        deleted = is_gone(committed, look.topics)
        if not deleted and (
            since_ms is None or committed.topic in subscription or not is_old(committed, since_ms, look.retention_ms, look.now_ms)
        ):
            stay += 1
            continue
        if into.full:
            into.tell_expired(name, old, gone, look.table.size(name) - old - gone)
            return False
        into.remove(committed)
        gone += deleted
        old += not deleted
    into.tell_expired(name, old, gone, stay)
    if not stay and since_ms is not None and kind.removal_error(name) is ErrorCode.NONE:
        into.add(kind.removal(name))
        into.happened.append(GroupDeleted(name, NOTHING_LEFT))
    return True


def expire_slice(names: tuple[str, ...], kind_of: Callable[[str], Kind], look: Look) -> tuple[Tombstones, tuple[str, ...]]:
    """And the names that are left."""
    into = Tombstones()
    for at, name in enumerate(names):
        if into.full or not expire(kind_of(name), name, look, into):
            return into, names[at:]
    return into, ()


def due(part: str, portions: Iterable[tuple[str, ...]], from_ms: int) -> dict[TimerKey, int | None]:
    """One after the other."""
    return {slice_key(part, names): from_ms + at * PAUSE_MS for at, names in enumerate(portions)}


def slice_key(part: str, names: tuple[str, ...]) -> TimerKey:
    return part, "slice", names
