"""DescribeQuorum: the elected controller and its standbys, as a quorum of Kafka."""

import pytest

from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from services.gateway.handlers import SERVED
from tests.gateway.fake_gateway import Cluster, FakeGateway, context

METADATA = ("__cluster_metadata", (0,))
IMAGE_REVISION = 7  # of the fake gateway's image, in which all records are as old
NOW_MS = 1_000_000
Topics = tuple[tuple[str, tuple[int, ...]], ...]


class StoppedClock:
    def wall_ms(self) -> int:
        return NOW_MS


async def ask(
    topics: Topics = (METADATA,), revisions: dict[int, int] | None = None, elected: int = 2, version: int = 2
) -> DescribeQuorumResponse:
    gateway = FakeGateway(Cluster(controllers=(1, 2, 3), elected=elected))
    gateway.clock = StoppedClock()  # type: ignore[assignment]
    gateway.revisions = {1: 7, 2: 7, 3: 7} if revisions is None else revisions
    request = DescribeQuorumRequest([RequestTopicData(name, [RequestPartitionData(i) for i in parts]) for name, parts in topics])
    served = SERVED[ApiKey.DESCRIBE_QUORUM]
    response: DescribeQuorumResponse = await served.handle(gateway, context(version), request)
    assert served.written(version, 1, response)
    return response


def partition(response: DescribeQuorumResponse) -> ResponsePartitionData:
    ((described,),) = [topic.partitions for topic in response.topics]
    return described


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_the_elected_controller_leads_and_all_controllers_vote(version: int) -> None:
    response = await ask(version=version)
    described = partition(response)
    assert (response.error_code, described.error_code, described.partition_index) == (0, 0, 0)
    assert (described.leader_id, described.leader_epoch, described.high_watermark) == (2, IMAGE_REVISION, IMAGE_REVISION)
    assert [(voter.replica_id, voter.log_end_offset) for voter in described.current_voters] == [(1, 7), (2, 7), (3, 7)]
    assert {voter.last_fetch_timestamp for voter in described.current_voters} == {NOW_MS}
    assert {voter.last_caught_up_timestamp for voter in described.current_voters} == {NOW_MS}
    assert described.observers == []
    assert [(node.node_id, node.listeners) for node in response.nodes] == [(1, []), (2, []), (3, [])]


async def test_a_standby_that_is_late_lags_and_one_that_is_silent_is_not_known() -> None:
    described = partition(await ask(revisions={1: 5, 2: 9}))
    assert described.high_watermark == 9  # newer than this gateway's image
    late, leader, silent = described.current_voters
    assert (late.log_end_offset, late.last_fetch_timestamp, late.last_caught_up_timestamp) == (5, NOW_MS, -1)
    assert (leader.log_end_offset, leader.last_fetch_timestamp, leader.last_caught_up_timestamp) == (9, NOW_MS, NOW_MS)
    assert (silent.log_end_offset, silent.last_fetch_timestamp, silent.last_caught_up_timestamp) == (-1, -1, -1)


async def test_no_follower_is_ahead_of_the_leader() -> None:
    described = partition(await ask(revisions={1: 8}))
    assert described.high_watermark == 8
    assert [voter.log_end_offset for voter in described.current_voters] == [8, 8, -1]


async def test_an_elected_controller_whose_membership_ended_is_a_voter() -> None:
    described = partition(await ask(elected=4))
    assert described.leader_id == 4
    assert [voter.replica_id for voter in described.current_voters] == [1, 2, 3, 4]


async def test_while_nobody_is_elected_clients_are_to_ask_again() -> None:
    response = await ask(elected=-1)
    assert (response.error_code, response.topics) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, [])


@pytest.mark.parametrize(
    "topics",
    [
        (("__cluster_metadata", (1,)),),
        (("__cluster_metadata", (0, 0)),),
        (("__cluster_metadata", (0, 1)),),
        (METADATA, ("lines", (0,))),
        (METADATA, METADATA),
        (("lines", (0,)),),
        (("__cluster_metadata", ()),),
        (),
    ],
)
async def test_a_request_for_anything_else_is_refused_for_each_partition(topics: Topics) -> None:
    response = await ask(topics)
    assert [(t.topic_name, tuple(p.partition_index for p in t.partitions)) for t in response.topics] == list(topics)
    errors = {p.error_code for topic in response.topics for p in topic.partitions}
    assert (response.error_code, errors - {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}, response.nodes) == (0, set(), [])
