"""The numbers of groups and members of a shard, for metrics.

They change with each record, in tables of the same journal. So no scrape walks over all groups, and a reverted decision reverts
the numbers.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from libs.coordinator.core.tables import Journal, Table, add_to_count


class Counted(NamedTuple):
    """What a group counts as."""

    kind: str
    state: Any
    """A state of its kind. Its value is Kafka's name."""
    members: int


class GroupCounts:
    def __init__(self, journal: Journal) -> None:
        self.states: Table[tuple[str, str], int] = Table(journal)
        """Kind and state → number of groups. A number of zero has no entry."""
        self.members: Table[str, int] = Table(journal)
        """Kind → number of members."""

    def change(self, before: Iterable[Counted | None], after: Iterable[Counted | None]) -> None:
        """Notes that each group of `before` counts as that of `after` from now on. None: there is no such group."""
        for was, now in zip(before, after, strict=True):
            if was != now:
                self._count(was, -1)
                self._count(now, 1)

    def _count(self, group: Counted | None, by: int) -> None:
        if group is not None:
            add_to_count(self.states, (group.kind, group.state.value), by)
            if group.members:
                add_to_count(self.members, group.kind, by * group.members)
