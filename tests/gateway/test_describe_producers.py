"""DescribeProducers: requests to each leader, and the answers of partitions that none has."""

from libs.rpc.contracts.storage import ActiveProducer, DescribeProducers, DescribeProducersReply, PartitionProducers
from libs.wire.errors import ErrorCode
from libs.wire.messages.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest
from services.gateway.handlers import describe_producers
from tests.gateway.fake_gateway import Cluster, FakeGateway, context

Answers = list[tuple[str, int, int, list[ProducerState]]]


async def ask(gateway: FakeGateway, **wanted: list[int]) -> Answers:
    request = DescribeProducersRequest([TopicRequest(name, indexes) for name, indexes in wanted.items()])
    response = await describe_producers.handle(gateway, context(0), request)
    return [
        (topic.name, answer.partition_index, answer.error_code, answer.active_producers)
        for topic in response.topics
        for answer in topic.partitions
    ]


def as_leader(node_id: int, body: DescribeProducers) -> DescribeProducersReply:
    """Each leader has one producer, whose id is its own."""
    return DescribeProducersReply(
        tuple(PartitionProducers(0, (ActiveProducer(node_id, 1, 2, 3, 4, 5),)) for _ in body.partitions)
    )


async def test_each_leader_tells_of_its_partitions() -> None:
    gateway = FakeGateway(Cluster(topics={"a": (1, 2)}))
    gateway.on_storage = as_leader
    assert await ask(gateway, a=[1, 0]) == [
        ("a", 1, 0, [ProducerState(2, 1, 2, 3, 4, 5)]),
        ("a", 0, 0, [ProducerState(1, 1, 2, 3, 4, 5)]),
    ]


async def test_a_partition_that_is_named_again_and_again_is_answered_once() -> None:
    gateway = FakeGateway(Cluster(topics={"a": (1, 2)}))
    gateway.on_storage = as_leader
    assert len(await ask(gateway, a=[0] * 50)) == 50
    assert [answer[:2] for answer in await ask(gateway, a=[0] * 50 + [1])] == [("a", 0), ("a", 1)]


async def test_what_is_not_there_is_unknown_topic_or_partition() -> None:
    gateway = FakeGateway(Cluster(topics={"a": (1,)}))
    gateway.on_storage = lambda node_id, body: DescribeProducersReply((PartitionProducers(ErrorCode.UNKNOWN_TOPIC_ID),))
    unknown = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert [answer[2] for answer in await ask(gateway, a=[0, 1, -1], b=[0])] == [unknown] * 4
