"""DeleteGroups, versions 0 to 2: it deletes all that there is of a group without members.

A group may have more offsets than fit into one batch. Then the caller is parked, and further decisions delete the rest. If a
member joins meanwhile, the group stays, and the caller gets NON_EMPTY_GROUP.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from libs.coordinator.core.decisions import Decision
from libs.coordinator.core.tables import Journal, Table
from libs.coordinator.core.timers import TimerKey
from libs.lean_dataclass import dataclass
from libs.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from services.group_coordinator.core.model.group_events import DELETED, GroupDeleted
from services.group_coordinator.core.model.group_kind import Kind
from services.group_coordinator.core.model.records import OffsetRemoved
from services.group_coordinator.core.model.requests import RequestEvent
from services.group_coordinator.core.offsets.expiries import TOMBSTONES_BYTES_MAX, Tombstones
from services.group_coordinator.core.offsets.offset_table import OffsetTable
from services.group_coordinator.core.offsets.pending_offsets import PendingOffsets

PART: Final = "deletions"

Decided: TypeAlias = Decision[Any, Any]


@dataclass(frozen=True, slots=True)
class DeletionProgress:
    """The progress of one request: a change that the log does not keep. Without names left, the request has ended."""

    request_id: str
    left: tuple[str, ...]
    results: tuple[tuple[str, int], ...]


class Deletions:
    def __init__(self, journal: Journal, table: OffsetTable, pending: PendingOffsets, kind_of: Callable[[str], Kind]) -> None:
        self._table = table
        self._pending = pending
        self._kind_of = kind_of
        self._under_way: Table[str, DeletionProgress] = Table(journal)

    def decide(self, event: RequestEvent, request: DeleteGroupsRequest, bytes_max: int = TOMBSTONES_BYTES_MAX) -> Decided:
        names = tuple(dict.fromkeys(request.groups_names))
        tombstones, progress = self._continue(DeletionProgress(event.fresh_id, names, ()), bytes_max)
        if not progress.left:
            return Decision(_reply(progress), tombstones.records, events=tombstones.events)
        return Decision(
            None, [*tombstones.records, progress], {_key(progress): 0}, parks_as=_key(progress), events=tombstones.events
        )

    def expired(self, key: TimerKey, bytes_max: int = TOMBSTONES_BYTES_MAX) -> Decided:
        match key:
            case (_, str(request_id)) if request_id in self._under_way:
                tombstones, progress = self._continue(self._under_way[request_id], bytes_max)
                records = [*tombstones.records, progress]
                if progress.left:
                    return Decision(None, records, {_key(progress): 0}, events=tombstones.events)
                return Decision(None, records, wakes=[(_key(progress), _reply(progress))], events=tombstones.events)
        return Decision()

    def timers(self, now_ms: int) -> list[tuple[TimerKey, int]]:
        return [(_key(progress), now_ms) for progress in self._under_way.values()]

    def replay(self, record: object) -> bool:
        if type(record) is not DeletionProgress:
            return False
        if record.left:
            self._under_way[record.request_id] = record
        else:
            self._under_way.pop(record.request_id, None)
        return True

    def _continue(self, progress: DeletionProgress, bytes_max: int) -> tuple[Tombstones, DeletionProgress]:
        tombstones, results = Tombstones(bytes_max), list(progress.results)
        for at, name in enumerate(progress.left):
            if tombstones.full:
                return tombstones, DeletionProgress(progress.request_id, progress.left[at:], tuple(results))
            kind = self._kind_of(name)
            error = kind.deletion_error(name)
            if not error:
                for committed in self._table.of(name):
                    if tombstones.full:
                        return tombstones, DeletionProgress(progress.request_id, progress.left[at:], tuple(results))
                    tombstones.remove(committed)
                for removed in self._pending_alone(name):
                    if tombstones.full:
                        return tombstones, DeletionProgress(progress.request_id, progress.left[at:], tuple(results))
                    tombstones.add([removed])
                tombstones.add(kind.tombstones(name))
                tombstones.events.append(GroupDeleted(name, DELETED))
            results.append((name, int(error)))
        return tombstones, DeletionProgress(progress.request_id, (), tuple(results))

    def _pending_alone(self, group: str) -> Iterator[OffsetRemoved]:
        """Tombstones of pending offsets. Those of committed ones end the pending ones of their partitions, too."""
        get = self._table.get
        return (OffsetRemoved(group, *each) for each in self._pending.of(group) if get(group, *each) is None)


def _key(progress: DeletionProgress) -> tuple[object, ...]:
    return PART, progress.request_id


def _reply(progress: DeletionProgress) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[DeletableGroupResult(name, error) for name, error in progress.results])
