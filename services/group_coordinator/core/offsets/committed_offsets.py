"""Committed offsets as a part of the group coordinator, whatever the kind of their group."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

from libs.coordinator.core.decisions import Decision
from libs.coordinator.core.tables import Journal
from libs.coordinator.core.timers import TimerKey
from libs.wire.messages.offset_commit import OffsetCommitRequest
from libs.wire.messages.offset_delete import OffsetDeleteRequest
from libs.wire.messages.offset_fetch import OffsetFetchRequest
from libs.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from services.group_coordinator.core.model.group_kind import Kind
from services.group_coordinator.core.model.records import OffsetCommitted, OffsetPending, OffsetRemoved, TransactionEnded
from services.group_coordinator.core.model.requests import RequestEvent, TransactionMarker
from services.group_coordinator.core.model.settings import GroupSettings
from services.group_coordinator.core.model.topics_view import TopicsView
from services.group_coordinator.core.offsets import commits, deletions, expiries, fetches, transactional_commits
from services.group_coordinator.core.offsets.offset_table import OffsetTable
from services.group_coordinator.core.offsets.pending_offsets import PendingOffsets

PART: Final = "offsets"
CHECK: Final[TimerKey] = (PART, "check")

Decided: TypeAlias = Decision[Any, Any]


class Offsets:
    """Committed offsets of all groups. `kind_of` returns a group's kind; `all_groups` names them all."""

    def __init__(
        self,
        journal: Journal,
        settings: Callable[[], GroupSettings],
        topics: Callable[[], TopicsView],
        kind_of: Callable[[str], Kind],
        all_groups: Callable[[], Iterable[str]],
    ) -> None:
        self.table = OffsetTable(journal)
        self.pending = PendingOffsets(journal)
        self._settings = settings
        self._topics = topics
        self._kind_of = kind_of
        self._all_groups = all_groups

    def __contains__(self, group: object) -> bool:
        """Whether the group has offsets, even if all of them are pending."""
        return group in self.table or group in self.pending

    def groups(self) -> Iterator[str]:
        """The groups that have offsets."""
        yield from self.table
        yield from (group for group in self.pending.groups() if group not in self.table)

    def decide_commit(self, event: RequestEvent, request: OffsetCommitRequest, now_ms: int) -> Decided:
        kind, limit = self._kind_of(request.group_id), self._settings().offset_metadata_max
        return commits.decide_commit(kind, request, event.version, self._topics(), limit, now_ms)

    def decide_fetch(self, event: RequestEvent, request: OffsetFetchRequest, now_ms: int) -> Decided:
        pending = self.pending if request.require_stable else None
        reader = fetches.Reader(self.table, self._topics(), event.version, pending)
        groups = fetches.groups_of(request, event.version)
        return fetches.decided([reader.group(self._kind_of(group.group_id), group) for group in groups], event.version)

    def decide_deletion(self, event: RequestEvent, request: OffsetDeleteRequest, now_ms: int) -> Decided:
        kind = self._kind_of(request.group_id)
        return deletions.decide_deletion(kind, self.table, self.pending, request, self._topics())

    def decide_transactional_commit(self, request: TxnOffsetCommitRequest, now_ms: int) -> Decided:
        kind, limit = self._kind_of(request.group_id), self._settings().offset_metadata_max
        return transactional_commits.decide_transactional_commit(kind, request, self._topics(), limit, now_ms)

    def decide_marker(self, marker: TransactionMarker) -> Decided:
        return transactional_commits.decide_marker(self.pending, marker)

    # -- timers -------------------------------------------------------------------------------------------------------------

    def timers(self, now_ms: int) -> Iterator[tuple[TimerKey, int]]:
        yield CHECK, now_ms + self._settings().offsets_check_interval_ms

    def expired(self, key: TimerKey, now_ms: int, bytes_max: int = expiries.TOMBSTONES_BYTES_MAX) -> Decided:
        match key:
            case (_, "check"):
                timers = expiries.due(PART, expiries.slices(self._all_groups(), self.table), now_ms)
                timers[CHECK] = now_ms + self._settings().offsets_check_interval_ms
                return Decision(timers=timers)
            case (_, "slice", tuple(names)):
                retention_ms = self._settings().offsets_retention_ms
                context = expiries.ExpiryContext(self.table, self.pending, self._topics(), retention_ms, now_ms)
                tombstones, left = expiries.expire_slice(names, self._kind_of, context, bytes_max)
                timers = expiries.due(PART, [left] if left else [], now_ms + expiries.PAUSE_MS)
                return Decision(records=tombstones.records, timers=timers, events=tombstones.events)
        return Decision()

    # -- records ------------------------------------------------------------------------------------------------------------

    def replay(self, record: object) -> bool:
        """Applies `record`; False if it is not about an offset."""
        if type(record) is OffsetCommitted:
            self.table.put(record)
            self.pending.replace(record.group, record.topic, record.partition)
        elif type(record) is OffsetPending:
            self.pending.put(record)
        elif type(record) is TransactionEnded:
            for committed in self.pending.end(record):
                self.table.put(committed)
        elif type(record) is OffsetRemoved:
            self.table.remove(record)
            self.pending.replace(record.group, record.topic, record.partition)
        else:
            return False
        return True
