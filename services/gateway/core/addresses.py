"""Which gateway stands for which broker id, from one cluster image and for each host that clients are on. No I/O.

The same client gets the same answer whichever gateway it asks, and clients on different hosts get different ones.
"""

import hashlib
from collections.abc import Iterable

from libs.cluster.image import ClusterImage
from libs.cluster.records import GATEWAY, STORAGE, Listener, Member

CLIENTS_MAX = 1024
"""That addresses are remembered for."""

Gateways = tuple[tuple[Member, Listener], ...]
Gone = frozenset[tuple[int, int]]
"""Gateways that have ended, though members still: node id and incarnation."""
NOBODY: Gone = frozenset()


class Addresses:
    """Of the members of one image; `serves` says whether they are those of another.

    While no gateway is a member, those of `former` stand: a metadata store that was stopped for a while lets all leases end at
    once (a lost lease is not a death), and the last gateway that leaves ends its own. A client that is told of no broker at all
    may not come back: librdkafka forgets all those that it knew, and asks nobody again (its issue 5301).
    """

    def __init__(self, image: ClusterImage, gone: Gone = NOBODY, former: "Addresses | None" = None) -> None:
        self._gateways, self._nodes, self._known = image.members(GATEWAY), image.members(STORAGE), image.nodes
        self._gone = gone
        self._serving = _without(gone, self._gateways.values())
        if not self._serving and former is not None:
            self._serving = _without(gone, former._serving) or former._serving
        self._broker_ids = sorted(broker_ids(image))
        self._dealt: dict[tuple[str, str], dict[int, Listener]] = {}

    def serves(self, image: ClusterImage, gone: Gone) -> bool:
        gateways, nodes = image.members(GATEWAY), image.members(STORAGE)
        return gateways is self._gateways and nodes is self._nodes and image.nodes is self._known and gone == self._gone

    def of(self, node_id: int, client_host: str, listener: str) -> Listener | None:
        """The listener at which this client should reach this broker id; its address there is `port_base + node_id`."""
        return self._of_all(client_host, listener).get(node_id)

    def same_for(self, other: "Addresses", client_host: str, listener: str) -> bool:
        return self._of_all(client_host, listener) == other._of_all(client_host, listener)

    def _of_all(self, client_host: str, listener: str) -> dict[int, Listener]:
        asked = (client_host, listener)
        dealt = self._dealt.get(asked)
        if dealt is None:
            if len(self._dealt) >= CLIENTS_MAX:
                self._dealt.clear()
            dealt = self._dealt[asked] = self._deal_all(client_host, listener)
        return dealt

    def _deal_all(self, client_host: str, listener: str) -> dict[int, Listener]:
        """Gateways on the storage node's host come first (records then never cross a wire between the two), then those in its
        zone, then all. Broker ids that have the same choice are dealt evenly."""
        gateways = tuple((member, found) for member in self._serving for found in member.listeners if found.name == listener)
        choices: dict[tuple[int, ...], tuple[Gateways, list[int]]] = {}
        for node_id in self._broker_ids:
            nearest = _nearest(gateways, self._nodes.get(node_id))
            choices.setdefault(tuple([member.node_id for member, _ in nearest]), (nearest, []))[1].append(node_id)
        dealt: dict[int, Listener] = {}
        for nearest, node_ids in choices.values():
            dealt |= deal(nearest, node_ids, client_host)
        return dealt


def broker_ids(image: ClusterImage) -> set[int]:
    """Every storage node that ever registered: its port stays open while it is down, so that clients find it again."""
    return set(image.nodes) | set(image.members(STORAGE))


def deal(gateways: Gateways, node_ids: list[int], client_host: str) -> dict[int, Listener]:
    """Each gateway gets as many as any other, or one less: whoever loses one gateway then still knows of others.

    The heaviest pair comes first, as in rendezvous hashing: a gateway that comes or goes moves few broker ids of the others. The
    client's port has no say: each of its connections would get another answer.
    """
    if len(gateways) < 2:
        return {node_id: listener for _, listener in gateways for node_id in node_ids}
    share, over = divmod(len(node_ids), len(gateways))
    counts = [0] * len(gateways)
    dealt: dict[int, Listener] = {}
    pairs = [(_weight(gateway.node_id, client_host, n), at, n) for at, (gateway, _) in enumerate(gateways) for n in node_ids]
    for _, at, node_id in sorted(pairs, reverse=True):
        if node_id in dealt or counts[at] > share or (counts[at] == share and not over):
            continue
        over -= counts[at] == share
        counts[at] += 1
        dealt[node_id] = gateways[at][1]
    return dealt


def _without(gone: Gone, gateways: Iterable[Member]) -> list[Member]:
    return [member for member in gateways if (member.node_id, member.incarnation) not in gone]


def _nearest(gateways: Gateways, node: Member | None) -> Gateways:
    if node is None:
        return gateways
    same_host = tuple([pair for pair in gateways if pair[0].host_id and pair[0].host_id == node.host_id])
    same_zone = tuple([pair for pair in gateways if pair[0].rack and pair[0].rack == node.rack])
    return same_host or same_zone or gateways


def _weight(gateway_id: int, client_host: str, node_id: int) -> bytes:
    return hashlib.blake2b(f"{gateway_id}/{client_host}/{node_id}".encode(), digest_size=8).digest()
