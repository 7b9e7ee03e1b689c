"""How many replicas of one partition share a rack or a host, and which single moves would part them."""

from collections.abc import Mapping

from services.controller.core.placement import Node

Nodes = tuple[int, ...]


class Spread:
    """Over these nodes. What is asked is asked for thousands of partitions on the same nodes, so answers are kept."""

    def __init__(self, nodes: Mapping[int, Node]) -> None:
        self._nodes = nodes
        self._shared: dict[Nodes, tuple[int, int]] = {}
        self._better: dict[Nodes, list[tuple[int, int]]] = {}

    def shared(self, replicas: Nodes) -> tuple[int, int]:
        """Replicas too many in a rack, and on a host. A node that names none has one for itself."""
        found = self._shared.get(replicas)
        if found is None:
            known = [self._nodes[node_id] for node_id in replicas if node_id in self._nodes]
            racks = [node.rack for node in known if node.rack]
            hosts = [node.host_id for node in known if node.host_id]
            found = self._shared[replicas] = (len(racks) - len(set(racks)), len(hosts) - len(set(hosts)))
        return found

    def better(self, replicas: Nodes) -> list[tuple[int, int]]:
        """(position, node) of the replacements after which the fewest share a rack, then a host; none if no fewer would."""
        found = self._better.get(replicas)
        if found is None:
            found = self._better[replicas] = self._find_better(replicas)
        return found

    def _find_better(self, replicas: Nodes) -> list[tuple[int, int]]:
        least = self.shared(replicas)
        if least == (0, 0):
            return []
        found: list[tuple[int, int]] = []
        for position in range(len(replicas)):
            for node_id in self._nodes:
                if node_id in replicas:
                    continue
                shared = self.shared((*replicas[:position], node_id, *replicas[position + 1 :]))
                if shared < least:
                    least, found = shared, []
                if shared == least and least < self.shared(replicas):
                    found.append((position, node_id))
        return found
