"""The bounds of processes: their descriptors, the bytes of a hostile client that they hold, and the budgets of calls.

In the end no gateway holds a file open that it does not know.
"""

import asyncio
from collections.abc import Sequence

from libs.rpc.server.server_connection import ServerConnection
from tests.simulation.cluster.hostile_client import HOST
from tests.simulation.cluster.processes import DESCRIPTORS_MAX, GatewayProcess, Process
from tests.simulation.cluster.world import World

LOOK_EVERY_S = 0.5
HOSTILE_BYTES_MAX = 8 << 20
"""The budget of a gateway, and a receive chunk for each connection: a chunk that is read into is not counted before."""


class Resources:
    """`look` until cancelled; `at_rest` in the end."""

    def __init__(self, world: World, processes: Sequence[Process]) -> None:
        self._world, self._processes = world, list(processes)
        self.most: dict[str, int] = {}
        """Descriptors, by host."""
        self.most_bytes = 0
        """Bytes of the hostile client that one gateway held."""

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            self.look()

    def look(self) -> None:
        """Looks at what each process has now."""
        connections: dict[str, int] = {}
        held: dict[str, int] = {}
        for stream in self._world.network.streams.values():
            connections[stream.local] = connections.get(stream.local, 0) + stream.accepted
            if stream.remote == HOST:  # it is answered nothing while it stays
                held[stream.local] = held.get(stream.local, 0) + stream.received
            receiver = stream.settled_receiver
            if isinstance(receiver, ServerConnection) and (what := receiver.broken_invariant()):
                self._world.violation(f"16: {stream.local}, the connection of {stream.peer}: {what}")
        for host, count in held.items():
            if count > self.most_bytes:
                self.most_bytes = count
                if count > HOSTILE_BYTES_MAX:
                    self._world.violation(f"16: {host} holds {count} bytes of one client; it may hold {HOSTILE_BYTES_MAX}")
        for process in self._processes:
            count = connections.get(process.host, 0) + process.disk.descriptors
            if count > self.most.get(process.host, 0):
                self.most[process.host] = count
                if count > DESCRIPTORS_MAX:
                    what = f"{process.host} has {count} descriptors, {process.disk.descriptors} of them of files"
                    self._world.violation(f"16: {what}; it may have {DESCRIPTORS_MAX}")

    def leaks(self) -> str:
        """The gateway that holds files which its table does not know."""
        for process in self._processes:
            if isinstance(process, GatewayProcess) and process.what is not None:
                held, known = process.disk.descriptors, process.what.data_path.files.opened_now
                if held != known:
                    return f"{process.host} holds {held} files open, and knows of {known}"
        return ""
