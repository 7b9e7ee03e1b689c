"""Reassignments, elections and log directories: the requests to controller and nodes, and the answers to the client."""

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import InSync, PartitionState, Replica
from libs.cluster.store import WatchBatch, WatchEvent
from libs.rpc.contracts.controller import (
    ALTER_REASSIGNMENTS,
    ELECT_LEADERS,
    PREFERRED,
    UNCLEAN,
    AlterReassignments,
    AlterReassignmentsReply,
    ElectedLeader,
    ElectLeaders,
    ElectLeadersReply,
    Reassignment,
    ReassignmentResult,
)
from libs.rpc.contracts.storage import DescribeLogDirs, LogDir, LogDirsReply, LogInDir
from libs.wire.errors import ErrorCode
from libs.wire.messages import alter_partition_reassignments as alter_wire
from libs.wire.messages import describe_log_dirs as dirs_wire
from libs.wire.messages import elect_leaders as elect_wire
from libs.wire.messages import list_partition_reassignments as list_wire
from libs.wire.primitives import Writer
from services.gateway.exchange.request_context import ControllerUnavailable, NodeUnavailable
from services.gateway.handlers import (
    alter_partition_reassignments,
    describe_log_dirs,
    elect_leaders,
    list_partition_reassignments,
)
from tests.gateway.fake_gateway import Cluster, FakeGateway, context, topic_id_of


def unavailable(method: str, body: object) -> object:
    raise ControllerUnavailable


async def test_targets_and_cancellations_reach_the_controller_and_each_is_answered() -> None:
    gateway = FakeGateway(Cluster())
    results = (
        ReassignmentResult("a", 0, 0),
        ReassignmentResult("a", 1, 85, "none"),
        ReassignmentResult("b", 0, 39, "no"),
    )
    gateway.on_controller = lambda method, body: AlterReassignmentsReply(results, 12)
    partition = alter_wire.ReassignablePartition
    topics = [
        alter_wire.ReassignableTopic("a", [partition(0, [3, 1]), partition(1, None)]),
        alter_wire.ReassignableTopic("b", [partition(0, [])]),
    ]
    request = alter_wire.AlterPartitionReassignmentsRequest(2000, False, topics)
    response = await alter_partition_reassignments.handle(gateway, context(1), request)
    alter_wire.write_response(Writer(), response, 1)
    wanted = (Reassignment("a", 0, (3, 1)), Reassignment("a", 1, None), Reassignment("b", 0, ()))
    assert gateway.requests == [(ALTER_REASSIGNMENTS, AlterReassignments(wanted, False), 2.0)]
    assert gateway.waited_for == [12]
    answered = [(t.name, p.partition_index, p.error_code, p.error_message) for t in response.responses for p in t.partitions]
    assert answered == [("a", 0, 0, None), ("a", 1, 85, "none"), ("b", 0, 39, "no")]
    assert (response.error_code, response.allow_replication_factor_change) == (0, False)


async def test_without_a_controller_the_whole_reassignment_fails() -> None:
    gateway = FakeGateway(Cluster())
    gateway.on_controller = unavailable
    request = alter_wire.AlterPartitionReassignmentsRequest()
    response = await alter_partition_reassignments.handle(gateway, context(0), request)
    assert response.error_code == ErrorCode.REQUEST_TIMED_OUT


async def test_partitions_under_reassignment_are_listed_and_no_others() -> None:
    gateway = FakeGateway(Cluster(topics={"a": (1, 2), "b": (1,)}))
    replicas = tuple(Replica(node, "") for node in (3, 1))
    moving = PartitionState(replicas, 1, 1, 5, 10, (InSync(1, 1),), adding=(3,), removing=(1,))
    event = WatchEvent(keys.partition(topic_id_of("a"), 1), encode(moving), 8, 7)
    gateway.image = gateway.image.apply(WatchBatch((event,), 8))

    async def listed(topics: list[list_wire.ListPartitionReassignmentsTopics] | None) -> list[tuple[object, ...]]:
        request = list_wire.ListPartitionReassignmentsRequest(topics=topics)
        response = await list_partition_reassignments.handle(gateway, context(0), request)
        list_wire.write_response(Writer(), response, 0)
        return [
            (topic.name, p.partition_index, p.replicas, p.adding_replicas, p.removing_replicas)
            for topic in response.topics
            for p in topic.partitions
        ]

    partitions = [("a", 1, [3, 1], [3], [1])]
    assert await listed(None) == partitions
    named = list_wire.ListPartitionReassignmentsTopics
    assert await listed([named("a", [0, 1, 9, -1]), named("b", [0]), named("x", [0])]) == partitions
    assert await listed([named("a", [0])]) == []


@pytest.mark.parametrize(("version", "asked_for", "meant"), [(0, UNCLEAN, PREFERRED), (1, UNCLEAN, UNCLEAN), (2, 0, 0)])
async def test_elections_reach_the_controller_and_version_0_knows_only_preferred_ones(
    version: int, asked_for: int, meant: int
) -> None:
    gateway = FakeGateway(Cluster())
    elected = (ElectedLeader("a", 0, 0), ElectedLeader("a", 2, 80, "away"), ElectedLeader("b", 1, 84, "not needed"))
    gateway.on_controller = lambda method, body: ElectLeadersReply(elected, 12)
    topics = [elect_wire.TopicPartitions("a", [0, 2]), elect_wire.TopicPartitions("b", [1]), elect_wire.TopicPartitions("c")]
    response = await elect_leaders.handle(gateway, context(version), elect_wire.ElectLeadersRequest(asked_for, topics, 3000))
    elect_wire.write_response(Writer(), response, version)
    assert gateway.requests == [(ELECT_LEADERS, ElectLeaders(meant, (("a", 0), ("a", 2), ("b", 1))), 3.0)]
    answered = {t.topic: [(p.partition_id, p.error_code) for p in t.partition_result] for t in response.replica_election_results}
    assert answered == {"a": [(0, 0), (2, 80)], "b": [(1, 84)], "c": []}


async def test_an_election_of_all_partitions_names_none() -> None:
    gateway = FakeGateway(Cluster())
    gateway.on_controller = lambda method, body: ElectLeadersReply((), 12)
    await elect_leaders.handle(gateway, context(2), elect_wire.ElectLeadersRequest(0, None))
    assert gateway.requests[0][1] == ElectLeaders(PREFERRED, None)


@pytest.mark.parametrize("version", [0, 1])
async def test_without_a_controller_each_election_fails(version: int) -> None:
    gateway = FakeGateway(Cluster())
    gateway.on_controller = unavailable
    request = elect_wire.ElectLeadersRequest(0, [elect_wire.TopicPartitions("a", [0, 0])])
    response = await elect_leaders.handle(gateway, context(version), request)
    elect_wire.write_response(Writer(), response, version)
    (topic,) = response.replica_election_results
    assert [(p.partition_id, p.error_code) for p in topic.partition_result] == [(0, ErrorCode.REQUEST_TIMED_OUT)] * 2
    assert response.error_code == (ErrorCode.REQUEST_TIMED_OUT if version else 0)


async def test_the_log_directories_of_the_node_that_was_addressed_are_described() -> None:
    gateway = FakeGateway(Cluster(topics={"a": (1,)}))
    full = LogDir(0, "/one", 100, 40, (LogInDir("a", 0, 7, 2), LogInDir("a", 1, 8, 0), LogInDir("b", 0, 9, 0)))
    gateway.on_storage = lambda node_id, body: LogDirsReply((full, LogDir(56, "/two")))
    topics = [dirs_wire.DescribableLogDirTopic("a", [0, 1]), dirs_wire.DescribableLogDirTopic("x", [0])]
    response = await describe_log_dirs.handle(gateway, context(4, 2), dirs_wire.DescribeLogDirsRequest(topics))
    dirs_wire.write_response(Writer(), response, 4)
    topic_id = topic_id_of("a")
    assert gateway.requests[0][0] == 2
    assert gateway.requests[0][2] == DescribeLogDirs(((topic_id, 0), (topic_id, 1)))
    first, second = response.results
    assert (first.error_code, first.log_dir, first.total_bytes, first.usable_bytes) == (0, "/one", 100, 40)
    partitions = {t.name: [(p.partition_index, p.partition_size, p.offset_lag) for p in t.partitions] for t in first.topics}
    assert partitions == {"a": [(0, 7, 2), (1, 8, 0)], "b": [(0, 9, 0)]}
    assert (second.error_code, second.log_dir, second.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, "/two", [])


async def test_all_directories_of_any_node_are_described_on_the_bootstrap_port_and_a_dead_node_is_named_so() -> None:
    gateway = FakeGateway(Cluster())
    gateway.on_storage = lambda node_id, body: LogDirsReply(())
    await describe_log_dirs.handle(gateway, context(1), dirs_wire.DescribeLogDirsRequest(None))
    assert gateway.requests[0][0] == 1
    assert gateway.requests[0][2] == DescribeLogDirs(None)

    def gone(node_id: int, body: object) -> object:
        raise NodeUnavailable(node_id)

    gateway.on_storage = gone
    response = await describe_log_dirs.handle(gateway, context(3, 3), dirs_wire.DescribeLogDirsRequest(None))
    assert response.error_code == ErrorCode.BROKER_NOT_AVAILABLE
