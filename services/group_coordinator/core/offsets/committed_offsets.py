"""Committed offsets as a part of the group coordinator, whatever the kind of their group."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

from libs.coordinator.decisions import Decision
from libs.coordinator.tables import Journal
from libs.coordinator.timers import TimerKey
from libs.wire.messages.offset_commit import OffsetCommitRequest
from libs.wire.messages.offset_delete import OffsetDeleteRequest
from libs.wire.messages.offset_fetch import OffsetFetchRequest
from services.group_coordinator.core.kinds.group_kind import Kind
from services.group_coordinator.core.model.records import OffsetCommitted, OffsetRemoved
from services.group_coordinator.core.model.requests import RequestEvent
from services.group_coordinator.core.model.settings import GroupSettings
from services.group_coordinator.core.model.topics_view import TopicsView
from services.group_coordinator.core.offsets import commits, deletions, expiries, fetches
from services.group_coordinator.core.offsets.offset_table import OffsetTable

PART: Final = "offsets"
CHECK: Final[TimerKey] = (PART, "check")

Decided: TypeAlias = Decision[Any, Any]


class Offsets:
    """Committed offsets of all groups. `kind_of` returns a group's kind; `groups` names all groups."""

    def __init__(
        self,
        journal: Journal,
        settings: Callable[[], GroupSettings],
        topics: Callable[[], TopicsView],
        kind_of: Callable[[str], Kind],
        groups: Callable[[], Iterable[str]],
    ) -> None:
        self.table = OffsetTable(journal)
        self._settings = settings
        self._topics = topics
        self._kind_of = kind_of
        self._groups = groups

    def decide_commit(self, event: RequestEvent, request: OffsetCommitRequest, now_ms: int) -> Decided:
        kind, limit = self._kind_of(request.group_id), self._settings().offset_metadata_max
        return commits.decide_commit(kind, request, event.version, self._topics(), limit, now_ms)

    def decide_fetch(self, event: RequestEvent, request: OffsetFetchRequest, now_ms: int) -> Decided:
        reader = fetches.Reader(self.table, self._topics(), event.version)
        groups = fetches.groups_of(request, event.version)
        return fetches.decided([reader.group(self._kind_of(group.group_id), group) for group in groups], event.version)

    def decide_deletion(self, event: RequestEvent, request: OffsetDeleteRequest, now_ms: int) -> Decided:
        return deletions.decide_deletion(self._kind_of(request.group_id), self.table, request, self._topics())

    # -- timers -------------------------------------------------------------------------------------------------------------

    def timers(self, now_ms: int) -> Iterator[tuple[TimerKey, int]]:
        yield CHECK, now_ms + self._settings().offsets_check_interval_ms

    def expired(self, key: TimerKey, now_ms: int) -> Decided:
        match key:
            case (_, "check"):
                timers = expiries.due(PART, expiries.slices(self._groups(), self.table), now_ms)
                timers[CHECK] = now_ms + self._settings().offsets_check_interval_ms
                return Decision(timers=timers)
            case (_, "slice", tuple(names)):
                context = expiries.ExpiryContext(self.table, self._topics(), self._settings().offsets_retention_ms, now_ms)
                tombstones, left = expiries.expire_slice(names, self._kind_of, context)
                timers = expiries.due(PART, [left] if left else [], now_ms + expiries.PAUSE_MS)
                return Decision(records=tombstones.records, timers=timers, events=tombstones.events)
        return Decision()

    # -- records ------------------------------------------------------------------------------------------------------------

    def replay(self, record: object) -> bool:
        """Applies `record`; False if it is not about an offset."""
        if type(record) is OffsetCommitted:
            self.table.put(record)
        elif type(record) is OffsetRemoved:
            self.table.remove(record)
        else:
            return False
        return True
