"""Transactional producers of each generation, with their gateway: they write, commit or abort, retry, and are fenced."""

import asyncio
from typing import Any, NamedTuple

from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, TRANSACTION_COORDINATOR
from libs.cluster.shard_owners import Owner
from libs.rpc.contracts.coordinators import ASK_TRANSACTIONS
from libs.rpc.contracts.storage import APPEND
from libs.rpc.messages.errors import RpcFailure
from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages import add_partitions_to_txn, end_txn, init_producer_id
from libs.wire.primitives import Reader, Writer
from libs.wire.record_batches.records import Record, build_batch
from tests.simulation.transactions.checks import DATA
from tests.simulation.transactions.labels import BatchName, Label
from tests.simulation.transactions.network import Clients, Connection, Process
from tests.simulation.transactions.world import DATA_ID, SHARDS_ID, World

REQUEST_S_MAX = 0.8
RETRY_S = 0.02
NO_ANSWER = int(ErrorCode.NETWORK_EXCEPTION)
E = ErrorCode
TRIED_AGAIN = frozenset(
    map(
        int,
        (
            *(E.NETWORK_EXCEPTION, E.NOT_LEADER_OR_FOLLOWER, E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
            *(E.REQUEST_TIMED_OUT, E.KAFKA_STORAGE_ERROR, E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE),
            *(E.NOT_COORDINATOR, E.CONCURRENT_TRANSACTIONS, E.UNKNOWN_SERVER_ERROR),
        ),
    )
)
ABORTS = frozenset(
    map(int, (E.OUT_OF_ORDER_SEQUENCE_NUMBER, E.INVALID_PRODUCER_EPOCH, E.INVALID_TXN_STATE, E.TRANSACTION_ABORTABLE))
)
"""Errors of Produce after which a client aborts."""


class Generation(NamedTuple):
    """The versions that a client sends."""

    name: str
    produce: int
    end: int

    @property
    def adds(self) -> bool:
        """Whether the client itself adds partitions to its transaction."""
        return self.produce < 12

    @property
    def raises_epoch(self) -> bool:
        return self.end >= 5


GENERATIONS = (Generation("TV2", 12, 5), Generation("TV2", 12, 5), Generation("TV1", 11, 4), Generation("TV0", 10, 3))


class Fenced(Exception):
    """The instance cannot go on."""


class Failed(Exception):
    """The transaction has to be aborted."""


class Producer(Process):
    """One instance of a producer. `run` ends when it is fenced, or told to stop."""

    def __init__(self, world: World, number: int, transactional_id: str, generation: Generation) -> None:
        super().__init__(world.simulator, f"{transactional_id} instance {number} ({generation.name})")
        self.world, self.number, self.transactional_id, self.generation = world, number, transactional_id, generation
        self.random = world.simulator.stream(f"producer {number}")
        self.timeout_ms = self.random.choice((500, 1200, 2500))
        self._delivery_s_max = self.random.choice((0.0, 0.2, 0.6, 2.5))
        self._aborts: tuple[int, int] | None = None
        """The producer id and epoch that it has asked to abort last."""
        self.ends = False
        """It begins no further transaction."""
        self.ended = False
        self.producer = (-1, -1)
        self._coordinators = Clients(world.network, self, TRANSACTION_COORDINATOR, world.process_of)
        self._leaders = Clients(world.network, self, STORAGE, world.process_of)
        self._label = Label(number, 0)
        self._added: set[int] = set()
        self._sequences: dict[int, int] = {}
        self._unanswered: dict[int, list[int]] = {}
        """Sequences of batches, by partition."""
        self._batches = 0
        self._sending: list[asyncio.Task[None]] = []

    def see(self, image: ClusterImage) -> None:
        if image.revision > self.image.revision:
            self.image = image
            self._coordinators.follow(image)
            self._leaders.follow(image)

    @property
    def connections(self) -> list[Connection]:
        return [*self._coordinators.all, *self._leaders.all]

    async def run(self) -> None:
        try:
            await self._initialize(None)
            while not self.ends:
                await asyncio.sleep(self.random.choice((0.001, 0.01, 0.15)))
                await self._transact()
        except Fenced as fenced:
            self.simulator.log_event("%s ends: %s", self.name, fenced)
        except Exception as error:
            self.simulator.violation(f"{self.name}: {error!r}")
        self.ended = True

    # -- a transaction ----------------------------------------------------------------------------------------------------

    async def _transact(self) -> None:
        self._label = label = Label(self.number, self._label.transaction + 1)
        self._added, self._batches = set(), 0
        fails = False
        try:
            for _ in range(self.random.choice((1, 2, 3, 6))):
                await self._write()
                if self.random.random() < 0.3:
                    await asyncio.sleep(self.random.choice((0.005, 0.005, 0.1, 2.5)))
            await self._all_answered()
        except Failed as reason:
            self.simulator.log_event("%s gives up %s: %s", self.name, label, reason)
            fails = True
            for task in self._sending:
                await asyncio.wait([task])
            self._sending.clear()
        if not fails and self.random.random() < 0.75:
            await self._end(label, commit=True)
            return
        if self._added if self.generation.adds else self._batches:
            await self._end(label, commit=False)
        if fails and not self.generation.raises_epoch:
            await asyncio.sleep(self.random.choice((0.0, 0.2, 1.0)))
            await self._initialize(self.producer)

    async def _write(self) -> None:
        count = self.world.topics[DATA_ID].partitions
        for index in self.random.sample(range(count), self.random.choice((1, 1, 2))):
            if self.generation.adds and index not in self._added:
                await self._add(index)
            for _ in range(self.random.choice((1, 1, 2))):
                self._send(index)
                await asyncio.sleep(0.001 * self.random.random())
            if self.random.random() < 0.6:
                await self._all_answered()

    def _send(self, index: int) -> None:
        name = BatchName(self._label, self._batches)
        self._batches += 1
        sequence = self._sequences.get(index, 0)
        self._sequences[index] = sequence + 1
        producer_id, epoch = self.producer
        batch = build_batch(
            [Record(None, name.value(), self.world.wall_ms)],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )
        self.world.checks.sends()
        self._unanswered.setdefault(index, []).append(sequence)
        task = self.simulator.loop.create_task(self._produce(index, name, sequence, bytes(batch)), context=self.context)
        self._sending.append(task)

    async def _all_answered(self) -> None:
        """Raises Failed."""
        sending, self._sending = self._sending, []
        failure: Failed | None = None
        for task in sending:
            await asyncio.wait([task])
            error = task.exception()
            if isinstance(error, Failed):
                failure = error
            elif error is not None:
                raise error
        if failure is not None:
            raise failure

    async def _produce(self, index: int, name: BatchName, sequence: int, batch: bytes) -> None:
        """Raises Failed."""
        began = self.simulator.loop.time()
        unanswered = self._unanswered[index]
        try:
            while True:
                behind = unanswered[0] != sequence
                error = await self._append(index, batch)
                if not error:
                    self.simulator.log_event("%s: %s is stored in %d", self.name, name, index)
                    self.world.checks.acknowledged(name, (DATA_ID, index))
                    return
                waits = error == E.OUT_OF_ORDER_SEQUENCE_NUMBER and behind
                if error in ABORTS and not waits:
                    raise Failed(f"{E(error).name} for {name} in {index}")
                if error not in TRIED_AGAIN and not waits:
                    self.world.simulator.violation(f"a producer gets {E(error).name} for {name}")
                    raise Failed(E(error).name)
                if self.simulator.loop.time() - began > self._delivery_s_max:
                    raise Failed(f"{name} is not answered")
                await asyncio.sleep(RETRY_S)
        finally:
            unanswered.remove(sequence)

    async def _append(self, index: int, batch: bytes) -> int:
        state = self.image.partition(DATA_ID, index)
        leader = self._leaders.client(state.leader) if state is not None else None
        if state is None or leader is None:
            return NO_ANSWER
        part = [DATA_ID, index, state.leader_epoch, len(batch)]
        revision = self.image.revision
        body = [-1, 2500, [part], self.transactional_id, revision, self.generation.produce]
        try:
            response: Any = await leader.call(
                APPEND, body, (batch,), timeout_s=self.random.choice((0.15, 0.8, 2.4)), silent=self.random.random() < 0.5
            )
        except RpcFailure:
            return NO_ANSWER
        error: int = response.body[0][0][0]
        return error

    # -- the coordinator --------------------------------------------------------------------------------------------------

    async def _initialize(self, expected: tuple[int, int] | None) -> None:
        """Raises Fenced."""
        producer_id, epoch = expected or (-1, -1)
        request = init_producer_id.InitProducerIdRequest(self.transactional_id, self.timeout_ms, producer_id, epoch)
        response = await self._coordinate(ApiKey.INIT_PRODUCER_ID, init_producer_id, 4, request)
        self._takes(response.producer_id, response.producer_epoch)
        self._sequences.clear()

    def _takes(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != self.producer:
            self._sequences.clear()
        self.producer = producer_id, epoch
        self.simulator.log_event("%s is producer %d, epoch %d", self.name, producer_id, epoch)
        self.world.checks.given(self.number, self.transactional_id, self.producer)

    async def _add(self, index: int) -> None:
        """Raises Fenced."""
        topic = add_partitions_to_txn.AddPartitionsToTxnTopic(DATA, [index])
        request = add_partitions_to_txn.AddPartitionsToTxnRequest([], self.transactional_id, *self.producer, [topic])
        self._added.add(index)
        await self._coordinate(ApiKey.ADD_PARTITIONS_TO_TXN, add_partitions_to_txn, 3, request)
        self.world.checks.added(self.transactional_id, self.producer, index)

    async def _end(self, label: Label, *, commit: bool) -> None:
        """Raises Fenced."""
        checks, before = self.world.checks, self.producer
        if commit:
            checks.asks_to_commit(label)
        else:
            self._aborts = before
        request = end_txn.EndTxnRequest(self.transactional_id, *before, commit)
        response = await self._coordinate(ApiKey.END_TXN, end_txn, self.generation.end, request)
        self.simulator.log_event("%s: %s %s", self.name, label, "is committed" if commit else "is aborted")
        checks.ended(label, commit=commit)
        if commit:
            checks.decided(label, before, raises_epoch=self.generation.raises_epoch)
        if self.generation.raises_epoch:
            self._takes(response.producer_id, response.producer_epoch)

    async def _coordinate(self, key: ApiKey, codec: Any, version: int, request: Any) -> Any:
        """The response to a request, which is sent until there is one. Raises Fenced."""
        writer = Writer()
        codec.write_request(writer, request, version)
        label, old = self._label, not self.generation.raises_epoch
        while True:
            error, response = await self._ask(int(key), version, bytes(writer.buffer), lambda: not old or self._label == label)
            if not error:
                response = codec.read_response(Reader(memoryview(response)), version)
                error = _error_in(response)
                if not error:
                    return response
            if error not in TRIED_AGAIN:
                raise self._fenced(key, error)
            await asyncio.sleep(RETRY_S * self.random.choice((1, 3)))

    def _fenced(self, key: ApiKey, error: int) -> Fenced:
        story = f"{key.name} answers {E(error).name} to {self.name}, which is {self.producer}"
        # A retry of InitProducerId is not known by an owner that has loaded the shard since (`Transaction.last_epoch`).
        if key != ApiKey.INIT_PRODUCER_ID:
            asked = self.generation.raises_epoch and self.producer == self._aborts
            self.world.checks.fenced(story, self.producer, asked_to_abort=asked)
        return Fenced(story)

    async def _ask(self, key: int, version: int, payload: bytes, wanted: Any) -> tuple[int, bytes]:
        shard = self.world.shard_of(self.transactional_id)
        state = self.image.partition(SHARDS_ID, shard)
        owner = Owner.named(state.owner) if state is not None else None
        client: Connection | None = self._coordinators.client_of(owner) if owner is not None else None
        if client is None:
            return NO_ANSWER, b""
        body = [shard, key, version, "", "/127.0.0.1", 0]
        try:
            response = await client.call(ASK_TRANSACTIONS, body, (payload,), timeout_s=REQUEST_S_MAX, wanted=wanted)
        except RpcFailure:
            return NO_ANSWER, b""
        error: Any = response.body[0]
        return error, bytes(response.payload)


def _error_in(response: Any) -> int:
    if isinstance(response, add_partitions_to_txn.AddPartitionsToTxnResponse):
        codes = [
            each.partition_error_code for topic in response.results_by_topic_v3_and_below for each in topic.results_by_partition
        ]
        return next((code for code in codes if code), 0)
    error: int = response.error_code
    return error
