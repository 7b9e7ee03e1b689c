"""The spread of followers: the partitions that one node leads have their second replicas on all other nodes, each with the same
share, give or take one.

The second replica leads when the leader dies, so a death then adds a little to each survivor. Placement spreads new replicas this
way (`services/controller/core/placement/replica_placement.py`); these moves spread those of an existing cluster. They change no
preferred leader, bring no replicas closer, and leave the numbers of replicas as even or uneven as they were. The sum of the
squares of all shares falls with each of them, so they come to an end.

First followers of one partition change places, which copies nothing. Then one follower goes from a node to another one. Unless
that one has exactly one replica less, it gives a replica in return, perhaps by way of further nodes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

Key = tuple[bytes, int]
Nodes = tuple[int, ...]
Move = tuple[Key, Nodes]
"""A partition, and the replicas that it is to have."""

TOGETHER_MAX = 4
"""Most moves that have to begin together."""
BORNE = 5
"""Topics that were placed one after another leave differences of this size, for which no data should move."""
LINKS_MAX = 10_000
"""Most pairs of nodes that are looked at for one chain, so that a large cluster which cannot be spread costs little."""

MayReplace = Callable[[Nodes, int, int], bool]
"""(replicas, giver, taker) → whether the taker may have the giver's place, by racks and hosts."""


class FollowerSpread:
    """The second replicas of all partitions, of which the `movable` ones may change. It applies each move to its own counts."""

    def __init__(
        self,
        replicas: Mapping[Key, Nodes],
        movable: Iterable[Key],
        nodes: Iterable[int],
        held: Mapping[int, int],
        may_replace: MayReplace,
        *,
        percentage: int,
    ) -> None:
        """`held`: the number of replicas on each node. Two shares may differ by `percentage` of the average, and always by one.
        Unless `percentage` is 0, they may also differ by `BORNE` before anything is copied."""
        self._nodes = sorted(nodes)
        self._held = Counter(held)
        self._may_replace = may_replace
        self._percentage = percentage
        self._seconds = Counter([nodes[:2] for nodes in replicas.values() if len(nodes) > 1])
        self._movable: dict[Nodes, dict[Nodes, list[Key]]] = {}
        """(leader, second) → all replicas → partitions. Few sets of nodes have many partitions."""
        self._later: dict[int, dict[Nodes, None]] = {}
        """Node → all replicas in which it is neither leader nor second."""
        for key in movable:
            if len(replicas[key]) > 1:
                self._add(key, replicas[key])

    def reorder(self) -> Iterator[Move]:
        """Moves that copy nothing: the second replica changes places with a later one."""
        for leader, giver, taker in self._uneven(1):
            nodes = next((nodes for nodes in self._of(leader, giver) if taker in nodes[2:]), None)
            if nodes is not None:
                yield self._move(nodes, _exchanged(nodes, giver, taker))

    def copy(self, most: int) -> Iterator[list[Move]]:
        """Moves that copy, at most that many. Those of one list have to begin together: a part of them would leave a node with
        too many replicas."""
        while moves := self._next_copies(min(most, TOGETHER_MAX)):
            most -= len(moves)
            yield moves

    def _next_copies(self, most: int) -> list[Move]:
        links: dict[tuple[int, int], Nodes | None] = {}
        for leader, giver, taker in self._uneven(BORNE if self._percentage else 1):
            nodes = next((nodes for nodes in self._of(leader, giver) if self._may_replace(nodes, giver, taker)), None)
            if nodes is None:
                continue
            way = [] if self._held[giver] - self._held[taker] == 1 else self._way(taker, giver, links)
            if way is None or 1 + len(way) > most:
                continue
            moves = [(nodes, (giver, taker)), *way]
            if len({before for before, _ in moves}) == len(moves):  # else one partition might have to move twice
                return [self._move(before, _replaced(before, *ends)) for before, ends in moves]
        return []

    def _way(
        self, start: int, end: int, links: dict[tuple[int, int], Nodes | None]
    ) -> list[tuple[Nodes, tuple[int, int]]] | None:
        """The shortest chain of moves by which one replica leaves `start` and one arrives at `end`. None: there is none.

        Every node on the way gives what it takes. `links` keeps what was found between two nodes.
        """
        ways: dict[int, list[tuple[Nodes, tuple[int, int]]]] = {start: []}
        queue = [start]
        for via in queue:
            for taker in self._nodes:
                if taker in ways or len(links) > LINKS_MAX:
                    continue
                if (via, taker) not in links:
                    links[via, taker] = self._link(via, taker)
                nodes = links[via, taker]
                if nodes is None:
                    continue
                ways[taker] = [*ways[via], (nodes, (via, taker))]
                if taker == end:
                    return ways[taker]
                queue.append(taker)
        return None

    def _link(self, giver: int, taker: int) -> Nodes | None:
        """Replicas of which one may go from one node to the other: the second, if its leader has at least one more there, or a
        later one."""
        gains = {n: self._seconds[n, giver] - self._seconds[n, taker] for n in self._nodes}
        for leader in sorted((n for n in self._nodes if gains[n] >= 1), key=lambda n: -gains[n]):
            for nodes in self._of(leader, giver):
                if self._may_replace(nodes, giver, taker):
                    return nodes
        later = self._later.get(giver, {})
        return next((nodes for nodes in later if self._may_replace(nodes, giver, taker)), None)

    def _uneven(self, borne: int) -> Iterator[tuple[int, int, int]]:
        """(leader, giver, taker), the most uneven first for each leader. Shares that change meanwhile are looked at again."""
        for leader in self._nodes:
            others = [n for n in self._nodes if n != leader]
            total = sum(self._seconds[leader, n] for n in others)
            bearable = max(borne, total * self._percentage // (100 * max(1, len(others))))
            changed = True
            while changed:
                changed = False
                order = sorted(others, key=lambda n: (self._seconds[leader, n], n))
                for giver in reversed(order):
                    for taker in order:
                        before = self._seconds[leader, giver]
                        if before - self._seconds[leader, taker] <= bearable:
                            break
                        yield leader, giver, taker
                        changed = changed or self._seconds[leader, giver] != before

    def _add(self, key: Key, nodes: Nodes) -> None:
        self._movable.setdefault(nodes[:2], {}).setdefault(nodes, []).append(key)
        for node_id in nodes[2:]:
            self._later.setdefault(node_id, {})[nodes] = None

    def _of(self, leader: int, second: int) -> Mapping[Nodes, list[Key]]:
        return self._movable.get((leader, second), {})

    def _move(self, before: Nodes, after: Nodes) -> Move:
        """Moves one of the partitions with these replicas. It does not move again."""
        alike = self._movable[before[:2]]
        key = alike[before].pop()
        if not alike[before]:
            del alike[before]
            for node_id in before[2:]:
                del self._later[node_id][before]
        self._seconds[before[:2]] -= 1
        self._seconds[after[:2]] += 1
        self._held.subtract(before)
        self._held.update(after)
        return key, after


def _replaced(nodes: Nodes, giver: int, taker: int) -> Nodes:
    return tuple([taker if n == giver else n for n in nodes])


def _exchanged(nodes: Nodes, one: int, other: int) -> Nodes:
    return tuple([other if n == one else one if n == other else n for n in nodes])
