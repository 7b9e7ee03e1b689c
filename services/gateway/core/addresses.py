"""The gateway that stands for each broker id, by the host of the client. It follows from one cluster image. No I/O.

The same client gets the same answer from each gateway. Clients on different hosts get different answers.
"""

import hashlib
from collections.abc import Iterable

from libs.cluster.image import ClusterImage
from libs.cluster.records import GATEWAY, STORAGE, Listener, Member

BOOTSTRAP = -1
"""The broker id of the bootstrap port, which belongs to no broker."""
CLIENTS_MAX = 1024
"""The number of client hosts whose addresses are remembered."""

Gateways = tuple[tuple[Member, Listener], ...]
EndedGateways = frozenset[tuple[int, int]]
"""Gateways that have ended and are still members: node id and incarnation."""
NONE_ENDED: EndedGateways = frozenset()


class Addresses:
    """The addresses of one image's brokers. `serves` says whether they are also those of another image.

    While no gateway is a member, the gateways of `former` stand. A metadata store that was stopped for a while lets all leases
    expire at once, though a lost lease is not a death; and the last gateway that stops ends its own lease. Clients must not be
    told of no broker at all, since they may not come back: librdkafka then forgets all brokers, and asks none again (its issue
    5301).

    A node that dies keeps the place that it had in `former`, and so its address: clients are connected there. A gateway that has
    started since then does not know the place, and may assign the broker id to another gateway until the node is back.

    A gateway that shares a process with a storage node (`services/node`) has the port of that broker only.
    """

    def __init__(self, image: ClusterImage, gone: EndedGateways = NONE_ENDED, former: "Addresses | None" = None) -> None:
        self._gateways, self._nodes, self._nodes_ever = image.members(GATEWAY), image.members(STORAGE), image.nodes
        self._gone = gone
        self._homes: dict[int, Member] = dict(former._homes) if former is not None else {}
        self._homes |= {node_id: member for member in self._gateways.values() for node_id in member.broker_ids}
        """The gateway of a node (`services/node`), by its broker id. It stays while nobody else has the port."""
        registered = broker_ids(image)
        places = {**(former._places if former is not None else {}), **self._nodes}
        self._places: dict[int, Member] = {node_id: place for node_id, place in places.items() if node_id in registered}
        self._serving = _without(gone, self._gateways.values())
        if not self._serving and former is not None:
            self._serving = _without(gone, former._serving) or former._serving
        self._broker_ids = sorted(registered)
        self._assigned: dict[tuple[str, str], dict[int, Listener]] = {}

    def serves(self, image: ClusterImage, gone: EndedGateways) -> bool:
        """Whether these addresses are those of that image too."""
        gateways, nodes = image.members(GATEWAY), image.members(STORAGE)
        return gateways is self._gateways and nodes is self._nodes and image.nodes is self._nodes_ever and gone == self._gone

    def of(self, node_id: int, client_host: str, listener: str) -> Listener | None:
        """The listener where this client should connect to this broker id. Its port there is `port_base + node_id`."""
        return self._of_all(client_host, listener).get(node_id)

    def same_for(self, other: "Addresses", client_host: str, listener: str) -> bool:
        """Whether this client gets the same address for each broker from both."""
        return self._of_all(client_host, listener) == other._of_all(client_host, listener)

    def took_from(self, listener: Listener, former: "Addresses", client_host: str) -> bool:
        """Whether a broker that `former` has at this listener is at another one now, for this client."""
        now, before = self._of_all(client_host, listener.name), former._of_all(client_host, listener.name)
        return any(at == listener and now.get(node_id, at) != at for node_id, at in before.items())

    def _of_all(self, client_host: str, listener: str) -> dict[int, Listener]:
        client = (client_host, listener)
        assigned = self._assigned.get(client)
        if assigned is None:
            if len(self._assigned) >= CLIENTS_MAX:
                self._assigned.clear()
            assigned = self._assigned[client] = self._assign_all(client_host, listener)
        return assigned

    def _assign_all(self, client_host: str, listener: str) -> dict[int, Listener]:
        """The listener of each broker id for this client.

        Gateways on the storage node's host come first, since records then cross no wire between the two. Next are gateways in its
        zone, then all. Broker ids with the same candidates are assigned evenly.
        """
        gateways = tuple(
            (member, candidate) for member in self._serving for candidate in member.listeners if candidate.name == listener
        )
        everywhere = tuple(pair for pair in gateways if not pair[0].broker_ids)
        choices: dict[tuple[int, ...], tuple[Gateways, list[int]]] = {}
        for node_id in self._broker_ids:
            having = _having(node_id, gateways) or everywhere or self._last_home(node_id, listener) or gateways
            nearest = _nearest(having, self._places.get(node_id))
            choices.setdefault(tuple([member.node_id for member, _ in nearest]), (nearest, []))[1].append(node_id)
        assigned: dict[int, Listener] = {}
        for nearest, node_ids in choices.values():
            assigned |= assign_brokers(nearest, node_ids, client_host)
        return assigned

    def _last_home(self, node_id: int, listener: str) -> Gateways:
        """The gateway that had this broker's port last. Clients find the broker there again."""
        home = self._homes.get(node_id)
        return tuple((home, at) for at in home.listeners if at.name == listener) if home is not None else ()


def broker_ids(image: ClusterImage) -> set[int]:
    """Each storage node that ever registered. Its port stays open while it is down, so that clients find it again."""
    return set(image.nodes) | set(image.members(STORAGE))


def assign_brokers(gateways: Gateways, node_ids: list[int], client_host: str) -> dict[int, Listener]:
    """The listener of each broker id. The gateways' shares differ by one broker at most, so a client that loses one gateway still
    knows others.

    The heaviest pair is assigned first, as in rendezvous hashing: a gateway that comes or goes moves few brokers of the others.
    The client's port has no part in it, since each of its connections would get another answer.
    """
    if len(gateways) < 2:
        return {node_id: listener for _, listener in gateways for node_id in node_ids}
    share, over = divmod(len(node_ids), len(gateways))
    counts = [0] * len(gateways)
    assigned: dict[int, Listener] = {}
    pairs = [(_weight(gateway.node_id, client_host, n), at, n) for at, (gateway, _) in enumerate(gateways) for n in node_ids]
    for _, at, node_id in sorted(pairs, reverse=True):
        if node_id in assigned or counts[at] > share or (counts[at] == share and not over):
            continue
        over -= counts[at] == share
        counts[at] += 1
        assigned[node_id] = gateways[at][1]
    return assigned


def _without(gone: EndedGateways, gateways: Iterable[Member]) -> list[Member]:
    return [member for member in gateways if (member.node_id, member.incarnation) not in gone]


def _having(node_id: int, gateways: Gateways) -> Gateways:
    """The gateway with the port of this broker, where each has those of a few: the node's own, or else one that took it over."""
    having = [pair for pair in gateways if node_id in pair[0].broker_ids]
    return tuple(sorted(having, key=lambda pair: (pair[0].node_id != node_id, pair[0].node_id))[:1])


def _nearest(gateways: Gateways, node: Member | None) -> Gateways:
    if node is None:
        return gateways
    same_host = tuple([pair for pair in gateways if pair[0].host_id and pair[0].host_id == node.host_id])
    same_zone = tuple([pair for pair in gateways if pair[0].rack and pair[0].rack == node.rack])
    return same_host or same_zone or gateways


def _weight(gateway_id: int, client_host: str, node_id: int) -> bytes:
    return hashlib.blake2b(f"{gateway_id}/{client_host}/{node_id}".encode(), digest_size=8).digest()
