"""Which coordinator owns which shard of an internal topic: each has a live owner, all own evenly, and as few move as may be.

Level-triggered, as elections are: told who lives now, it answers what differs. A process that restarted is another owner, and
what its former life owned belongs to nobody. While nobody lives who could take them, shards stay whose they were.

Who joins gets its share of what others own only once it is calm: of coordinators that start one after the other, each would
else move shards that the next one moves again, and a shard that moves is loaded anew. What nobody serves waits for nothing.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from libs.cluster.owners import Owner
from libs.cluster.records import GROUP_COORDINATOR, Member, PartitionState
from libs.cluster.topic_names import GROUP_TOPIC

OWNED_BY: Final = {GROUP_TOPIC: GROUP_COORDINATOR}
"""The internal topics whose shards are assigned, and the role of who owns them."""

CALM_S: Final = 1.0
"""Nobody has come or gone for so long."""
CALM_S_MAX: Final = 5.0
"""So long after the first change it counts as calm even if the changes go on: one that starts again and again stops nobody."""


def candidates(members: Mapping[int, Member]) -> list[Owner]:
    """Who may own shards: who lives and is not about to stop."""
    return [Owner(node_id, member.incarnation) for node_id, member in sorted(members.items()) if not member.stopping]


def owners(shards: Sequence[Owner | None], living: Sequence[Owner], *, even: bool) -> list[Owner | None]:
    """Who is to own each shard; `shards` says who owns it now. Those without a living owner go to whoever has the fewest.
    `even`: others move too, until counts differ by one at most.

    Of equals, the first of `living` is given to, and the last one is taken from.
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
    """(index, new state) of the shards that change owners. A state that is missing is passed over."""
    present = [(index, state) for index, state in enumerate(states) if state is not None]
    wanted = owners([Owner.named(state.owner) for _, state in present], candidates(members), even=even)
    return [
        (index, owned_by(state, owner))
        for (index, state), owner in zip(present, wanted, strict=True)
        if owner is not None and str(owner) != state.owner
    ]


def owned_by(state: PartitionState, owner: Owner) -> PartitionState:
    """The leader and its epoch are left alone: it goes on, and takes the new owner's claim."""
    epoch, owner_epoch = state.partition_epoch + 1, state.owner_epoch + 1
    return replace(state, owner=str(owner), owner_epoch=owner_epoch, partition_epoch=epoch)


def owned_from_the_start(states: Sequence[PartitionState], members: Mapping[int, Member]) -> tuple[PartitionState, ...]:
    """First states of shards that are about to be created."""
    given = dict(assigned(states, members, even=True))
    return tuple(replace(given[i], partition_epoch=s.partition_epoch) if i in given else s for i, s in enumerate(states))


class Calm:
    """How long the same processes have been there. Times are of one monotonic clock, in seconds."""

    __slots__ = ("_changed_s", "_restless_s", "_there")

    def __init__(self) -> None:
        self._there: frozenset[Owner] | None = None
        self._changed_s = self._restless_s = 0.0

    def within(self, there: Collection[Owner], now_s: float) -> float:
        """How long it takes until it is calm if nothing changes; 0: it is."""
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
