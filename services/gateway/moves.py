"""Brokers whose address changed lately, since a gateway came or went.

librdkafka keeps the connection to its group's coordinator while the broker id is the same, wherever FindCoordinator says that
this broker is now: it would call at a gateway that is gone until that is back. COORDINATOR_NOT_AVAILABLE makes it forget; then it
takes the new address. So whoever may know the former one is told so, once by each of its connections: nothing else tells two
members of a group on one host from each other, and one that is told twice asks once more.
"""

from collections import deque
from collections.abc import Callable

from services.gateway.core.addresses import Addresses

LATELY_S = 60.0
"""Who lost its coordinator asks within seconds."""
FORMER_MAX = 8
TOLD_MAX = 10_000


class Moves:
    """`note` what addresses were until now. Times are loop time."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._former: deque[tuple[float, Addresses]] = deque(maxlen=FORMER_MAX)
        self._told: set[tuple[str, str]] = set()

    def note(self, former: Addresses) -> None:
        self._former.append((self._now(), former))
        self._told.clear()

    def to_tell(self, addresses: Addresses, node_id: int, client_host: str, peer: str, listener: str, group_id: str) -> bool:
        """Whether this client may know another address of that broker, and has not been told for this group. `peer`: its end of
        the connection, host and port."""
        since = self._now() - LATELY_S
        while self._former and self._former[0][0] < since:
            self._former.popleft()
        here = addresses.of(node_id, client_host, listener)
        there = [former.of(node_id, client_host, listener) for _, former in self._former]
        asked = (peer, group_id)
        if asked in self._told or not any(known is not None and known != here for known in there):
            return False
        if len(self._told) >= TOLD_MAX:
            self._told.clear()
        self._told.add(asked)
        return True
