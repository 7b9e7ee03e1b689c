"""The sends of a producer that has several batches in flight, and their times."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from libs.wire.errors import ErrorCode
from tests.gateway.kafka_client import Produced
from tests.history.model import Send
from tests.simulation.cluster import kafka_client
from tests.simulation.cluster.clients import DELIVERY_S, Client
from tests.simulation.cluster.kafka_client import Disconnected, Link, Partition
from tests.simulation.cluster.pipelining import UNDER_WAY_MOST, Batch, Pipeline
from tests.simulation.cluster.recorder import Recorder
from tests.simulation.cluster.world import World

ONE = ("orders", 0)
LONG_S = 1.0


class Broker(Client):
    """Answers when it is told to. Its links are its leaders' numbers."""

    def __init__(self) -> None:
        super().__init__(World(1), "client", [], [])
        self.sent: list[tuple[Link, int]] = []
        self.asked: list[asyncio.Future[Produced]] = []
        self.led_by(1)

    def led_by(self, node: int) -> None:
        self.metadata.leaders[ONE] = node, 0
        self._link = cast(Link, f"link to {node}")

    async def leader(self, partition: Partition) -> Link | None:
        return self._link

    async def refresh(self) -> None:
        pass

    def begin_produce(
        self, link: Link, partition: Partition, batch: bytes, acks: int, timeout_s: float
    ) -> "asyncio.Future[Produced]":
        self.sent.append((link, int(batch)))
        self.asked.append(asyncio.get_running_loop().create_future())
        return self.asked[-1]

    async def end_produce(self, asked: "asyncio.Future[Produced]", timeout_s: float) -> Produced:
        return await asked

    async def answers(self, error: ErrorCode | None = None, offset: int = -1) -> None:
        """The oldest request. None: the connection was lost."""
        asked = self.asked.pop(0)
        if error is None:
            asked.set_exception(Disconnected("lost", sent=True))
        else:
            asked.set_result(Produced(ONE[0], ONE[1], int(error), offset))
        await asyncio.sleep(0.001)

    def since(self, number: int) -> list[int]:
        return [value for _, value in self.sent[number:]]


class Rig:
    def __init__(self) -> None:
        self.broker = Broker()
        self.world = self.broker.world
        self.recorder = Recorder(self.world.loop)
        self._process = self.recorder.process()

    async def add(self, *values: int) -> None:
        for value in values:
            call = self.recorder.begin(self._process, "send", (Send("orders-0", value),))
            self.pipeline.add(Batch(call, [value], b"%d" % value, self.world.loop.time() + DELIVERY_S))
        await asyncio.sleep(0.001)

    def run(self, work: Callable[[], Awaitable[None]]) -> None:
        async def body() -> None:
            self.pipeline = Pipeline(self.broker, self.recorder, ONE, (7, 0), asyncio.Event())
            running = asyncio.get_running_loop().create_task(self.pipeline.run())
            await work()
            self.pipeline.close()
            while self.broker.asked:
                await self.broker.answers(ErrorCode.NONE)
            await running

        self.world.loop.run(body())
        with self.world.loop.discarding():
            self.world.loop.close()

    @property
    def stored(self) -> list[tuple[int, int | None]]:
        ended = [op for op in self.recorder.history(1).ops if op.type == "ok"]
        return [(one.value, one.offset) for op in ended for one in op.value if isinstance(one, Send)]


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    rig = Rig()
    monkeypatch.setattr(kafka_client, "begin_produce", rig.broker.begin_produce)
    monkeypatch.setattr(kafka_client, "end_produce", rig.broker.end_produce)
    return rig


def test_it_sends_the_next_before_the_first_is_answered_and_not_too_many(rig: Rig) -> None:
    async def work() -> None:
        await rig.add(*range(UNDER_WAY_MOST + 2))
        assert rig.broker.since(0) == list(range(UNDER_WAY_MOST))
        await rig.broker.answers(ErrorCode.NONE, 40)
        assert rig.broker.since(UNDER_WAY_MOST) == [UNDER_WAY_MOST]
        assert rig.stored == [(0, 40)]

    rig.run(work)


@pytest.mark.parametrize("error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, None])
def test_after_an_error_all_are_answered_before_all_are_sent_again_in_order(rig: Rig, error: ErrorCode | None) -> None:
    async def work() -> None:
        await rig.add(1, 2, 3)
        await rig.broker.answers(error)
        await rig.add(4)
        await asyncio.sleep(LONG_S)
        assert rig.broker.since(3) == []
        await rig.broker.answers(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        await rig.broker.answers(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        await asyncio.sleep(LONG_S)
        assert rig.broker.since(3) == [1, 2, 3, 4]
        assert rig.world.violations == []

    rig.run(work)


def test_a_batch_before_a_stored_one_was_stored(rig: Rig) -> None:
    """Its answer was lost: what was stored behind it would have been out of order otherwise."""

    async def work() -> None:
        await rig.add(1, 2, 3)
        await rig.broker.answers(ErrorCode.REQUEST_TIMED_OUT)
        await rig.broker.answers(ErrorCode.NONE, 12)
        await rig.broker.answers(ErrorCode.REQUEST_TIMED_OUT)
        assert rig.stored == [(1, None), (2, 12)]
        await asyncio.sleep(LONG_S)
        assert rig.broker.since(3) == [3]

    rig.run(work)


def test_another_leader_is_sent_nothing_before_the_former_has_answered_all(rig: Rig) -> None:
    async def work() -> None:
        await rig.add(1, 2)
        rig.broker.led_by(2)
        await rig.add(3)
        await rig.broker.answers(ErrorCode.NONE, 10)
        await asyncio.sleep(LONG_S)
        assert rig.broker.since(2) == []
        await rig.broker.answers(ErrorCode.NONE, 11)
        await asyncio.sleep(LONG_S)
        assert rig.broker.sent[2:] == [("link to 2", 3)]

    rig.run(work)


@pytest.mark.parametrize(("first", "why"), [(ErrorCode.NONE, "is gone"), (ErrorCode.NOT_LEADER_OR_FOLLOWER, "begin an epoch")])
def test_to_hear_that_a_batch_is_out_of_order_is_a_violation(rig: Rig, first: ErrorCode, why: str) -> None:
    async def work() -> None:
        await rig.add(1, 2, 3)
        await rig.broker.answers(first, 10)
        await rig.broker.answers(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        assert len(rig.world.violations) == 1
        assert why in rig.world.violations[0]
        await rig.broker.answers(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        assert len(rig.world.violations) == 1, "that is the same one"
        assert rig.pipeline.given_up

    rig.run(work)


def test_a_batch_that_cannot_be_delivered_in_time_is_given_up_once_all_are_answered(rig: Rig) -> None:
    async def work() -> None:
        await rig.add(1, 2)
        await asyncio.sleep(DELIVERY_S)
        await rig.add(3)
        assert not rig.pipeline.given_up
        await rig.broker.answers(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        await rig.broker.answers(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        await asyncio.sleep(LONG_S)
        assert rig.pipeline.given_up
        assert rig.broker.since(2) == []

    rig.run(work)
