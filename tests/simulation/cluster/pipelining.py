"""An idempotent producer that has several batches under way, as librdkafka does, and what it must never be told.

Whatever ends a batch with an error that it may try again, and another leader in the metadata, too, makes it wait until all that
is under way is answered. Then it sends all again that is not acknowledged, in the same order, with the same sequences.
"""

import asyncio
from collections import deque
from dataclasses import dataclass

from libs.wire.errors import ErrorCode
from tests.history.model import Send
from tests.simulation.cluster import kafka_client
from tests.simulation.cluster.clients import DELIVERY_S, REQUEST_S, RETRIABLE, RETRY_S, Client, Producer, Values, key_of
from tests.simulation.cluster.kafka_client import Disconnected, Link, Partition, SentRequest
from tests.simulation.cluster.recorder import Recorder

UNDER_WAY_MOST = 5
UNACKNOWLEDGED_MOST = 12
BURSTS = (1, 2, 4, 8)
GAPS_S = (0.0, 0.002, 0.02, 0.2, 0.6)
"""At most so long between two of a burst: all may be under way before the first is stored, or much may happen meanwhile."""
PAUSES = 16
"""Between the bursts of a partition, of a producer's that sends one batch at a time: then both send about as many."""


@dataclass(slots=True)
class Batch:
    """`call`: in the history."""

    call: int
    values: list[int]
    data: bytes
    deadline: float


@dataclass(slots=True)
class UnderWay:
    batch: Batch
    asked: SentRequest
    until: float


class Pipeline:
    """The batches of one partition and one producer id.

    Unless it drains, the first of what is unacknowledged are under way, in the same order. `given_up`: a batch met its end
    otherwise, so that none behind it may be sent.
    """

    def __init__(
        self, client: Client, recorder: Recorder, partition: Partition, producer: tuple[int, int], heard: asyncio.Event
    ) -> None:
        self._client, self._recorder, self._partition, self._producer = client, recorder, partition, producer
        self._heard = heard
        self.unacknowledged: deque[Batch] = deque()
        self.given_up = False
        self._under_way: deque[UnderWay] = deque()
        self._drains = self._closed = False
        self._leader: tuple[int, Link] | None = None
        self._may_send, self._may_hear = asyncio.Event(), asyncio.Event()

    def add(self, batch: Batch) -> None:
        self.unacknowledged.append(batch)
        self._may_send.set()

    async def run(self) -> None:
        """Works until it is closed and no batch is in flight."""
        await asyncio.gather(self._send(), self._hear())

    def close(self) -> None:
        self._closed = True
        self._may_send.set()
        self._may_hear.set()

    async def _send(self) -> None:
        while not self._closed:
            if self._drains and not self._under_way:
                await asyncio.sleep(RETRY_S)
                await self._client.refresh()
                self._drains = False
            elif self.given_up or self._drains or len(self._under_way) >= min(UNDER_WAY_MOST, len(self.unacknowledged)):
                self._may_send.clear()
                await self._may_send.wait()
            elif self.unacknowledged[0].deadline < asyncio.get_running_loop().time():
                self._drains = True
                if not self._under_way:
                    self.given_up = True
                    self._heard.set()
            else:
                await self._send_next()

    async def _send_next(self) -> None:
        try:
            link = await self._client.leader(self._partition)
            leader = self._client.metadata.leaders.get(self._partition)
            if link is None or leader is None:
                await asyncio.sleep(RETRY_S)
                return
            if self._drains or self.given_up or self._closed:
                return  # meanwhile
            if self._under_way and self._leader is not None and self._leader != (leader[0], link):
                if self._leader[0] == leader[0]:
                    self._leader[1].close()  # the same broker is elsewhere now
                self._drains = True
                return
            self._leader = leader[0], link
            batch = self.unacknowledged[len(self._under_way)]
            asked = kafka_client.begin_produce(link, self._partition, batch.data, -1, REQUEST_S)
        except Disconnected:
            await asyncio.sleep(RETRY_S)
            await self._client.refresh()
            return
        self._under_way.append(UnderWay(batch, asked, asyncio.get_running_loop().time() + REQUEST_S))
        self._may_hear.set()

    async def _hear(self) -> None:
        """Answers in their order, which is that of the batches."""
        while self._under_way or not self._closed:
            if not self._under_way:
                self._may_hear.clear()
                await self._may_hear.wait()
                continue
            first = self._under_way[0]
            left_s = max(first.until - asyncio.get_running_loop().time(), 0.0)
            try:
                produced = await kafka_client.end_produce(first.asked, left_s)
                error, offset = ErrorCode(produced.error), produced.base_offset
            except Disconnected:
                error, offset = ErrorCode.NETWORK_EXCEPTION, -1
            self._under_way.popleft()
            self._answered(first.batch, error, offset)
            self._may_send.set()
            self._heard.set()

    def _answered(self, batch: Batch, error: ErrorCode, offset: int) -> None:
        if error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._acknowledge(batch, offset if error == ErrorCode.NONE else -1)
        elif error in RETRIABLE:
            self._drains = True
        else:
            if error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not self.given_up:
                self._out_of_order(batch)
            self.given_up = True

    def _acknowledge(self, batch: Batch, offset: int) -> None:
        """And those before it, of which nobody knew whether they were stored: it would not have been, without them."""
        while (one := self.unacknowledged.popleft()) is not batch:
            self._recorder.stored(one.call, key_of(self._partition), one.values, -1)
        self._recorder.stored(batch.call, key_of(self._partition), batch.values, offset)

    def _out_of_order(self, batch: Batch) -> None:
        key = key_of(self._partition)
        oldest = batch is self.unacknowledged[0]
        why = "an answered batch is gone" if oldest else "it would begin an epoch, and store again what may have been stored"
        what = f"9: pipelining producer {self._producer} at {key}: out of order at {batch.values}: {why}"
        self._client.world.violation(what, loss_of=key)


class PipeliningProducer(Producer):
    """Idempotent, waits for the ISR, and has connections of its own. What it gives up it leaves to its next producer id."""

    def __init__(self, client: Client, recorder: Recorder, partitions: list[Partition], values: Values) -> None:
        super().__init__(client, recorder, partitions, values, idempotent=True, acks=-1)

    async def run(self, pause_s: float) -> None:
        while not self.stopping:
            await self._begin()
            if self._process:
                await self._live(pause_s * PAUSES)

    async def _live(self, pause_s: float) -> None:
        """One life: it sends with one producer id."""
        heard = asyncio.Event()
        pipelines = {one: Pipeline(self._client, self._recorder, one, self._producer, heard) for one in self.partitions}
        running = [asyncio.get_running_loop().create_task(pipeline.run()) for pipeline in pipelines.values()]
        feeding = [asyncio.get_running_loop().create_task(self._feed(*one, pause_s)) for one in pipelines.items()]
        await asyncio.wait(feeding, return_when=asyncio.FIRST_COMPLETED)
        for task in feeding:
            task.cancel()
        while any(one.unacknowledged for one in pipelines.values()) and not any(one.given_up for one in pipelines.values()):
            heard.clear()
            await heard.wait()
        for pipeline in pipelines.values():
            pipeline.close()
        await asyncio.gather(*running)
        for pipeline in pipelines.values():
            for batch in pipeline.unacknowledged:
                self._recorder.end(batch.call, "info")

    async def _feed(self, partition: Partition, pipeline: Pipeline, pause_s: float) -> None:
        """Feeds batches until the producer is stopped, or until there is no sense in it any more."""
        while not self.stopping and not pipeline.given_up:
            gap_s = self._random.choice(GAPS_S)
            for _ in range(self._random.choice(BURSTS)):
                if len(pipeline.unacknowledged) < UNACKNOWLEDGED_MOST:
                    pipeline.add(self._made(partition))
                await asyncio.sleep(gap_s * self._random.random())
            await asyncio.sleep(pause_s * 2 * self._random.random())

    def _made(self, partition: Partition) -> Batch:
        values = self._next_values()
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = sequence + len(values)
        call = self._recorder.begin(self._process, "send", tuple(Send(key_of(partition), value) for value in values))
        return Batch(call, values, self._batch(values, sequence), asyncio.get_running_loop().time() + DELIVERY_S)
