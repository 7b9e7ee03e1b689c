"""Consume-transform-produce: a copier reads committed transfers, and writes a copy of each in a transaction with its offsets.

After an abort or an error it begins again from the committed offsets. Each committed transfer must be copied exactly once.
"""

import asyncio
from collections.abc import Callable, Sequence

from libs.wire.errors import ErrorCode
from libs.wire.record_batches.records import Record
from tests.history.model import Commit, Poll, Position, Send, Type
from tests.simulation.cluster import kafka_client, kafka_groups
from tests.simulation.cluster.clients import REQUEST_S, RETRIABLE, RETRY_S, STAMP_MS, Client, Values, key_of, rest
from tests.simulation.cluster.committed_records import committed_in, value_of
from tests.simulation.cluster.kafka_client import COMMITTED, Disconnected, Partition
from tests.simulation.cluster.kafka_transactions import Generation
from tests.simulation.cluster.recorder import Recorder
from tests.simulation.cluster.transactional_producer import ELSEWHERE, Abortable, Fenced, TransactionalProducer

GROUP = "copiers"
TIMEOUT_MS = 8_000
PAUSE_S = 2.3
ABORTED_SHARE, DEAD_SHARE = 0.12, 0.06
RECORDS_MAX = 20


class Copier:
    """The clients of one transactional id, one after the other. `sources` are its own: nobody else of the group reads them."""

    def __init__(
        self,
        client: Client,
        recorder: Recorder,
        sources: Sequence[Partition],
        targets: Sequence[Partition],
        values: Values,
        generation: Generation,
    ) -> None:
        self._client, self._recorder, self._values, self._generation = client, recorder, values, generation
        self._sources, self._targets = list(sources), list(targets)
        self._name = f"copier-{client.name}"
        self._random = client.world.stream(self._name)
        self._sometimes = client.world.sometimes
        self._producer: TransactionalProducer | None = None
        self._process = 0
        self.positions: dict[Partition, int] = {}
        """Where it reads on. Empty: it has not heard yet."""
        self.steady = self.stopping = False

    async def run(self) -> None:
        """Works until it is stopped."""
        while not self.stopping:
            await self._step()
            await rest(self._random.expovariate(1 / PAUSE_S), lambda: self.stopping)

    def behind(self, end_of: Callable[[Partition], int]) -> str:
        """What it has not copied yet."""
        ends = {one: end_of(one) for one in self._sources}
        return "" if self.positions == ends else f"{self._name} is at {self.positions} of {ends}"

    def stop(self) -> None:
        self.stopping = True

    async def _step(self) -> None:
        producer = await self._opened()
        if producer is None or not await self._find_positions():
            await asyncio.sleep(RETRY_S)
            return
        found = await self._poll()
        if found and await self._copy(producer, found) != "ok":
            self._begin_again()

    async def _opened(self) -> TransactionalProducer | None:
        """A producer that can begin a transaction. A new one takes its id, and so the former's transaction is over."""
        producer = self._producer
        if producer is None:
            producer = self._producer = TransactionalProducer(self._client, self._name, self._generation, TIMEOUT_MS)
            if not await producer.open():
                self._leave()
                return None
        if await producer.begin():
            return producer
        self._leave()
        return None

    def _leave(self) -> None:
        if self._producer is not None:
            self._producer.close()
            self._producer = None
        self._begin_again()

    def _begin_again(self) -> None:
        """It goes back to the committed offsets."""
        self.positions.clear()

    # --- reading

    async def _find_positions(self) -> bool:
        """Whether it knows where to read."""
        if not self.positions:
            self._process = self._recorder.process()
            self.positions = await self._committed() or {}
        return bool(self.positions)

    async def _committed(self) -> dict[Partition, int] | None:
        """The group's offsets. None: they are not stable, or nobody says."""
        begun = self._recorder.begin(self._recorder.process(), "offsets")
        request = kafka_groups.fetch(GROUP, self._sources, require_stable=True)
        try:
            answer = await kafka_groups.ask(await self._client.any_gateway(), request, REQUEST_S)
        except Disconnected:
            self._recorder.end(begun, "fail")
            return None
        error, offsets = kafka_groups.fetched(answer)
        if error:
            self._sometimes("a group's offsets were not stable", error == ErrorCode.UNSTABLE_OFFSET_COMMIT)
            if error not in ELSEWHERE and error != ErrorCode.UNSTABLE_OFFSET_COMMIT:
                self._client.world.violation(f"10: group {GROUP}: OffsetFetch is answered {ErrorCode(error).name}")
            self._recorder.end(begun, "fail")
            return None
        positions = {partition: max(offset, 0) for partition, offset in offsets.items()}
        self._recorder.end(begun, "ok", (Position(GROUP, {key_of(one): at for one, at in positions.items()}),))
        return positions

    async def _poll(self) -> dict[Partition, list[Record]]:
        """Committed records of one partition, and its position moves."""
        client, partition = self._client, self._random.choice(self._sources)
        try:
            link = await client.leader(partition)
            if link is None:
                return {}
            asked = {partition: self.positions[partition]}
            (answer,) = await kafka_client.fetch(
                *(link, asked, REQUEST_S), max_wait_ms=200, max_bytes=1 << 20, isolation=COMMITTED
            )
        except Disconnected:
            await client.refresh()
            return {}
        if answer.error:
            if answer.error not in RETRIABLE:
                said = ErrorCode(answer.error).name
                client.world.violation(f"4: {key_of(partition)} at {asked[partition]}: a copier is told {said}")
            await client.refresh()
            return {}
        found = committed_in(answer, asked[partition])
        records = found.records[:RECORDS_MAX]
        self.positions[partition] = found.position if len(records) == len(found.records) else records[-1].offset + 1
        return {partition: records} if records else {}

    # --- writing

    async def _copy(self, producer: TransactionalProducer, found: dict[Partition, list[Record]]) -> Type:
        """Writes copies and commits positions. Returns the outcome."""
        polled = Poll({key_of(one): tuple((record.offset, value_of(record)) for record in found[one]) for one in found})
        committed = Commit(GROUP, {key_of(one): self.positions[one] for one in found})
        copies = {one: [Record(record.value, b"%d" % self._values.next(), STAMP_MS) for record in found[one]] for one in found}
        target = self._random.choice(self._targets)
        sends = [Send(key_of(target), value_of(copy)) for one in found for copy in copies[one]]
        begun = self._recorder.begin(self._process, "txn", tuple(sends))
        dies = not self.steady and self._random.random() < DEAD_SHARE
        try:
            for one in found:
                offset = await producer.send(target, copies[one])
                if offset >= 0:
                    sends = [Send(each.key, each.value, offset + at) for at, each in enumerate(sends)]
            await producer.send_offsets(GROUP, {one: self.positions[one] for one in found})
            if dies:
                await self._committed()  # somebody looks how far the group is
            aborts = not self.steady and self._random.random() < ABORTED_SHARE
            outcome: Type = "fail" if dies else await producer.end(commit=not aborts)
        except Abortable:
            outcome = await producer.end(commit=False)
        except Fenced:
            outcome = "fail"
        self._recorder.end(begun, outcome, (polled, *sends, committed))
        if dies or outcome == "info" or producer.is_lost:
            self._leave()
        return outcome
