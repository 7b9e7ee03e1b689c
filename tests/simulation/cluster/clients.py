"""Clients as applications run them: producers that retry as real ones do, and consumers that follow the leaders."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from libs.wire.errors import ErrorCode
from libs.wire.record_batches.records import Record, build_batch
from tests.gateway.kafka_client import Fetched, Produced
from tests.history.model import Poll, Send
from tests.history.outcomes import outcome_of_send
from tests.simulation.cluster import kafka_client
from tests.simulation.cluster.environment import EPOCH_MS
from tests.simulation.cluster.kafka_client import UNCOMMITTED, Disconnected, Link, Metadata, Partition
from tests.simulation.cluster.network import SimulatedTransport
from tests.simulation.cluster.recorder import Recorder
from tests.simulation.cluster.world import World

REQUEST_S = 4.0
DELIVERY_S = 25.0
RETRY_S = 0.1
STAMP_MS = EPOCH_MS
"""Before the timestamps of all records, as in a backfill: partitions forget producers after a much shorter time."""
REFRESH_S = 5.0
REST_S = 1.0

RETRIABLE = frozenset(
    int(code)
    for code in (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
    )
)
NOT_STORED = frozenset(int(code) for code in (ErrorCode.NOT_ENOUGH_REPLICAS,))


def key_of(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"


async def rest(seconds: float, stopping: Callable[[], bool]) -> None:
    """Sleeps, and not much longer once that says so."""
    while seconds > 0 and not stopping():
        await asyncio.sleep(min(seconds, REST_S))
        seconds -= REST_S


class Client:
    """One application host: connections, and what it believes about leaders."""

    def __init__(self, world: World, name: str, bootstrap: Sequence[tuple[str, int]], topics: list[str], host: str = "") -> None:
        self.world, self.name, self.topics = world, name, topics
        self.random: Random = world.stream(name)
        self.metadata = Metadata()
        self._bootstrap = list(bootstrap)
        self._transport = SimulatedTransport(world.network, host or name, None)
        self._links: dict[tuple[str, int], Link] = {}
        self._connecting: dict[tuple[str, int], asyncio.Task[Link]] = {}
        self._refreshed = -REFRESH_S
        self._refreshing: asyncio.Task[None] | None = None

    async def link(self, address: tuple[str, int]) -> Link:
        """Raises Disconnected."""
        link = self._links.get(address)
        if link is not None and not link.lost:
            return link
        connecting = self._connecting.get(address)
        if connecting is None:
            connecting = self._connecting[address] = asyncio.get_running_loop().create_task(
                Link.connect(self._transport, address)
            )
            connecting.add_done_callback(partial(self._connected, address))
        link = self._links[address] = await asyncio.shield(connecting)
        return link

    def _connected(self, address: tuple[str, int], connecting: "asyncio.Task[Link]") -> None:
        self._connecting.pop(address, None)
        if not connecting.cancelled():
            connecting.exception()  # retrieved: a client that died does not wait for it any more

    async def any_gateway(self) -> Link:
        """Raises Disconnected."""
        return await self.link(self.random.choice(self._bootstrap))

    async def broker(self, node: int) -> Link:
        """Raises Disconnected."""
        address = self.metadata.brokers.get(node)
        if address is None:
            raise Disconnected(f"broker {node} is in no metadata", sent=False)
        return await self.link(address)

    async def own_link(self, address: tuple[str, int]) -> Link:
        """One that nobody shares. Raises Disconnected."""
        return await Link.connect(self._transport, address)

    async def refresh(self) -> None:
        """The leaders of now; nothing changes if nobody answers. Who comes while one is under way shares it."""
        if self._refreshing is None:
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh())
        await asyncio.shield(self._refreshing)

    async def _refresh(self) -> None:
        try:
            self.metadata = await kafka_client.metadata(await self.any_gateway(), self.topics, REQUEST_S)
            self._refreshed = asyncio.get_running_loop().time()
        except Disconnected:
            await asyncio.sleep(RETRY_S)
        finally:
            self._refreshing = None

    async def leader(self, partition: Partition) -> Link | None:
        """None: try again. Raises Disconnected."""
        if asyncio.get_running_loop().time() - self._refreshed > REFRESH_S:
            await self.refresh()
        leader = self.metadata.leaders.get(partition)
        if leader is None:
            await self.refresh()
            leader = self.metadata.leaders.get(partition)
        return None if leader is None else await self.broker(leader[0])


class Producer:
    """One Kafka producer after the other: a new one takes over whenever the last does not know what became of a batch."""

    def __init__(
        self, client: Client, recorder: Recorder, partitions: list[Partition], values: "Values", *, idempotent: bool, acks: int
    ) -> None:
        self._client, self._recorder, self.partitions, self._values = client, recorder, partitions, values
        self._idempotent, self._acks = idempotent, acks
        self._random = client.random
        self._process = 0
        self._producer = (-1, -1)
        self._sequences: dict[Partition, int] = {}
        self._doubt = False
        self.stopping = False

    async def run(self, pause_s: float) -> None:
        """Works until it is stopped, and ends what it has begun."""
        await self._begin()
        while not self.stopping:
            await self.send(self._random.choice(self.partitions))
            await asyncio.sleep(self._random.expovariate(1 / pause_s))

    async def send(self, partition: Partition) -> bool:
        """One batch, to the end. Whether it was acknowledged."""
        if not self._process:
            await self._begin()
            if not self._process:
                return False
        values = self._next_values()
        key = key_of(partition)
        begun = self._recorder.begin(self._process, "send", tuple(Send(key, value) for value in values))
        error, offset = await self._deliver(partition, values)
        if error == ErrorCode.NONE:
            if self._acks == -1:
                self._recorder.stored(begun, key, values, offset)
            else:
                self._recorder.end(begun, "info")  # a leader's word alone promises nothing
            return True
        if self._idempotent and self._acks == -1 and error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            what = f"9: producer {self._producer} at {key}: out of order after {values}: an answered batch is gone"
            self._client.world.violation(what, loss_of=key)
        self._recorder.end(begun, outcome_of_send(error.name) if not self._doubt else "info")
        await self._begin()
        return False

    def _next_values(self) -> list[int]:
        """The values of the next batch."""
        return [self._values.next() for _ in range(self._random.choice((1, 1, 1, 2, 5)))]

    def _batch(self, values: list[int], sequence: int) -> bytes:
        producer_id, epoch = self._producer
        return bytes(build_batch(self._records(values), producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence))

    def _records(self, values: list[int]) -> list[Record]:
        return [Record(None, b"%d" % value, STAMP_MS + value) for value in values]

    async def _begin(self) -> None:
        """Begins a new producer id, with the next batch if it is stopped meanwhile: the former id must not restart sequences."""
        self._process, self._producer = 0, (-1, -1)
        self._sequences.clear()
        while self._idempotent and not self.stopping:
            try:
                error, producer_id, epoch = await kafka_client.new_producer_id(await self._client.any_gateway(), REQUEST_S)
            except Disconnected:
                error = int(ErrorCode.NETWORK_EXCEPTION)
            if not error:
                self._producer = producer_id, epoch
                break
            await asyncio.sleep(RETRY_S)
        if not self._idempotent or self._producer != (-1, -1):
            self._process = self._recorder.process()

    async def _produce(self, link: Link, partition: Partition, batch: bytes) -> Produced:
        """Raises Disconnected."""
        return await kafka_client.produce(link, partition, batch, self._acks, REQUEST_S)

    async def _deliver(self, partition: Partition, values: list[int]) -> tuple[ErrorCode, int]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DELIVERY_S
        sequence = self._sequences.get(partition, 0) if self._idempotent else -1
        batch = self._batch(values, sequence)
        self._doubt = False
        error = ErrorCode.REQUEST_TIMED_OUT
        while loop.time() < deadline:
            try:
                link = await self._client.leader(partition)
                if link is None:
                    error = ErrorCode.LEADER_NOT_AVAILABLE
                    await asyncio.sleep(RETRY_S)
                    continue
                produced = await self._produce(link, partition, batch)
            except Disconnected as failure:
                error = ErrorCode.NETWORK_EXCEPTION
                self._doubt = self._doubt or failure.sent
                if failure.sent and not self._idempotent:
                    return error, -1
                await self._client.refresh()
                continue
            error = ErrorCode(produced.error)
            if error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                if self._idempotent:
                    self._sequences[partition] = sequence + len(values)
                return ErrorCode.NONE, produced.base_offset if error == ErrorCode.NONE else -1
            if produced.error not in RETRIABLE:
                return error, -1
            if produced.error not in NOT_STORED:
                self._doubt = True
                if not self._idempotent:
                    await self._client.refresh()
                    return error, -1
            await asyncio.sleep(RETRY_S)
            await self._client.refresh()
        return error, -1


class Values:
    """Unique numbers, of a whole run."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        self._last += 1
        return self._last


class Consumer:
    """One that is assigned all partitions, from their beginning."""

    isolation = UNCOMMITTED

    def __init__(self, client: Client, recorder: Recorder, partitions: list[Partition]) -> None:
        self._client, self._recorder = client, recorder
        self._random = client.random
        self._process = 0
        self.positions = dict.fromkeys(partitions, 0)
        self.stopping = False

    def assign(self) -> None:
        self._process = self._recorder.process()
        keys = tuple(key_of(partition) for partition in self.positions)
        self._recorder.end(self._recorder.begin(self._process, "assign", keys=keys, sought=True), "ok")

    async def run(self, pause_s: float) -> None:
        """Works until it is stopped."""
        self.assign()
        while not self.stopping:
            await self.poll(list(self.positions))
            await asyncio.sleep(self._random.expovariate(1 / pause_s))

    async def poll(self, wanted: list[Partition]) -> None:
        """Asks one broker for what it leads of them."""
        client = self._client
        leaders = client.metadata.leaders
        brokers = list(dict.fromkeys(leaders[partition][0] for partition in wanted if partition in leaders))
        if not brokers:
            await client.refresh()
            await asyncio.sleep(RETRY_S)
            return
        node = self._random.choice(brokers)
        asked = {one: self.positions[one] for one in wanted if one in leaders and leaders[one][0] == node}
        begun = self._recorder.begin(self._process, "poll")
        try:
            answers = await kafka_client.fetch(
                await client.broker(node),
                asked,
                REQUEST_S,
                max_wait_ms=300,
                max_bytes=self._random.choice((600, 20_000, 1 << 20)),
                isolation=self.isolation,
            )
        except Disconnected:
            self._recorder.end(begun, "ok")
            await client.refresh()
            return
        found: dict[str, tuple[tuple[int, int], ...]] = {}
        stale = False
        for answer in answers:
            partition = (str(answer.topic), answer.index)
            if answer.error:
                stale = True
                if answer.error not in RETRIABLE:
                    said = ErrorCode(answer.error).name
                    what = f"4: {key_of(partition)} at {self.positions[partition]}: a consumer is told {said}"
                    client.world.violation(what, loss_of=key_of(partition))
                continue
            records, self.positions[partition] = self.read(answer, self.positions[partition])
            if records:
                if records[-1][0] >= answer.high_watermark:
                    last, high = records[-1][0], answer.high_watermark
                    client.world.violation(f"3: {key_of(partition)}: offset {last} was read, and the high watermark is {high}")
                found[key_of(partition)] = tuple(records)
        self._recorder.end(begun, "ok", (Poll(found),) if found else ())
        if stale:
            await client.refresh()
            await asyncio.sleep(RETRY_S)

    def read(self, answer: Fetched, position: int) -> tuple[list[tuple[int, int]], int]:
        """The records of an answer as (offset, value), and the next position."""
        records = kafka_client.records_of(answer, position)
        return records, records[-1][0] + 1 if records else position
