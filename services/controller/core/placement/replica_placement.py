"""Placement of new replicas: even over the nodes, within the topic first and over the cluster second.

The topic comes first because a node that has just joined is empty, and would otherwise lead all of the next busy topic. Replicas
of one partition avoid the same rack, and then the same host: storage processes of one host fail together.

Followers are spread. The second replica leads when the leader dies. So the partitions that one node leads have their second
replicas on all other nodes, each with the same share, give or take one. Kafka's striped placement does the same by a growing
shift. With more distinct sets of nodes it is likelier that several random failures meet in one partition, but each such meeting
costs fewer partitions.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import permutations

from libs.cluster.records import PartitionState
from libs.lean_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Node:
    """A live storage node, as placement sees it."""

    node_id: int
    rack: str = ""
    host_id: str = ""
    log_dirs: tuple[str, ...] = ()


@dataclass(slots=True)
class Load:
    """The load of each node. `placed` keeps it current while a request places several topics."""

    leaders: Counter[int] = field(default_factory=Counter)
    replicas: Counter[int] = field(default_factory=Counter)
    directories: Counter[tuple[int, str]] = field(default_factory=Counter)
    seconds: Counter[tuple[int, int]] = field(default_factory=Counter)
    """(preferred leader, second replica) → number of partitions. The second replica leads when the leader dies."""
    pairs: Counter[tuple[int, int]] = field(default_factory=Counter)
    """(node, other node), in both orders → number of partitions with replicas on both."""

    @classmethod
    def of(cls, partitions: Iterable[PartitionState]) -> "Load":
        load = cls()
        for state in partitions:
            load.placed([replica.node_id for replica in state.replicas])
            for node_id, log_dir_id in state.replicas:
                load.directories[node_id, log_dir_id] += 1
        return load

    def placed(self, replicas: Sequence[int]) -> None:
        """Counts a partition's replicas. The first one is the preferred leader, to which leadership returns."""
        self.leaders[replicas[0]] += 1
        self.replicas.update(replicas)
        if len(replicas) > 1:
            self.seconds[replicas[0], replicas[1]] += 1
            self.pairs.update(permutations(replicas, 2))


def place(partitions: int, replication_factor: int, nodes: Sequence[Node], load: Load, start: int) -> list[tuple[int, ...]]:
    """The node ids of each new partition's replicas, the preferred leader first. Adds them to `load`.

    `start` says which of equally loaded nodes comes first, so that the same input gives the same result. Needs at least
    `replication_factor` nodes.
    """
    assert 1 <= replication_factor <= len(nodes)
    ordered = sorted(nodes, key=lambda node: node.node_id)
    shift = start % len(ordered)
    rotated = ordered[shift:] + ordered[:shift]
    topic = _Topic(rotated, load)
    chosen = [topic.place_partition(replication_factor) for _ in range(partitions)]
    _even_out(chosen, rotated)
    for replicas in chosen:
        load.placed(replicas)
    return chosen


class _Topic:
    """The placements of one topic's new partitions so far. Nodes go by position, since one request may be for thousands of
    partitions."""

    def __init__(self, nodes: Sequence[Node], load: Load) -> None:
        ids = [node.node_id for node in nodes]
        size = range(len(ids))
        self._ids = ids
        self._racks = [node.rack for node in nodes]
        self._hosts = [node.host_id for node in nodes]
        self._leaders, self._followers = [0 for _ in size], [0 for _ in size]
        self._seconds, self._pairs = [[0 for _ in size] for _ in size], [[0 for _ in size] for _ in size]
        self._load_leaders, self._load_replicas = [load.leaders[each] for each in ids], [load.replicas[each] for each in ids]
        self._load_seconds = [[load.seconds[leader, each] for each in ids] for leader in ids]
        self._load_pairs = [[load.pairs[other, each] for each in ids] for other in ids]

    def place_partition(self, count: int) -> tuple[int, ...]:
        """The node ids of the next partition's replicas."""
        leader = self._next_leader()
        picked = [leader]
        together, load_together = self._pairs[leader], self._load_pairs[leader]
        for _ in range(count - 1):
            picked.append(self._next_follower(picked, together, load_together))
            together = [sum(row) for row in zip(together, self._pairs[picked[-1]], strict=True)]
            load_together = [sum(row) for row in zip(load_together, self._load_pairs[picked[-1]], strict=True)]
        self._leaders[leader] += 1
        for follower in picked[1:]:
            self._followers[follower] += 1
        if count > 1:
            self._seconds[leader][picked[1]] += 1
        for first, second in permutations(picked, 2):
            self._pairs[first][second] += 1
        return tuple([self._ids[position] for position in picked])

    def _next_leader(self) -> int:
        # min() takes the first of equals, so the rotation decides between them.
        return min(
            (leaders, load_leaders, leaders + followers + load_replicas, position)
            for position, (leaders, load_leaders, followers, load_replicas) in enumerate(
                zip(self._leaders, self._load_leaders, self._followers, self._load_replicas, strict=True)
            )
        )[-1]

    def _next_follower(self, picked: list[int], together: Sequence[int], load_together: Sequence[int]) -> int:
        racks = {self._racks[position] for position in picked} - {""}
        hosts = {self._hosts[position] for position in picked} - {""}
        second = len(picked) == 1
        seconds, load_seconds = self._seconds[picked[0]], self._load_seconds[picked[0]]
        return min(
            (
                self._racks[position] in racks,
                self._hosts[position] in hosts,
                seconds[position] if second else 0,
                self._followers[position],
                together[position],
                load_seconds[position] if second else 0,
                self._load_replicas[position],
                load_together[position],
                position,
            )
            for position in range(len(self._ids))
            if position not in picked
        )[-1]


def _even_out(chosen: list[tuple[int, ...]], nodes: Sequence[Node]) -> None:
    """Exchanges followers until no node has two replicas more than another, as far as racks, hosts and the spread allow.

    The choice of one partition after the other ends at most a few exchanges from there.
    """
    by_id = {node.node_id: node for node in nodes}
    counts = Counter(dict.fromkeys(by_id, 0))
    for replicas in chosen:
        counts.update(replicas)
    for _ in range(2 * len(nodes)):
        most, least = max(counts.values()), min(counts.values())
        if most - least <= 1:
            return
        exchange = _find_exchange(
            chosen,
            by_id,
            givers=[node_id for node_id in by_id if counts[node_id] == most],
            takers=[node_id for node_id in by_id if counts[node_id] == least],
        )
        if exchange is None:
            return
        index, replicas = exchange
        counts.subtract(chosen[index])
        counts.update(replicas)
        chosen[index] = replicas


def _find_exchange(
    chosen: Sequence[tuple[int, ...]], nodes: Mapping[int, Node], *, givers: Sequence[int], takers: Sequence[int]
) -> tuple[int, tuple[int, ...]] | None:
    """(partition, its replicas afterwards) with a taker in a giver's place; None: no such exchange keeps the rules."""
    seconds = Counter([replicas[:2] for replicas in chosen])
    for index, replicas in enumerate(chosen):
        for position, giver in enumerate(replicas):
            if position == 0 or giver not in givers:
                continue
            for taker in takers:
                if taker in replicas or (position == 1 and seconds[replicas[0], giver] <= seconds[replicas[0], taker]):
                    continue
                after = (*replicas[:position], taker, *replicas[position + 1 :])
                if shared_places(after, nodes) <= shared_places(replicas, nodes):
                    return index, after
    return None


def shared_places(replicas: Sequence[int], nodes: Mapping[int, Node]) -> tuple[int, int]:
    """How many replicas are too many in a rack, and on a host. A node that names none has one for itself."""
    known = [nodes[node_id] for node_id in replicas if node_id in nodes]
    racks = [node.rack for node in known if node.rack]
    hosts = [node.host_id for node in known if node.host_id]
    return len(racks) - len(set(racks)), len(hosts) - len(set(hosts))


def choose_directory(node: Node, load: Load) -> str:
    """The log directory with the fewest replicas. "" if the node has named none and chooses itself."""
    if not node.log_dirs:
        return ""
    directory = min(node.log_dirs, key=lambda log_dir_id: load.directories[node.node_id, log_dir_id])
    load.directories[node.node_id, directory] += 1
    return directory
