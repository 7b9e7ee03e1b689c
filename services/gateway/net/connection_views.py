"""Client connections and clients on the admin port: `/debug/connections`, `/debug/clients`, and one of each by its name."""

from collections.abc import Iterable
from typing import Final

from libs.runtime.admin import NotShown
from services.gateway.net.connection import Connection
from services.gateway.net.connections import Connections

SHOWN_MAX: Final = 1000
NO_CLIENT_ID: Final = "(no client id)"


class ConnectionViews:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def connections(self) -> object:
        """Those that hold most come first."""
        largest = sorted(self._connections, key=lambda connection: connection.held_bytes, reverse=True)
        return {"open": len(largest), "connections": [self._shown(each) for each in largest[:SHOWN_MAX]]}

    def clients(self) -> object:
        """By client id. Those with most connections come first."""
        by_id = self._by_client_id()
        ordered = sorted(by_id.items(), key=lambda item: (-len(item[1]), item[0]))
        return {"client_ids": len(by_id), "clients": {name: _summary(own) for name, own in ordered[:SHOWN_MAX]}}

    async def connection(self, peer: str) -> object:
        """By the client's host and port, with or without `tcp:`. There may be one for each port of this gateway."""
        own = [each for each in self._connections if peer in (each.peer, each.peer.partition(":")[2])]
        return [self._shown(each) for each in own] or NotShown(404, {"error": f"no client is connected from {peer}"})

    async def client(self, client_id: str) -> object:
        own = self._by_client_id().get(client_id)
        if own is None:
            return NotShown(404, {"error": f"no client with the id {client_id} is connected"})
        return {**_summary(own), "connections": [self._shown(each) for each in own[:SHOWN_MAX]]}

    def _by_client_id(self) -> dict[str, list[Connection]]:
        by_id: dict[str, list[Connection]] = {}
        for each in self._connections:
            by_id.setdefault(each.client_id or NO_CLIENT_ID, []).append(each)
        return by_id

    def _shown(self, connection: Connection) -> dict[str, object]:
        now = self._connections.loop.time()
        return {
            "peer": connection.peer,
            "client_id": connection.client_id,
            "principal": connection.principal,
            "software": f"{connection.software_name} {connection.software_version}".strip(),
            "broker_id": connection.broker_id,
            "open_s": round(now - connection.opened_at, 3),
            "quiet_s": round(now - connection.last_active, 3),
            **connection.debug(),
        }


def _summary(connections: Iterable[Connection]) -> dict[str, object]:
    own = list(connections)
    return {
        "connections": len(own),
        "hosts": sorted({each.client_host.partition(":")[2] or each.client_host for each in own}),
        "software": sorted({f"{each.software_name} {each.software_version}".strip() for each in own} - {""}),
        "held_bytes": sum(each.held_bytes for each in own),
    }
