"""The numbers of replicas of a partition that share a rack or a host, and the single moves that would separate them."""

from collections.abc import Mapping

from services.controller.core.placement.replica_placement import Node, shared_places

Nodes = tuple[int, ...]


class Spread:
    """The spread of partitions over these nodes. Answers are cached, since thousands of partitions are on the same nodes."""

    def __init__(self, nodes: Mapping[int, Node]) -> None:
        self._nodes = nodes
        self._shared: dict[Nodes, tuple[int, int]] = {}
        self._better: dict[Nodes, list[tuple[int, int]]] = {}

    def shared(self, replicas: Nodes) -> tuple[int, int]:
        """The numbers of surplus replicas in racks and on hosts."""
        best = self._shared.get(replicas)
        if best is None:
            best = self._shared[replicas] = shared_places(replicas, self._nodes)
        return best

    def better(self, replicas: Nodes) -> list[tuple[int, int]]:
        """The replacements, as (position, node), after which the fewest replicas share a rack, then a host. Empty if none is
        better."""
        best = self._better.get(replicas)
        if best is None:
            best = self._better[replicas] = self._find_better(replicas)
        return best

    def _find_better(self, replicas: Nodes) -> list[tuple[int, int]]:
        least = self.shared(replicas)
        if least == (0, 0):
            return []
        best: list[tuple[int, int]] = []
        for position in range(len(replicas)):
            for node_id in self._nodes:
                if node_id in replicas:
                    continue
                shared = self.shared((*replicas[:position], node_id, *replicas[position + 1 :]))
                if shared < least:
                    least, best = shared, []
                if shared == least and least < self.shared(replicas):
                    best.append((position, node_id))
        return best
