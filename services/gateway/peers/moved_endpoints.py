"""Brokers whose address changed lately, since a gateway came or went.

While the broker id is the same, librdkafka keeps the connection to its group's coordinator, whatever address FindCoordinator
names. It would call at a gateway that is gone until that gateway is back. COORDINATOR_NOT_AVAILABLE makes it forget the broker,
and then it takes the new address. So each client that may know the former address gets that error, once on each of its
connections. Only the connection distinguishes two members of a group on one host, and a client that gets the error twice merely
asks once more.
"""

from collections import deque
from collections.abc import Callable

from services.gateway.core.addresses import Addresses

REMEMBERED_S = 60.0
"""The time for which former addresses count. A client that lost its coordinator asks within seconds."""
FORMER_MAX = 8
NOTIFIED_MAX = 10_000


class MovedEndpoints:
    """The former addresses, and the clients that were notified. `note` the addresses that were valid until now. Times are loop
    time."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._former: deque[tuple[float, Addresses]] = deque(maxlen=FORMER_MAX)
        self._notified: set[tuple[str, str]] = set()

    def note(self, former: Addresses) -> None:
        self._former.append((self._now(), former))
        self._notified.clear()

    def must_notify(self, addresses: Addresses, node_id: int, client_host: str, peer: str, listener: str, group_id: str) -> bool:
        """Whether this client may know another address of the broker, and was not notified for this group yet.

        `peer` is the client's end of the connection: host and port.
        """
        since = self._now() - REMEMBERED_S
        while self._former and self._former[0][0] < since:
            self._former.popleft()
        current = addresses.of(node_id, client_host, listener)
        former_endpoints = [former.of(node_id, client_host, listener) for _, former in self._former]
        client_and_group = (peer, group_id)
        if client_and_group in self._notified or not any(known is not None and known != current for known in former_endpoints):
            return False
        if len(self._notified) >= NOTIFIED_MAX:
            self._notified.clear()
        self._notified.add(client_and_group)
        return True
