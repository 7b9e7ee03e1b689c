"""OffsetForLeaderEpoch: requests to each leader. A leader that is replaced meanwhile is not waited for."""

import asyncio
from typing import TypeVar

import pytest

from libs.rpc.contracts.storage import END_OF_EPOCH, EndOfEpoch, EndOfEpochReply, EpochEnd, EpochPartition
from libs.wire.errors import ErrorCode
from libs.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from services.gateway.exchange.request_context import NodeUnavailable, TracedCall
from services.gateway.handlers import offset_for_leader_epoch
from tests.gateway.fake_gateway import Cluster, FakeGateway, context, topic_id_of

T = TypeVar("T")


def wanting(*partitions: tuple[str, int, int, int]) -> OffsetForLeaderEpochRequest:
    """(topic, partition, current leader epoch, epoch)"""
    topics = [OffsetForLeaderTopic(name, [OffsetForLeaderPartition(index, now, epoch)]) for name, index, now, epoch in partitions]
    return OffsetForLeaderEpochRequest(topics=topics)


async def ask(gateway: FakeGateway, request: OffsetForLeaderEpochRequest) -> dict[tuple[str, int], tuple[int, int, int]]:
    response = await offset_for_leader_epoch.handle(gateway, context(4), request)
    return {
        (topic.topic, p.partition): (p.error_code, p.leader_epoch, p.end_offset)
        for topic in response.topics
        for p in topic.partitions
    }


def echo(node_id: int, body: EndOfEpoch) -> EndOfEpochReply:
    return EndOfEpochReply(tuple(EpochEnd(0, p.leader_epoch, 10 * node_id) for p in body.partitions))


async def test_each_leader_is_asked_for_what_it_leads() -> None:
    gateway = FakeGateway(Cluster(topics={"a": (1, 2), "b": (1,)}))
    gateway.on_storage = echo
    answers = await ask(gateway, wanting(("a", 0, 5, 3), ("a", 1, -1, 4), ("b", 0, 5, 5)))
    assert answers == {("a", 0): (0, 3, 10), ("a", 1): (0, 4, 20), ("b", 0): (0, 5, 10)}
    first = (EpochPartition(topic_id_of("a"), 0, 3, 5), EpochPartition(topic_id_of("b"), 0, 5, 5))
    assert [(node, method, body) for node, method, body, _ in gateway.requests] == [
        (1, END_OF_EPOCH, EndOfEpoch(first)),
        (2, END_OF_EPOCH, EndOfEpoch((EpochPartition(topic_id_of("a"), 1, 4, -1),))),
    ]


async def test_a_missing_partition_is_unknown_topic_or_partition() -> None:
    gateway = FakeGateway(Cluster(topics={"a": (1,)}))
    gateway.on_storage = lambda node_id, body: EndOfEpochReply((EpochEnd(ErrorCode.UNKNOWN_TOPIC_ID),))
    unknown = (int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), -1, -1)
    assert await ask(gateway, wanting(("a", 1, -1, 0), ("b", 0, -1, 0), ("a", 0, -1, 0))) == {
        ("a", 1): unknown,
        ("b", 0): unknown,
        ("a", 0): unknown,
    }


@pytest.mark.parametrize("error", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH])
async def test_the_leaders_judgement_of_the_clients_epoch_reaches_it(error: ErrorCode) -> None:
    gateway = FakeGateway(Cluster(topics={"a": (1,)}))
    gateway.on_storage = lambda node_id, body: EndOfEpochReply((EpochEnd(error),))
    assert await ask(gateway, wanting(("a", 0, 4, 3))) == {("a", 0): (error, -1, -1)}


async def test_a_leader_that_is_gone_is_waited_for() -> None:
    gateway = FakeGateway(Cluster(topics={"a": (1,)}))

    def gone(node_id: int, body: EndOfEpoch) -> EndOfEpochReply:
        gateway.image = Cluster(topics={"a": (2,)}).image(8)
        gateway.on_storage = echo
        raise NodeUnavailable(node_id)

    gateway.on_storage = gone
    assert await ask(gateway, wanting(("a", 0, -1, 3))) == {("a", 0): (0, 3, 20)}


class OneIsSilent(FakeGateway):
    """Node 1 never answers. `image_changed` is set when the image moves."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.image_changed = asyncio.Event()
        self.cancelled = False

    async def storage(
        self, node_id: int, method: str, body: object, reply_type: type[T], *, timeout_s: float, asked: TracedCall | None = None
    ) -> T:
        if node_id == 1:
            self.requests.append((node_id, method, body, timeout_s))
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled = True
                raise
        return await super().storage(node_id, method, body, reply_type, timeout_s=timeout_s)

    async def wait_for_revision(self, revision: int, timeout_s: float) -> bool:
        self.waited_for.append(revision)
        await self.image_changed.wait()
        return True


async def test_a_silent_leader_is_given_up_when_the_image_names_another() -> None:
    gateway = OneIsSilent(Cluster(topics={"a": (1, 2)}))
    gateway.on_storage = echo
    answering = asyncio.ensure_future(ask(gateway, wanting(("a", 0, -1, 3), ("a", 1, -1, 3))))
    async with asyncio.timeout(60):
        while not gateway.waited_for:  # noqa: ASYNC110 - the fake announces nothing
            await asyncio.sleep(0.002)
        assert not answering.done()
        gateway.image = Cluster(topics={"a": (2, 2)}).image(8)
        gateway.image_changed.set()
        assert await answering == {("a", 0): (0, 3, 20), ("a", 1): (0, 3, 20)}
    assert gateway.cancelled
