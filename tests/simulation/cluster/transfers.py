"""Transfers: each transaction writes a record to each of two partitions, and commits or aborts.

Now and then a client dies amid a transaction, or stands still until the transaction's timeout is over. Now and then another
one takes its transactional id: then both go on, and everything that the former begins must be refused.
"""

import asyncio

from libs.wire.record_batches.records import Record
from tests.history.model import Send, Type
from tests.simulation.cluster.clients import RETRY_S, STAMP_MS, Client, Values, key_of, rest
from tests.simulation.cluster.kafka_client import Partition
from tests.simulation.cluster.kafka_transactions import Generation
from tests.simulation.cluster.recorder import Recorder
from tests.simulation.cluster.transactional_producer import Abortable, Fenced, TransactionalProducer

TIMEOUT_MS = 8_000
PAUSE_S = 2.3
THINK_S = 0.1
FATES = {"commits": 61, "aborts": 16, "is replaced": 8, "dies": 5, "dies committing": 5, "stands still": 5}
"""Weights of what becomes of a transaction, unless something goes wrong."""


class Teller:
    """The clients of one transactional id, one after the other."""

    def __init__(
        self, client: Client, recorder: Recorder, partitions: list[Partition], values: Values, generation: Generation
    ) -> None:
        self._client, self._recorder, self._partitions, self._values = client, recorder, partitions, values
        self._generation = generation
        self._name = f"teller-{client.name}"
        self._random = client.world.stream(self._name)
        self._sometimes = client.world.sometimes
        self._producer: TransactionalProducer | None = None
        self._process = 0
        self._successors: list[asyncio.Task[None]] = []
        self.stopping = False

    async def run(self) -> None:
        """Works until it is stopped."""
        while not self.stopping:
            fate = self._random.choices(list(FATES), list(FATES.values()))[0]
            await self.transfer(fate)
            if self._successors:
                await asyncio.wait(self._successors)
                self._successors.clear()
            await rest(self._random.expovariate(1 / PAUSE_S), lambda: self.stopping)

    async def transfer(self, fate: str = "commits") -> Type | None:
        """One transaction. Its outcome; None if none was begun."""
        producer = await self._opened()
        return None if producer is None else await self._transact(producer, self._process, fate)

    async def _transact(self, producer: TransactionalProducer, process: int, fate: str) -> Type:
        sends = [Send(key_of(one), self._values.next()) for one in self._random.sample(self._partitions, 2)]
        begun = self._recorder.begin(process, "txn", tuple(sends))
        try:
            outcome = await self._legs(producer, sends, fate)
        except Fenced:
            outcome = "fail"
        self._sometimes("a commit's outcome stayed unknown to its client", outcome == "info")
        self._recorder.end(begun, outcome, tuple(sends))
        if outcome == "info" or producer.is_lost or self._producer is not producer:
            self._leave(producer)
        return outcome

    async def _legs(self, producer: TransactionalProducer, sends: list[Send], fate: str) -> Type:
        """Sends both records, and ends the transaction. Raises Fenced."""
        try:
            await self._send(producer, sends, 0)
            if fate == "is replaced":
                self._sometimes("a producer was replaced amid its transaction")
                await self._replace(producer)
            if fate == "stands still":
                self._sometimes("a transaction was left open beyond its timeout")
                await asyncio.sleep(self._random.uniform(0.8, 2.0) * TIMEOUT_MS / 1000)
            await asyncio.sleep(self._random.expovariate(1 / THINK_S))
            await self._send(producer, sends, 1)
            if fate == "dies":
                self._leave(producer)
                return "fail"  # nobody has asked to commit it
            if fate == "dies committing":
                return await self._commit_and_die(producer)
            return await producer.end(commit=fate != "aborts")
        except Abortable:
            return await producer.end(commit=False)

    async def _commit_and_die(self, producer: TransactionalProducer) -> Type:
        """The client asks for the commit, and hears no answer unless that comes soon."""
        committing = asyncio.get_running_loop().create_task(producer.end(commit=True))
        await asyncio.wait([committing], timeout=self._random.choice((0.0, 0.005, 0.05)))
        if committing.done():
            return committing.result()
        committing.cancel()
        self._leave(producer)
        return "info"

    async def _send(self, producer: TransactionalProducer, sends: list[Send], leg: int) -> None:
        partition = next(one for one in self._partitions if key_of(one) == sends[leg].key)
        record = Record(None, b"%d" % sends[leg].value, STAMP_MS + sends[leg].value)
        offset = await producer.send(partition, [record])
        if offset >= 0:
            sends[leg] = Send(sends[leg].key, sends[leg].value, offset)

    async def _replace(self, former: TransactionalProducer) -> None:
        """Another client takes the transactional id, and begins a transaction. The former goes on, before or after that."""
        taking = asyncio.get_running_loop().create_task(self._take_over(former))
        self._successors.append(taking)
        await asyncio.wait([taking], timeout=self._random.choice((0.0, 0.05, 0.2, 0.3, 0.5)))

    async def _take_over(self, former: TransactionalProducer) -> None:
        successor = self._new()
        is_open = await successor.open()
        former.superseded = is_open
        if not is_open:
            successor.close()
            return
        self._producer = successor
        await self._transact(successor, self._recorder.process(), "commits")

    async def _opened(self) -> TransactionalProducer | None:
        """A producer that can begin a transaction."""
        if self._producer is None:
            self._producer = self._new()
            if not await self._producer.open():
                self._leave(self._producer)
                await asyncio.sleep(RETRY_S)
                return None
            self._process = self._recorder.process()
        producer = self._producer
        if await producer.begin():
            return producer
        self._leave(producer)
        return None

    def _new(self) -> TransactionalProducer:
        return TransactionalProducer(self._client, self._name, self._generation, TIMEOUT_MS)

    def _leave(self, producer: TransactionalProducer) -> None:
        """Its client is of no more use."""
        producer.close()
        self._process = self._recorder.process()
        if self._producer is producer:
            self._producer = None
