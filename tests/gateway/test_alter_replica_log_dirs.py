"""AlterReplicaLogDirs and its view in DescribeLogDirs: the request to the node, and the answer to the client."""

import pytest

from libs.rpc.contracts.storage import AlterLogDirs, AlterLogDirsReply, LogDir, LogDirsReply, LogInDir
from libs.wire.errors import ErrorCode
from libs.wire.messages import alter_replica_log_dirs as move_wire
from libs.wire.messages import describe_log_dirs as dirs_wire
from libs.wire.primitives import Writer
from services.gateway.exchange.request_context import NodeUnavailable
from services.gateway.handlers import alter_replica_log_dirs, describe_log_dirs
from tests.gateway.fake_gateway import Cluster, FakeGateway, context, topic_id_of


async def test_a_replica_on_its_way_to_a_directory_is_described_as_a_future_log() -> None:
    gateway = FakeGateway(Cluster())
    logs = LogInDir("a", 0, 7, 2), LogInDir("a", 1, 8, 5, is_future=True)
    gateway.on_storage = lambda node_id, body: LogDirsReply((LogDir(0, "/one", 100, 40, logs),))
    response = await describe_log_dirs.handle(gateway, context(4, 2), dirs_wire.DescribeLogDirsRequest(None))
    (topic,) = response.results[0].topics
    expected = [(p.partition_index, p.partition_size, p.offset_lag, p.is_future_key) for p in topic.partitions]
    assert expected == [(0, 7, 2, False), (1, 8, 5, True)]


@pytest.mark.parametrize("version", [1, 2])
async def test_the_node_that_was_addressed_moves_its_replicas_and_the_last_word_on_each_counts(version: int) -> None:
    gateway = FakeGateway(Cluster(topics={"a": (1,)}))
    gateway.on_storage = lambda node_id, body: AlterLogDirsReply((0, 57, 3))
    topic, long = move_wire.AlterReplicaLogDirTopic, "x" * 214
    first = move_wire.AlterReplicaLogDir("/one", [topic("a", [0, 1]), topic("new", [0])])
    second = move_wire.AlterReplicaLogDir("/two", [topic("a", [1]), topic(long, [0])])
    request = move_wire.AlterReplicaLogDirsRequest([first, second])
    response = await alter_replica_log_dirs.handle(gateway, context(version, 2), request)
    move_wire.write_response(Writer(), response, version)
    wanted = ("/one", topic_id_of("a"), 0), ("/two", topic_id_of("a"), 1), ("/one", bytes(16), 0)
    assert (gateway.requests[0][0], gateway.requests[0][2]) == (2, AlterLogDirs(wanted))
    answered = [(t.topic_name, [(p.partition_index, p.error_code) for p in t.partitions]) for t in response.results]
    assert answered == [("a", [(0, 0), (1, 57)]), ("new", [(0, 3)]), (long, [(0, ErrorCode.INVALID_TOPIC_EXCEPTION)])]


async def test_replicas_of_a_dead_node_are_not_moved_and_nothing_is_asked_about_nothing() -> None:
    gateway = FakeGateway(Cluster(topics={"a": (1,)}))

    def gone(node_id: int, body: object) -> object:
        raise NodeUnavailable(node_id)

    gateway.on_storage = gone
    directory = move_wire.AlterReplicaLogDir("/one", [move_wire.AlterReplicaLogDirTopic("a", [0])])
    response = await alter_replica_log_dirs.handle(gateway, context(2, 2), move_wire.AlterReplicaLogDirsRequest([directory]))
    assert [p.error_code for p in response.results[0].partitions] == [ErrorCode.BROKER_NOT_AVAILABLE]
    assert (await alter_replica_log_dirs.handle(gateway, context(2, 2), move_wire.AlterReplicaLogDirsRequest())).results == []
    assert len(gateway.requests) == 1
