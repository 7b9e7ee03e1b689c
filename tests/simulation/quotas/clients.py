"""Clients of one entity that want more than its limit: each sends its next request as soon as it is let.

They move between gateways, unevenly. None obeys a throttle time while it stays connected, as librdkafka does not: muting must do.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.primitives import Reader
from libs.wire.record_batches.batch_layout import CRC_START
from libs.wire.record_batches.records import Record, build_batch
from tests.gateway.kafka_client import fetch_body, produce_body, read_produced
from tests.simulation.cluster.kafka_client import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    Disconnected,
    Link,
    SentRequest,
)
from tests.simulation.cluster.network import SimulatedTransport
from tests.simulation.cluster.processes import KAFKA_PORT
from tests.simulation.cluster.world import World
from tests.simulation.quotas.processes import TOPIC, WORK_US
from tests.simulation.quotas.promise import Admitted

ANSWER_S_MAX: Final = 60.0
RETRY_S: Final = 0.1
METADATA_VERSION: Final = 3
NO_TOPICS: Final = bytes(4)
FRAME_BYTES: Final = 200
"""More than what a request has around its batch."""


@dataclass
class Crowd:
    """The clients of one entity, and what they have sent. `index`: of their partition."""

    client_id: str
    index: int
    sizes: tuple[int, int]
    acknowledged: set[bytes] = field(default_factory=set)
    """Checksums of the batches that were answered."""
    answers: int = 0
    throttled: int = 0
    stopping: bool = False
    worked: Admitted = field(default_factory=Admitted)
    """The work of requests that do nothing else, in microseconds."""


class Client:
    """`window`: requests that it has in flight. `reconnects`: for each request anew, and then it waits as long as it was told.
    `works`: its requests are Metadata of no topic. `hangs_up_every_s`: it does not wait for an answer, and sends so often only.
    """

    def __init__(
        self,
        world: World,
        name: str,
        crowd: Crowd,
        places: list[str],
        *,
        window: int = 1,
        fetches: bool = False,
        works: bool = False,
        reconnects: bool = False,
        hangs_up_every_s: float = 0.0,
    ) -> None:
        self.place = 0
        """The gateway that it uses, by its number."""
        self.name, self.crowd, self._places = name, crowd, places
        self._world = world
        self._random = world.stream(name)
        self._transport = SimulatedTransport(world.network, name, None)
        self._window, self._fetches, self._works, self._reconnects = window, fetches, works, reconnects
        self._hangs_up_every_s = hangs_up_every_s
        self._link: Link | None = None
        self._linked_to = -1
        self._told_s = 0.0

    @property
    def in_flight(self) -> int:
        """The most bytes, or microseconds of work, that it has sent and was not answered for."""
        return self._window * (WORK_US if self._works else self.crowd.sizes[1] + FRAME_BYTES)

    async def run(self) -> None:
        await asyncio.sleep(self._random.uniform(0.0, 0.1))
        while not self.crowd.stopping:
            try:
                await self._send_on(await self._connected())
            except Disconnected:
                self._let_go()
                await asyncio.sleep(RETRY_S)

    async def ask_once(self) -> None:
        """Raises Disconnected."""
        link = await self._connected()
        await self._end(self._begin(link))

    async def _connected(self) -> Link:
        if self._link is None or self._link.lost or self._linked_to != self.place:
            self._let_go()
            self._linked_to = self.place
            self._link = await Link.connect(self._transport, (self._places[self.place], KAFKA_PORT + 1))
            self._link.client_id = self.crowd.client_id
        return self._link

    def _let_go(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    async def _send_on(self, link: Link) -> None:
        """Returns when it is to move, or to connect anew. Raises Disconnected."""
        sent: deque[tuple[SentRequest, bytes]] = deque()
        try:
            while not self.crowd.stopping and self.place == self._linked_to:
                while len(sent) < self._window:
                    sent.append(self._begin(link))
                if self._hangs_up_every_s:
                    await asyncio.sleep(self._random.uniform(0.0005, 0.004))
                    self._let_go()
                    await asyncio.sleep(self._hangs_up_every_s)
                    return
                await self._end(sent.popleft())
                if self._reconnects:
                    self._let_go()
                    await asyncio.sleep(self._told_s)
                    return
            while sent:
                await self._end(sent.popleft())
        finally:
            for asked, _ in sent:
                asked.forget()

    def _begin(self, link: Link) -> tuple[SentRequest, bytes]:
        crowd = self.crowd
        if self._works:
            return link.begin(ApiKey.METADATA, METADATA_VERSION, NO_TOPICS), b""
        size = self._random.randint(*crowd.sizes)
        if self._fetches:
            body = fetch_body(
                FETCH_VERSION, [(TOPIC, [(crowd.index, 0)])], max_wait_ms=500, max_bytes=size, partition_max_bytes=size
            )
            return link.begin(ApiKey.FETCH, FETCH_VERSION, body), b""
        batch = bytes(build_batch([Record(None, self._random.randbytes(8) + bytes(size))]))
        body = produce_body(PRODUCE_VERSION, [(TOPIC, [(crowd.index, batch)])])
        return link.begin(ApiKey.PRODUCE, PRODUCE_VERSION, body), batch[CRC_START - 4 : CRC_START]

    async def _end(self, sent: tuple[SentRequest, bytes]) -> None:
        asked, checksum = sent
        reader = await asked.answer(ANSWER_S_MAX)
        if self._fetches or self._works:
            throttle_time_ms = Reader(reader.view[reader.position :]).int32()
            if self._works:
                crowd = self.crowd
                crowd.worked.note(self._world.seconds, WORK_US, self._linked_to + 1)
        else:
            throttle_time_ms = Reader(reader.view[len(reader.view) - 5 :]).int32()
            if not read_produced(reader, PRODUCE_VERSION)[0][0].error:
                self.crowd.acknowledged.add(checksum)
        self.crowd.answers += 1
        self.crowd.throttled += throttle_time_ms > 0
        self._told_s = throttle_time_ms / 1000
