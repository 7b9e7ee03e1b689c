"""Assignment of shards to coordinators: each shard has a live owner, counts are even, and few shards move.

Level-triggered, as elections are: it gets the live coordinators and returns the differences. A process that restarted is another
owner, and the shards of its former incarnation have none. While no coordinator lives, shards keep their owners.

A new coordinator gets shards of others only once it is calm. When coordinators start one after the other, each would otherwise
move shards that the next one moves again, and each move loads the shard anew. Shards without an owner do not wait.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from libs.cluster.records import Member, PartitionState
from libs.cluster.shard_owners import Owner

CALM_S: Final = 1.0
"""It is calm when no coordinator has come or gone for so long."""
CALM_S_MAX: Final = 5.0
"""It counts as calm so long after the first change, even if changes go on. One coordinator that keeps restarting delays nothing
further."""


def candidates(members: Mapping[int, Member]) -> list[Owner]:
    """Coordinators that may own shards: they live and are not about to stop."""
    return [Owner(node_id, member.incarnation) for node_id, member in sorted(members.items()) if not member.stopping]


def owners(shards: Sequence[Owner | None], living: Sequence[Owner], *, even: bool) -> list[Owner | None]:
    """The owner that each shard should have. `shards` are the present owners. A shard without a live owner goes to the
    coordinator with the fewest. `even`: other shards move too, until counts differ by one at most.

    Of equals, the first of `living` receives, and the last one gives.
    """
    if not living:
        return list(shards)
    held: dict[Owner, list[int]] = {owner: [] for owner in living}
    orphans: list[int] = []
    for index, owner in enumerate(shards):
        mine = held.get(owner, orphans) if owner is not None else orphans
        mine.append(index)
    for index in orphans:
        held[_fewest(held)].append(index)
    while even and len(held[most := _most(held)]) - len(held[fewest := _fewest(held)]) > 1:
        held[fewest].append(held[most].pop())
    by_index = {index: owner for owner, indexes in held.items() for index in indexes}
    return [by_index[index] for index in range(len(shards))]


def assigned(
    states: Sequence[PartitionState | None], members: Mapping[int, Member], *, even: bool
) -> list[tuple[int, PartitionState]]:
    """The shards that change owners, as (index, new state). Missing states are ignored."""
    present = [(index, state) for index, state in enumerate(states) if state is not None]
    new_owners = owners([Owner.named(state.owner) for _, state in present], candidates(members), even=even)
    return [
        (index, owned_by(state, owner))
        for (index, state), owner in zip(present, new_owners, strict=True)
        if owner is not None and str(owner) != state.owner
    ]


def owned_by(state: PartitionState, owner: Owner) -> PartitionState:
    """`state` with a new owner. Leader and leader epoch do not change: the leader accepts the new owner's claim."""
    epoch, owner_epoch = state.partition_epoch + 1, state.owner_epoch + 1
    return replace(state, owner=str(owner), owner_epoch=owner_epoch, partition_epoch=epoch)


def owned_from_the_start(states: Sequence[PartitionState], members: Mapping[int, Member]) -> tuple[PartitionState, ...]:
    """The first states of new shards, with owners."""
    given = dict(assigned(states, members, even=True))
    return tuple(replace(given[i], partition_epoch=s.partition_epoch) if i in given else s for i, s in enumerate(states))


class Calm:
    """The time for which the same coordinators have lived. Times are of one monotonic clock, in seconds."""

    __slots__ = ("_changed_s", "_restless_s", "_there")

    def __init__(self) -> None:
        self._there: frozenset[Owner] | None = None
        self._changed_s = self._restless_s = 0.0

    def remaining_s(self, there: Collection[Owner], now_s: float) -> float:
        """The time until it is calm if nothing changes; 0 if it is."""
        now_there = frozenset(there)
        if now_there != self._there:
            if self._due_s() <= now_s:
                self._restless_s = now_s
            self._there, self._changed_s = now_there, now_s
        return max(0.0, self._due_s() - now_s)

    def _due_s(self) -> float:
        return min(self._changed_s + CALM_S, self._restless_s + CALM_S_MAX) if self._there is not None else 0.0


def _fewest(held: Mapping[Owner, Sequence[int]]) -> Owner:
    return min(held, key=lambda owner: len(held[owner]))


def _most(held: Mapping[Owner, Sequence[int]]) -> Owner:
    return max(reversed(list(held)), key=lambda owner: len(held[owner]))
