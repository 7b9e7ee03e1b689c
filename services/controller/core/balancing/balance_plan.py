"""The plan of self-balancing: moves of replicas and leaderships that even out the load of nodes. A pure function of the image.

First it empties nodes. Then it separates replicas that share a rack or host without need. Then it evens out the numbers of
replicas, then those of leaderships. Last it spreads followers, so that a node's leaderships fall on all others when it dies. A
step never undoes an earlier goal, and always brings its own goal nearer. So the plan
ends, and nothing moves back. A partition that is not fully in sync, or is being reassigned, is left alone.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import Enum
from itertools import islice

from libs.cluster.image import ClusterImage
from libs.cluster.records import PartitionState
from libs.lean_dataclass import dataclass
from services.controller.core.balancing.follower_spread import FollowerSpread
from services.controller.core.placement.rack_spread import Spread
from services.controller.core.placement.replica_placement import Node
from services.controller.core.reassignment.reassignment import is_reassigning, target_of

Key = tuple[bytes, int]
Nodes = tuple[int, ...]


LEADERSHIPS_MAX = 200
"""Most changes of leadership, or of the order of replicas, in one plan. The next plan continues."""


class Goal(Enum):
    EMPTY = "a node is to be empty"
    APART = "replicas share a rack or host that need not"
    REPLICAS = "a node has more replicas than others"
    LEADERS = "a node has more leaderships than others"
    SPREAD = "a node's death would give one survivor more leaderships than others"


@dataclass(frozen=True, slots=True)
class Step:
    """The replicas that a partition is to have, the preferred leader first. `leads`: that node leads at once. `together`: the
    number of steps, from this one on, that have to begin at the same time."""

    key: Key
    before: Nodes
    after: Nodes
    goal: Goal
    leads: bool = False
    together: int = 1

    @property
    def copies(self) -> bool:
        """Whether the step copies data, or only changes leadership."""
        return not set(self.after) <= set(self.before)


@dataclass(frozen=True, slots=True)
class Situation:
    """The nodes of the cluster, as the plan sees them.

    `nodes` live and stay. `leaving` are being decommissioned. `gone` have been away for so long that nobody waits for them. Any
    other node may come back soon, so its replicas are left alone.
    """

    image: ClusterImage
    nodes: Mapping[int, Node]
    leaving: frozenset[int] = frozenset()
    gone: frozenset[int] = frozenset()


@dataclass(slots=True)
class Plan:
    """Steps in order. `stuck` are partitions with a replica that no other node can take."""

    steps: list[Step] = field(default_factory=list)
    stuck: list[Key] = field(default_factory=list)


def plan(situation: Situation, *, most: int, even: bool = True, imbalance_percentage: int = 0) -> Plan:
    """A plan with at most `most` steps that copy, one per partition. `even` False: only the steps that decommissioning needs.

    Two nodes may differ by `imbalance_percentage` of the average before anything moves to even them out, and always by one.
    """
    planner = _Planner(situation, most)
    planner.demote_leaving_nodes()
    planner.empty(situation.leaving | situation.gone if even else situation.leaving)
    if even and not planner.still_empties():
        # One goal after the other: moves of an earlier goal would be counted on the nodes that they leave.
        planner.separate_replicas()
        if not planner.plan.steps:
            planner.even_out_replicas(imbalance_percentage)
        if not planner.moves_anything():
            planner.even_out_leaderships(imbalance_percentage)
        if not planner.moves_anything() and not planner.plan.steps:
            planner.spread_followers(imbalance_percentage)
    return planner.plan


def in_sync_but_for(state: PartitionState, nodes: frozenset[int]) -> bool:
    """Whether the partition has a leader, is undamaged, and has all replicas outside of `nodes` in sync."""
    if state.leader < 0 or state.withdrawn or state.recovering or is_reassigning(state):
        return False
    isr = {member.node_id for member in state.isr}
    return all(replica.node_id in isr or replica.node_id in nodes for replica in state.replicas)


class _Planner:
    """The plan in the making. It applies each step to its own counts."""

    def __init__(self, situation: Situation, most: int) -> None:
        self._situation = situation
        self._nodes = situation.nodes
        self._spread = Spread(situation.nodes)
        self._left = most
        self._copying = False
        self._free: dict[Key, PartitionState] = {}
        self._of_topic: dict[bytes, list[Key]] = {}
        self._replicas: dict[Key, Nodes] = {}
        self._held: Counter[int] = Counter()
        self._held_of_topic: Counter[tuple[bytes, int]] = Counter()
        self._preferred: Counter[int] = Counter()
        self._seconds: Counter[Nodes] = Counter()
        """(preferred leader, second replica) → number of partitions."""
        self._led: Counter[int] = Counter()
        self.plan = Plan()
        unusable = situation.leaving | situation.gone
        image = situation.image
        for topic_id in sorted(image.topics_by_id):
            for index, state in enumerate(image.partitions_of(topic_id)):
                if state is None:
                    continue
                key, nodes = (topic_id, index), target_of(state)
                self._copying |= state.paced
                self._replicas[key] = nodes
                self._count(topic_id, nodes, 1)
                self._led[state.leader] += 1
                if in_sync_but_for(state, unusable):
                    self._free[key] = state
                    self._of_topic.setdefault(topic_id, []).append(key)

    def moves_anything(self) -> bool:
        return self._copying or any(step.copies for step in self.plan.steps)

    def demote_leaving_nodes(self) -> None:
        """Puts leaving nodes last in the order of replicas, so that none of them becomes leader while another
        replica is in sync."""
        leaving = self._situation.leaving
        if not leaving:
            return
        for key, state in list(self._free.items()):
            nodes = self._replicas[key]
            led = state.leader in leaving
            if not (led or nodes[0] in leaving):
                continue
            isr = {member.node_id for member in state.isr}
            fit = [n for n in nodes if n in self._nodes and n in isr]
            if not fit:
                continue
            first = nodes[0] if nodes[0] in fit else min(fit, key=lambda n: self._preferred[n])
            others = sorted((n for n in nodes if n != first), key=leaving.__contains__)
            self._step(key, (first, *others), Goal.EMPTY, leads=led)

    def empty(self, leaving: frozenset[int]) -> None:
        """Replaces replicas on `leaving` nodes. Replicas on gone nodes of the same partition are replaced too, since a
        reassignment waits for them."""
        unusable = self._situation.leaving | self._situation.gone
        for key, state in list(self._free.items()):
            nodes = self._replicas[key]
            if leaving.isdisjoint(nodes):
                continue
            isr = {member.node_id for member in state.isr}
            after = list(nodes)
            for node_id in [n for n in nodes if n in unusable]:
                substitute = self._substitute(key, after, node_id)
                if substitute is not None:
                    after.remove(node_id)
                    after.append(substitute)
            if any(n in unusable and n not in isr for n in after) or tuple(after) == nodes:
                self.plan.stuck.append(key)
            elif self._left:
                self._step(key, tuple(after), Goal.EMPTY)

    def _substitute(self, key: Key, nodes: Sequence[int], gone: int) -> int | None:
        stay = [n for n in nodes if n != gone]

        def cost(node_id: int) -> tuple[tuple[int, int], int, int, int, int]:
            after = (*stay, node_id)
            behind = self._seconds[after[:2]] if len(after) == 2 else 0  # a later replica never leads next
            return self._spread.shared(after), self._held_of_topic[key[0], node_id], self._held[node_id], behind, node_id

        return min((n for n in self._nodes if n not in nodes), key=cost, default=None)

    def still_empties(self) -> bool:
        """Whether replicas still leave nodes, so that nobody knows yet which node will have too many."""
        unusable, stuck = self._situation.leaving | self._situation.gone, set(self.plan.stuck)
        left = (key for key, nodes in self._replicas.items() if not unusable.isdisjoint(nodes))
        return bool(self.plan.steps) or any(key not in stuck for key in left)

    def separate_replicas(self) -> None:
        for key in list(self._whole()):
            if not self._left:
                return
            nodes = self._replicas[key]
            better = self._spread.better(nodes)
            if better:
                position, node_id = min(
                    better, key=lambda change: (self._held[change[1]] - self._held[nodes[change[0]]], change[1], change[0])
                )
                self._step(key, (*nodes[:position], node_id, *nodes[position + 1 :]), Goal.APART)

    def even_out_replicas(self, imbalance_percentage: int) -> None:
        alike = Counter(tuple(sorted(self._replicas[key])) for key in self._free)

        def link(giver: int, taker: int) -> Iterator[Key]:
            """Partitions that could go from one node to the other, the best of each topic first: the leader goes or stays as
            leaderships need it, and followers stay spread."""
            if not any(left and self._may_replace(nodes, giver, taker) for nodes, left in alike.items()):
                return
            topics = sorted(self._of_topic, key=lambda t: self._held_of_topic[t, taker] - self._held_of_topic[t, giver])
            prefers_leader = self._preferred[giver] - self._preferred[taker] >= 2
            for topic_id in topics:
                crowding: list[Key] = []
                later: list[Key] = []
                for key in self._of_topic[topic_id]:
                    nodes = self._replicas[key]
                    if key in self._free and self._may_replace(nodes, giver, taker):
                        if (nodes[0] == giver) is not prefers_leader:
                            later.append(key)
                        elif self._crowds(nodes, giver, taker):
                            crowding.append(key)
                        else:
                            yield key
                yield from crowding
                yield from later

        def move(key: Key, giver: int, taker: int) -> None:
            alike[tuple(sorted(self._replicas[key]))] -= 1
            after = tuple(taker if n == giver else n for n in self._replicas[key])
            self._step(key, after, Goal.REPLICAS)

        self._even_out(self._held, imbalance_percentage, link, move, lambda: self._left)

    def even_out_leaderships(self, imbalance_percentage: int) -> None:
        theirs: dict[int, dict[Key, Nodes]] = {}
        for key in self._whole():
            theirs.setdefault(self._replicas[key][0], {})[key] = self._replicas[key]
        left = LEADERSHIPS_MAX

        def link(giver: int, taker: int) -> Iterator[Key]:
            return (key for key, nodes in theirs.get(giver, {}).items() if taker in nodes)

        def move(key: Key, giver: int, taker: int) -> None:
            nonlocal left
            left -= 1
            others = [n for n in theirs[giver].pop(key) if n not in (giver, taker)]
            self._step(key, (taker, giver, *others), Goal.LEADERS, leads=self._free[key].leader == giver)

        self._even_out(self._preferred, imbalance_percentage, link, move, lambda: left)
        if self._uneven(self._led, imbalance_percentage):
            for key in list(self._whole()):
                leader, first = self._free[key].leader, self._replicas[key][0]
                if leader in self._nodes and self._led[leader] - self._led[first] >= 2:
                    self._step(key, self._replicas[key], Goal.LEADERS, leads=True)

    def spread_followers(self, imbalance_percentage: int) -> None:
        spread = FollowerSpread(
            self._replicas, self._whole(), self._nodes, self._held, self._may_replace, percentage=imbalance_percentage
        )
        for key, after in islice(spread.reorder(), LEADERSHIPS_MAX):
            self._step(key, after, Goal.SPREAD)
        if not self.plan.steps:
            for moves in spread.copy(self._left):
                for number, (key, after) in enumerate(moves):
                    self._step(key, after, Goal.SPREAD, together=len(moves) - number)

    def _even_out(
        self,
        counts: Counter[int],
        imbalance_percentage: int,
        link: Callable[[int, int], Iterable[Key]],
        move: Callable[[Key, int, int], None],
        room: Callable[[], int],
    ) -> None:
        if not self._uneven(counts, imbalance_percentage):
            return
        while room() and (links := self._way(counts, link)):
            for key, giver, taker in reversed(links):  # a node in the middle gives before it takes: half of a chain does no harm
                if room():
                    move(key, giver, taker)

    def _uneven(self, counts: Counter[int], imbalance_percentage: int) -> bool:
        if not self._nodes:
            return False
        loads = [counts[node_id] for node_id in self._nodes]
        return max(loads) - min(loads) > max(1, sum(loads) * imbalance_percentage // (100 * len(loads)))

    def _way(self, counts: Counter[int], link: Callable[[int, int], Iterable[Key]]) -> list[tuple[Key, int, int]]:
        """A chain of moves from a node with most to one with at least two fewer, over other nodes if need be."""
        order = sorted(self._nodes, key=lambda n: (counts[n], n))
        for giver in reversed(order):
            if counts[giver] - counts[order[0]] < 2:
                break
            chains: dict[int, list[tuple[Key, int, int]]] = {giver: []}
            queue = [giver]
            for via in queue:
                used = {key for key, _, _ in chains[via]}
                for taker in order:
                    if taker in chains:
                        continue
                    key = next((key for key in link(via, taker) if key not in used), None)
                    if key is None:
                        continue
                    chains[taker] = [*chains[via], (key, via, taker)]
                    if counts[giver] - counts[taker] >= 2:
                        return chains[taker]
                    queue.append(taker)
        return []

    def _whole(self) -> Iterator[Key]:
        """Free partitions with all replicas on nodes that stay."""
        return (key for key in self._free if all(n in self._nodes for n in self._replicas[key]))

    def _may_replace(self, nodes: Nodes, giver: int, taker: int) -> bool:
        if giver not in nodes or taker in nodes or any(n not in self._nodes for n in nodes):
            return False
        return self._spread.shared(tuple(taker if n == giver else n for n in nodes)) <= self._spread.shared(nodes)

    def _crowds(self, nodes: Nodes, giver: int, taker: int) -> bool:
        """Whether the taker would be the second replica of more of the leader's partitions than the giver was."""
        if len(nodes) < 2 or nodes[1] != giver:
            return False
        return self._seconds[nodes[0], taker] >= self._seconds[nodes[0], giver]

    def _step(self, key: Key, after: Nodes, goal: Goal, *, leads: bool = False, together: int = 1) -> None:
        step = Step(key, self._replicas[key], after, goal, leads, together)
        state = self._free.pop(key)
        self._count(key[0], step.before, -1)
        self._count(key[0], after, 1)
        self._replicas[key] = after
        self._left -= step.copies
        if leads:
            self._led[state.leader] -= 1
            self._led[after[0]] += 1
        self.plan.steps.append(step)

    def _count(self, topic_id: bytes, nodes: Nodes, sign: int) -> None:
        self._preferred[nodes[0]] += sign
        if len(nodes) > 1:
            self._seconds[nodes[:2]] += sign
        for node_id in nodes:
            self._held[node_id] += sign
            self._held_of_topic[topic_id, node_id] += sign
