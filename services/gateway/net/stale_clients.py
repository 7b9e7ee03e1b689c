"""Clients that know former addresses of the brokers, because a gateway came since they asked for Metadata.

All brokers that such a client knows may be ports of this gateway, since the other one was away. Most clients ask for Metadata
every five minutes. If this gateway dies before that, they find no server until it is back, though the other one serves. Only
producers of librdkafka learn of it by their answers (`data_path/endpoint_hints.py`).

A client asks for Metadata when a connection ends. So connections over which nobody has asked since then are closed once, each
between two requests, and those without requests first. It is not a drain: the ports stay open, and who comes back is served.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from libs.cluster.records import GATEWAY, Listener
from services.gateway.net.connection import Connection
from services.gateway.net.connections import Connections

SETTLED_S: Final = 5.0
"""Addresses must be unchanged for so long. While a store hangs, leases expire, and members disappear and return one by one."""
UNUSED_S: Final = 0.1
PAUSE_S: Final = 0.2
"""Between the connections to two broker ids, so that a client has one left over which it can ask."""
ASKED_S: Final = 1.0
"""The time for a client that lost an unused connection to ask over another one, which then may stay."""


class StaleClients:
    def __init__(self, connections: Connections, listeners: Iterable[Listener]) -> None:
        """`listeners` are this gateway's, as clients know them."""
        self._connections = connections
        self._listeners = {listener.name: listener for listener in listeners}
        self._timer: asyncio.TimerHandle | None = None

    def addresses_changed(self) -> None:
        """A later change begins the wait anew."""
        self._after(SETTLED_S, self._begin)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _begin(self) -> None:
        """A gateway that is no member itself has lost its lease, or leaves."""
        data_path = self._connections.data_path
        if data_path.config.node_id in data_path.routes.image.members(GATEWAY) and not data_path.leaving:
            self._end_unused(self._connections.connected_broker_ids())

    def _end_unused(self, broker_ids: Sequence[int]) -> None:
        self._end(broker_ids, UNUSED_S, self._end_unused, lambda: self._after(ASKED_S, self._begin_busy))

    def _begin_busy(self) -> None:
        self._end_busy(self._connections.connected_broker_ids())

    def _end_busy(self, broker_ids: Sequence[int]) -> None:
        self._end(broker_ids, 0.0, self._end_busy, lambda: None)

    def _end(
        self, broker_ids: Sequence[int], unused_s: float, proceed: Callable[[Sequence[int]], None], done: Callable[[], None]
    ) -> None:
        """Ends stale connections to the first broker id that has some, and proceeds with the others later."""
        for position, broker_id in enumerate(broker_ids, 1):
            if self._connections.leave(broker_id, unused_s, self._is_stale):
                self._after(PAUSE_S, partial(proceed, broker_ids[position:]))
                return
        done()

    def _is_stale(self, connection: Connection) -> bool:
        addresses = self._connections.data_path.routes.addresses
        return addresses.took_from(self._listeners[connection.listener], connection.known_addresses, connection.client_host)

    def _after(self, wait_s: float, act: Callable[[], None]) -> None:
        self.close()
        self._timer = self._connections.loop.call_later(wait_s, act)
