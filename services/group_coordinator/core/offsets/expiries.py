"""Expiry of offsets, by the state of their group or because their topic is deleted, and of groups without offsets.

All groups of a shard are checked once in `offsets.retention.check.interval.ms`, in slices with pauses between them. All due
timers are decided in one go, so without pauses other requests would wait for all slices.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from libs.cluster.metadata_history import is_surely_deleted
from libs.coordinator.core.pending import RECORD_OVERHEAD
from libs.coordinator.core.timers import TimerKey
from libs.wire.errors import ErrorCode
from services.group_coordinator.core.model.group_events import NOTHING_LEFT, GroupDeleted, GroupEvent, OffsetsExpired
from services.group_coordinator.core.model.group_kind import SINCE_COMMIT, Kind
from services.group_coordinator.core.model.records import OffsetCommitted, OffsetRemoved, Record
from services.group_coordinator.core.model.topics_view import TopicsView
from services.group_coordinator.core.offsets.offset_table import OffsetTable, is_gone
from services.group_coordinator.core.offsets.pending_offsets import PendingOffsets

TOMBSTONES_BYTES_MAX: Final = 200_000
"""Bytes of tombstones in one decision. Less than a batch of several decisions."""
ONE_TOMBSTONE: Final = 1
"""The bound where a topic allows only smaller batches."""
_SLICE_GROUPS_MAX: Final = 100
_SLICE_OFFSETS_MAX: Final = 500
"""Offsets in one slice. If all of them are old, it takes some milliseconds."""
PAUSE_MS: Final = 10
_TOMBSTONE_FIELDS: Final = RECORD_OVERHEAD + 10


class ExpiryContext(NamedTuple):
    table: OffsetTable
    pending: PendingOffsets
    topics: TopicsView
    retention_ms: int
    now_ms: int


class Tombstones:
    """The tombstones of one decision. There is room for another until they have `bytes_max`."""

    def __init__(self, bytes_max: int = TOMBSTONES_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self.records: list[Record] = []
        self.events: list[GroupEvent] = []
        self._bytes = 0

    @property
    def full(self) -> bool:
        return self._bytes >= self._bytes_max

    def remove(self, committed: OffsetCommitted) -> None:
        self.records.append(OffsetRemoved(committed.group, committed.topic, committed.partition))
        self._bytes += _TOMBSTONE_FIELDS + 4 * len(committed.group) + len(committed.topic)

    def note_expired(self, group: str, old: int, of_deleted_topics: int, left: int) -> None:
        if old or of_deleted_topics:
            self.events.append(OffsetsExpired(group, old, of_deleted_topics, left))

    def add(self, records: Iterable[Record]) -> None:
        """Adds a few tombstones, of an empty group."""
        for record in records:
            self.records.append(record)
            self._bytes += _TOMBSTONE_FIELDS + 4 * len(record.group)


def slices(groups: Iterable[str], table: OffsetTable) -> Iterator[tuple[str, ...]]:
    """All groups in slices, each short enough not to make other requests wait."""
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


def expire(kind: Kind, name: str, context: ExpiryContext, tombstones: Tombstones) -> bool:
    """Expires a group's offsets; False if `tombstones` is full, and the group has to be checked again."""
    since_ms, subscription = kind.expiry_base_ms(name), kind.subscription(name)
    stay = old = gone = 0
    for committed in context.table.of(name):
        # A tombstone would end the pending offset too, which may be of the next topic with that name.
        pending = context.pending.is_pending(name, committed.topic, committed.partition)
        deleted = is_gone(committed, context.topics) and is_surely_deleted(context.topics.restored_ms, committed.commit_ms)
        if pending or (
            not deleted
            and (
                since_ms is None
                or committed.topic in subscription
                or not is_old(committed, since_ms, context.retention_ms, context.now_ms)
            )
        ):
            stay += 1
            continue
        if tombstones.full:
            tombstones.note_expired(name, old, gone, context.table.size(name) - old - gone)
            return False
        tombstones.remove(committed)
        gone += deleted
        old += not deleted
    tombstones.note_expired(name, old, gone, stay)
    if not stay and since_ms is not None and name not in context.pending and kind.deletion_error(name) is ErrorCode.NONE:
        tombstones.add(kind.tombstones(name))
        tombstones.events.append(GroupDeleted(name, NOTHING_LEFT))
    return True


def expire_slice(
    names: tuple[str, ...], kind_of: Callable[[str], Kind], context: ExpiryContext, bytes_max: int = TOMBSTONES_BYTES_MAX
) -> tuple[Tombstones, tuple[str, ...]]:
    """The tombstones of a slice, and the names that are left."""
    tombstones = Tombstones(bytes_max)
    for at, name in enumerate(names):
        if tombstones.full or not expire(kind_of(name), name, context, tombstones):
            return tombstones, names[at:]
    return tombstones, ()


def due(part: str, portions: Iterable[tuple[str, ...]], from_ms: int) -> dict[TimerKey, int | None]:
    """Timers of the slices, one after the other."""
    return {slice_key(part, names): from_ms + at * PAUSE_MS for at, names in enumerate(portions)}


def slice_key(part: str, names: tuple[str, ...]) -> TimerKey:
    return part, "slice", names
