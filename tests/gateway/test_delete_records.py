"""DeleteRecords: requests to each leader, and answers that need no request."""

from libs.rpc.contracts.storage import DELETE_RECORDS, DeletedRecords, DeleteRecords, DeleteRecordsPartition, DeleteRecordsReply
from libs.wire.errors import ErrorCode
from libs.wire.messages.delete_records import DeleteRecordsPartition as RequestedPartition
from libs.wire.messages.delete_records import DeleteRecordsRequest, DeleteRecordsTopic
from services.gateway.exchange.request_context import NodeUnavailable
from services.gateway.handlers import delete_records
from tests.gateway.fake_gateway import Cluster, FakeGateway, context, topic_id_of


def wanting(*partitions: tuple[str, int, int], timeout_ms: int = 200) -> DeleteRecordsRequest:
    return DeleteRecordsRequest(
        [DeleteRecordsTopic(name, [RequestedPartition(index, offset)]) for name, index, offset in partitions], timeout_ms
    )


async def ask(gateway: FakeGateway, request: DeleteRecordsRequest) -> dict[tuple[str, int], tuple[int, int]]:
    response = await delete_records.handle(gateway, context(2), request)
    answers = {
        (topic.name, p.partition_index): (p.error_code, p.low_watermark) for topic in response.topics for p in topic.partitions
    }
    assert sum(len(topic.partitions) for topic in response.topics) == len(answers)
    return answers


def echo(node_id: int, body: DeleteRecords) -> DeleteRecordsReply:
    return DeleteRecordsReply(tuple(DeletedRecords(0, p.offset) for p in body.partitions))


async def test_each_leader_is_asked_for_what_it_leads() -> None:
    gateway = FakeGateway(Cluster(topics={"a": (1, 2), "b": (1,)}))
    gateway.on_storage = echo
    answers = await ask(gateway, wanting(("a", 0, 3), ("a", 1, 4), ("b", 0, -1)))
    assert answers == {("a", 0): (0, 3), ("a", 1): (0, 4), ("b", 0): (0, -1)}
    first = (DeleteRecordsPartition(topic_id_of("a"), 0, 3), DeleteRecordsPartition(topic_id_of("b"), 0, -1))
    assert [(node, method, body) for node, method, body, _ in gateway.requests] == [
        (1, DELETE_RECORDS, DeleteRecords(200, first)),
        (2, DELETE_RECORDS, DeleteRecords(200, (DeleteRecordsPartition(topic_id_of("a"), 1, 4),))),
    ]


async def test_missing_and_internal_topics_are_refused_without_asking_a_leader() -> None:
    gateway = FakeGateway(Cluster(topics={"a": (1,), "__consumer_offsets": (1,)}))
    answers = await ask(gateway, wanting(("a", 1, 0), ("a", -1, 0), ("b", 0, 0), ("__consumer_offsets", 0, 0)))
    unknown = (int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), -1)
    assert answers == {
        ("a", 1): unknown,
        ("a", -1): unknown,
        ("b", 0): unknown,
        ("__consumer_offsets", 0): (int(ErrorCode.INVALID_TOPIC_EXCEPTION), -1),
    }


async def test_of_a_partition_that_is_named_twice_the_last_mention_counts() -> None:
    gateway = FakeGateway(Cluster(topics={"a": (1,)}))
    gateway.on_storage = echo
    assert await ask(gateway, wanting(("a", 0, 3), ("a", 0, 2))) == {("a", 0): (0, 2)}


async def test_a_leader_that_moved_is_followed() -> None:
    gateway = FakeGateway(Cluster(topics={"a": (1,)}))

    def moving(node_id: int, body: DeleteRecords) -> DeleteRecordsReply:
        if node_id == 1:
            gateway.image = Cluster(topics={"a": (2,)}).image(revision=8)
            return DeleteRecordsReply((DeletedRecords(ErrorCode.NOT_LEADER_OR_FOLLOWER),))
        return echo(node_id, body)

    gateway.on_storage = moving
    assert await ask(gateway, wanting(("a", 0, 3))) == {("a", 0): (0, 3)}


async def test_without_an_answer_the_error_is_not_leader_or_follower() -> None:
    gateway = FakeGateway(Cluster(topics={"a": (1, -1)}))

    def gone(node_id: int, body: DeleteRecords) -> DeleteRecordsReply:
        raise NodeUnavailable(node_id)

    gateway.on_storage = gone
    answers = await ask(gateway, wanting(("a", 0, 3), ("a", 1, 3), timeout_ms=0))
    assert set(answers.values()) == {(int(ErrorCode.NOT_LEADER_OR_FOLLOWER), -1)}


async def test_a_topic_that_was_deleted_at_the_leader_is_unknown() -> None:
    gateway = FakeGateway(Cluster(topics={"a": (1,)}))
    gateway.on_storage = lambda node_id, body: DeleteRecordsReply((DeletedRecords(ErrorCode.UNKNOWN_TOPIC_ID),))
    assert await ask(gateway, wanting(("a", 0, 3))) == {("a", 0): (int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), -1)}
