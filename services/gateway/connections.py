"""All client connections of this process: what they share, what they may hold together, and who is too slow."""

import asyncio
from collections.abc import Iterable

from libs.rpc.transport import Receiver, Stream
from libs.runtime.memory import give_back_memory
from libs.wire.frames import ChunkPool
from services.gateway.config import GatewayConfig
from services.gateway.connection import Connection
from services.gateway.core.patience import PatienceLimits
from services.gateway.core.session import SessionLimits
from services.gateway.data_path import DataPath
from services.gateway.meters import Meters
from services.gateway.state import GatewayState

SWEEP_S = 1.0


class Connections:
    """Made once. `accept` is what listeners call for each new stream."""

    def __init__(self, config: GatewayConfig, gateway: GatewayState, data_path: DataPath, meters: Meters) -> None:
        self.config = config
        self.gateway = gateway
        self.data_path = data_path
        self.loop = asyncio.get_running_loop()
        self.chunks = ChunkPool()
        self.session_limits = SessionLimits(config.connection_requests_max, config.connection_bytes_max)
        self.patience = PatienceLimits(config.half_frame_s_max, config.unread_answers_s_max, config.idle_s_max)
        self.meters = meters
        self.answered = meters.answered
        self._live: set[Connection] = set()
        self._half_received: dict[Connection, int] = {}  # the memory that the half frame of each takes
        self._half_received_bytes = 0
        self._empty = asyncio.Event()
        self._newcomer = asyncio.Event()
        self._moved = 0
        self._given_back = True
        self._sweep_interval = min(SWEEP_S, config.half_frame_s_max / 4, config.unread_answers_s_max / 4, config.idle_s_max / 4)
        self._timer = self.loop.call_later(self._sweep_interval, self._sweep)

    def __len__(self) -> int:
        return len(self._live)

    def accept(self, stream: Stream, broker_id: int) -> Receiver:
        connection = Connection(self, stream, broker_id, self.config.listener_name)
        self._live.add(connection)
        self._newcomer.set()
        self.meters.opened()
        return connection

    def ended(self, connection: Connection, reason: str) -> None:
        self._live.discard(connection)
        self._half_received_bytes -= self._half_received.pop(connection, 0)
        self.meters.ended(reason)
        if not self._live:
            self._empty.set()

    def half_received(self, connection: Connection, held: int) -> None:
        """Account for a connection's incomplete frame; over budget, the oldest half frame's connection ends.

        What counts is the memory it takes, which may be far more than what has arrived: a length is four bytes. The oldest
        goes, because honest clients finish their frames: whoever holds bytes longest is the likeliest to be hostile.
        """
        self._half_received_bytes += held - self._half_received.get(connection, 0)
        self._half_received[connection] = held
        while self._half_received_bytes > self.config.half_received_bytes_max:
            oldest = min(self._half_received, key=lambda one: one.half_frame_since)
            oldest.close("half-received-budget", f"{self._half_received[oldest]} bytes for the oldest half frame")

    def received_whole(self, connection: Connection) -> None:
        """It has no half frame any more."""
        self._half_received_bytes -= self._half_received.pop(connection, 0)

    def addressed(self) -> list[int]:
        """The broker ids, BOOTSTRAP too, that somebody is connected to."""
        return sorted({connection.broker_id for connection in self._live})

    def send_away(self, broker_id: int, unused_s: float, busy_s_max: float) -> int:
        """Ends those to that broker id on which nothing was asked for so long, and returns how many they were.

        A busy one ends between two requests, or else after those that were read by then.
        """
        before = self.loop.time() - unused_s
        sent_away = [one for one in self._live if one.broker_id == broker_id and (not unused_s or one.is_unused(before))]
        for connection in sent_away:
            connection.leave()
        self.loop.call_later(busy_s_max, self._drain, sent_away)
        return len(sent_away)

    async def deserted(self, quiet_s: float) -> None:
        """Returns when there has been no connection for so long."""
        while True:
            while self._live:
                self._empty.clear()
                await self._empty.wait()
            self._newcomer.clear()
            try:
                async with asyncio.timeout(quiet_s):
                    await self._newcomer.wait()
            except TimeoutError:
                return

    async def drain(self) -> None:
        """Ends every connection once its requests are answered, and those that take too long."""
        self._drain(list(self._live))
        if self._live:
            self._empty.clear()
            try:
                await asyncio.wait_for(self._empty.wait(), self.config.drain_s_max)
            except TimeoutError:
                pass
        self.close()

    def _drain(self, connections: Iterable[Connection]) -> None:
        for connection in connections:
            connection.drain()

    def close(self) -> None:
        self._timer.cancel()
        for connection in list(self._live):
            connection.close("drain")

    def _sweep(self) -> None:
        self._timer = self.loop.call_later(self._sweep_interval, self._sweep)
        now = self.loop.time()
        for connection in list(self._live):
            connection.check(now)
        self._give_back_memory()

    def _give_back_memory(self) -> None:
        """Once when a sweep finds that nothing moved since the last one: what a busy minute took is of no use to a quiet hour."""
        moved = self.meters.bytes_in + self.meters.bytes_out
        if moved != self._moved:
            self._moved, self._given_back = moved, False
        elif not self._given_back:
            self._given_back = True
            self.chunks.clear()
            give_back_memory()
