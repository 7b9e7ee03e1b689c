"""Where new replicas go: even over the nodes, within the topic first and over the whole cluster second.

Within the topic first, because a node that has just joined is empty, and would otherwise lead all of the next busy topic.
Replicas of one partition avoid sharing a rack, and then a host: several storage processes on one host fail together.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from libs.cluster.records import PartitionState


@dataclass(frozen=True, slots=True)
class Node:
    """A live storage node, as placement sees it."""

    node_id: int
    rack: str = ""
    host_id: str = ""
    log_dirs: tuple[str, ...] = ()


@dataclass(slots=True)
class Load:
    """How much each node holds already. `placed` keeps it current while a request places several topics."""

    leaders: Counter[int] = field(default_factory=Counter)
    replicas: Counter[int] = field(default_factory=Counter)
    directories: Counter[tuple[int, str]] = field(default_factory=Counter)

    @classmethod
    def of(cls, partitions: Iterable[PartitionState]) -> "Load":
        load = cls()
        for state in partitions:
            load.leaders[state.replicas[0].node_id] += 1  # the preferred leader, which is where leadership returns to
            for node_id, log_dir_id in state.replicas:
                load.replicas[node_id] += 1
                load.directories[node_id, log_dir_id] += 1
        return load

    def placed(self, replicas: Sequence[int]) -> None:
        self.leaders[replicas[0]] += 1
        self.replicas.update(replicas)


def place(partitions: int, replication_factor: int, nodes: Sequence[Node], load: Load, start: int) -> list[tuple[int, ...]]:
    """Node ids of each new partition's replicas, the preferred leader first. Adds what it placed to `load`.

    `start` says which of equally loaded nodes is taken first, so that the same input gives the same answer. Needs at least
    `replication_factor` nodes.
    """
    assert 1 <= replication_factor <= len(nodes)
    ordered = sorted(nodes, key=lambda node: node.node_id)
    shift = start % len(ordered)
    rotated = ordered[shift:] + ordered[:shift]
    here = Load()  # this topic's own share
    chosen = []
    for _ in range(partitions):
        replicas = _replicas(replication_factor, rotated, here, load)
        here.placed(replicas)
        load.placed(replicas)
        chosen.append(replicas)
    return chosen


def _replicas(count: int, nodes: Sequence[Node], here: Load, load: Load) -> tuple[int, ...]:
    # min() takes the first of equals, so the rotation decides between them.
    leader = min(nodes, key=lambda n: (here.leaders[n.node_id], load.leaders[n.node_id], load.replicas[n.node_id]))
    picked = [leader]
    while len(picked) < count:
        racks = {node.rack for node in picked if node.rack}
        hosts = {node.host_id for node in picked if node.host_id}
        taken = {node.node_id for node in picked}

        def cost(node: Node, racks: set[str] = racks, hosts: set[str] = hosts) -> tuple[bool, bool, int, int]:
            spent = here.replicas[node.node_id], load.replicas[node.node_id]
            return (node.rack in racks, node.host_id in hosts, *spent)

        picked.append(min((node for node in nodes if node.node_id not in taken), key=cost))
    return tuple(node.node_id for node in picked)


def choose_directory(node: Node, load: Load) -> str:
    """The log directory with the fewest replicas, "" when the node has named none and must choose for itself."""
    if not node.log_dirs:
        return ""
    directory = min(node.log_dirs, key=lambda log_dir_id: load.directories[node.node_id, log_dir_id])
    load.directories[node.node_id, directory] += 1
    return directory
