"""DeleteGroups, versions 0 to 2: all of a group that nobody is in.

A group may have more offsets than one batch has room for. Then the asker waits, and the rest is removed by further decisions:
whoever comes into the group meanwhile stays, and the asker hears 68.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from libs.runtime.shards.decisions import Decision
from libs.runtime.shards.tables import Journal, Table
from libs.runtime.shards.timers import TimerKey
from libs.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from services.group_coordinator.core.asked import Asked
from services.group_coordinator.core.happened import DELETED, GroupDeleted
from services.group_coordinator.core.kinds.kind import Kind
from services.group_coordinator.core.offsets.expiries import Tombstones
from services.group_coordinator.core.offsets.table import OffsetTable

PART: Final = "deletions"

Decided: TypeAlias = Decision[Any, Any]


@dataclass(frozen=True, slots=True)
class DeletionWent:
    """So far: a change without a record in the log. With no names left, it has ended."""

    asker: str
    left: tuple[str, ...]
    results: tuple[tuple[str, int], ...]


class Deletions:
    def __init__(self, journal: Journal, table: OffsetTable, kind_of: Callable[[str], Kind]) -> None:
        self._table = table
        self._kind_of = kind_of
        self._under_way: Table[str, DeletionWent] = Table(journal)

    def decide(self, asked: Asked, request: DeleteGroupsRequest) -> Decided:
        names = tuple(dict.fromkeys(request.groups_names))
        into, went = self._go_on(DeletionWent(asked.fresh_id, names, ()))
        if not went.left:
            return Decision(_reply(went), into.records, happened=into.happened)
        return Decision(None, [*into.records, went], {_key(went): 0}, parks_as=_key(went), happened=into.happened)

    def expired(self, key: TimerKey) -> Decided:
        match key:
            case (_, str(asker)) if asker in self._under_way:
                into, went = self._go_on(self._under_way[asker])
                records = [*into.records, went]
                if went.left:
                    return Decision(None, records, {_key(went): 0}, happened=into.happened)
                return Decision(None, records, wakes=[(_key(went), _reply(went))], happened=into.happened)
        return Decision()

    def timers(self, now_ms: int) -> list[tuple[TimerKey, int]]:
        return [(_key(went), now_ms) for went in self._under_way.values()]

    def replay(self, record: object) -> bool:
        if type(record) is not DeletionWent:
            return False
        if record.left:
            self._under_way[record.asker] = record
        else:
            self._under_way.pop(record.asker, None)
        return True

    def _go_on(self, went: DeletionWent) -> tuple[Tombstones, DeletionWent]:
        into, results = Tombstones(), list(went.results)
        for at, name in enumerate(went.left):
            if into.full:
                return into, DeletionWent(went.asker, went.left[at:], tuple(results))
            kind = self._kind_of(name)
            error = kind.removal_error(name)
            if not error:
                for committed in self._table.of(name):
                    if into.full:
                        return into, DeletionWent(went.asker, went.left[at:], tuple(results))
                    into.remove(committed)
                into.add(kind.removal(name))
                into.happened.append(GroupDeleted(name, DELETED))
            results.append((name, int(error)))
        return into, DeletionWent(went.asker, (), tuple(results))


def _key(went: DeletionWent) -> tuple[object, ...]:
    return PART, went.asker


def _reply(went: DeletionWent) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[DeletableGroupResult(name, error) for name, error in went.results])
