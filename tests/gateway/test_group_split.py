"""Requests about several groups: split by shard, and answered in the order of the request."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages import consumer_group_describe, delete_groups, describe_groups, list_groups, offset_fetch
from libs.wire.primitives import Reader
from services.gateway.exchange.exchange import WrittenBody
from services.gateway.exchange.request_context import RequestContext
from services.gateway.groups import split
from services.gateway.handlers import consumer_group_describe as consumer_group_describe_handler
from services.gateway.handlers import delete_groups as delete_groups_handler
from services.gateway.handlers import describe_groups as describe_groups_handler
from services.gateway.handlers import list_groups as list_groups_handler
from services.gateway.handlers import offset_fetch as offset_fetch_handler
from services.gateway.peers import coordinator_request
from tests.gateway.conftest import Rig
from tests.gateway.fake_gateway import Cluster, FakeGateway, context
from tests.gateway.fake_groups import SHARDS, Groups, ask, request_body, response_body

NAMES = [f"group {number}" for number in range(12)] + ["group 3"]
"""Of several shards, and one of them twice."""
EACH_ONCE = list(dict.fromkeys(NAMES))


@pytest.fixture
def gateway() -> FakeGateway:
    return FakeGateway(Cluster(topics={"__consumer_offsets": (1, 2, 3, 1)}, owners={0: "1@1", 1: "2@1", 2: "1@1", 3: "2@1"}))


def test_the_names_are_of_all_shards(gateway: FakeGateway) -> None:
    assert {gateway.shards.of(name) for name in NAMES} == {0, 1, 2, 3}


@pytest.mark.parametrize("version", range(7))
async def test_groups_are_described_in_the_order_asked(gateway: FakeGateway, version: int) -> None:
    def on_shard(shard: int, body: bytes) -> tuple[int, bytes]:
        request = describe_groups.read_request(Reader(memoryview(body)), version)
        assert {gateway.shards.of(group) for group in request.groups} == {shard}
        assert request.include_authorized_operations == (version >= 3)
        described = [describe_groups.DescribedGroup(group_id=group, group_state=f"of {shard}") for group in request.groups]
        response = describe_groups.DescribeGroupsResponse(groups=described)
        return 0, response_body(ApiKey.DESCRIBE_GROUPS, version, response)

    gateway.on_shard = on_shard
    request = describe_groups.DescribeGroupsRequest(NAMES, include_authorized_operations=True)
    response = await describe_groups_handler.handle(gateway, context(version), request)
    assert [group.group_id for group in response.groups] == NAMES
    assert [group.group_state for group in response.groups] == [f"of {gateway.shards.of(name)}" for name in NAMES]
    assert len(gateway.requests) == 4


@pytest.mark.parametrize("version", range(2))
async def test_consumer_groups_are_described_in_the_order_asked(gateway: FakeGateway, version: int) -> None:
    def on_shard(shard: int, body: bytes) -> tuple[int, bytes]:
        request = consumer_group_describe.read_request(Reader(memoryview(body)), version)
        described = [consumer_group_describe.DescribedGroup(group_id=group, group_epoch=shard) for group in request.group_ids]
        response = consumer_group_describe.ConsumerGroupDescribeResponse(groups=described)
        return 0, response_body(ApiKey.CONSUMER_GROUP_DESCRIBE, version, response)

    gateway.on_shard = on_shard
    request = consumer_group_describe.ConsumerGroupDescribeRequest(NAMES)
    response = await consumer_group_describe_handler.handle(gateway, context(version), request)
    assert [(group.group_id, group.group_epoch) for group in response.groups] == [(n, gateway.shards.of(n)) for n in NAMES]


@pytest.mark.parametrize("version", range(3))
async def test_a_shard_that_cannot_be_asked_fails_for_its_own_groups_only(gateway: FakeGateway, version: int) -> None:
    def on_shard(shard: int, body: bytes) -> tuple[int, bytes]:
        if shard == 2:
            return ErrorCode.NOT_COORDINATOR, b""
        request = delete_groups.read_request(Reader(memoryview(body)), version)
        results = [delete_groups.DeletableGroupResult(group, 69) for group in dict.fromkeys(request.groups_names)]
        return 0, response_body(ApiKey.DELETE_GROUPS, version, delete_groups.DeleteGroupsResponse(results=results))

    gateway.on_shard = on_shard
    response = await delete_groups_handler.handle(gateway, context(version), delete_groups.DeleteGroupsRequest(NAMES))
    expected = [(name, ErrorCode.NOT_COORDINATOR if gateway.shards.of(name) == 2 else 69) for name in EACH_ONCE]
    assert [(result.group_id, result.error_code) for result in response.results] == expected


@pytest.mark.parametrize("version", [8, 9, 10])
async def test_offsets_of_several_groups_are_fetched_in_the_order_asked(gateway: FakeGateway, version: int) -> None:
    def on_shard(shard: int, body: bytes) -> tuple[int, bytes]:
        request = offset_fetch.read_request(Reader(memoryview(body)), version)
        assert request.require_stable
        if shard == 1:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, b""
        fetched = [offset_fetch.OffsetFetchResponseGroup(group.group_id) for group in request.groups]
        return 0, response_body(ApiKey.OFFSET_FETCH, version, offset_fetch.OffsetFetchResponse(groups=fetched))

    gateway.on_shard = on_shard
    groups = [offset_fetch.OffsetFetchRequestGroup(name, None, -1, None) for name in NAMES]
    request = offset_fetch.OffsetFetchRequest(groups, require_stable=True)
    response = await offset_fetch_handler.handle(gateway, context(version), request)
    # Consumers before 3.9 take COORDINATOR_NOT_AVAILABLE as fatal here.
    expected = [(name, ErrorCode.NOT_COORDINATOR if gateway.shards.of(name) == 1 else 0) for name in NAMES]
    assert [(group.group_id, group.error_code) for group in response.groups] == expected


@pytest.mark.parametrize("said", [b"", b"\0\0\0\0\0\0\0\0", b"\xff" * 40], ids=repr)
async def test_an_answer_that_is_none_is_unknown_trouble(gateway: FakeGateway, said: bytes) -> None:
    gateway.on_shard = lambda shard, body: (0, said)
    response = await delete_groups_handler.handle(gateway, context(0), delete_groups.DeleteGroupsRequest(NAMES))
    assert [(result.group_id, result.error_code) for result in response.results] == [(name, -1) for name in EACH_ONCE]


async def test_no_groups_are_nobodys(gateway: FakeGateway) -> None:
    assert (await describe_groups_handler.handle(gateway, context(0), describe_groups.DescribeGroupsRequest())).groups == []
    assert gateway.requests == []


# --- ListGroups -------------------------------------------------------------------------------------------------------


def listed_by_shard(version: int) -> dict[int, bytes]:
    return {
        shard: response_body(
            ApiKey.LIST_GROUPS, version, list_groups.ListGroupsResponse(groups=[list_groups.ListedGroup(f"of {shard}")])
        )
        for shard in range(SHARDS)
    }


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize(("broker", "shards"), [(1, [0, 3]), (2, [1]), (3, [2]), (9, []), (-1, [0, 1, 2, 3])])
async def test_a_broker_lists_the_groups_of_its_shards_and_the_bootstrap_port_all(
    gateway: FakeGateway, version: int, broker: int, shards: list[int]
) -> None:
    listed = listed_by_shard(version)
    gateway.on_shard = lambda shard, body: (0, listed[shard])
    response = await list_groups_handler.handle(gateway, context(version, broker), list_groups.ListGroupsRequest())
    assert isinstance(response, WrittenBody)
    listing = list_groups.read_response(Reader(memoryview(response.body)), version)
    assert (listing.error_code, [group.group_id for group in listing.groups]) == (0, [f"of {shard}" for shard in shards])


async def test_filters_reach_every_shard(gateway: FakeGateway) -> None:
    listed = listed_by_shard(5)
    gateway.on_shard = lambda shard, body: (0, listed[shard])
    request = list_groups.ListGroupsRequest(["Stable"], ["consumer"])
    await list_groups_handler.handle(gateway, context(5), request)
    assert {body for _, _, body in gateway.requests} == {request_body(ApiKey.LIST_GROUPS, 5, request)}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
async def test_a_list_that_would_not_be_whole_is_none(gateway: FakeGateway, error: ErrorCode, expected: ErrorCode) -> None:
    listed = listed_by_shard(5)
    gateway.on_shard = lambda shard, body: (error, b"") if shard == 2 else (0, listed[shard])
    response = await list_groups_handler.handle(gateway, context(5), list_groups.ListGroupsRequest())
    assert isinstance(response, list_groups.ListGroupsResponse)
    assert (response.error_code, response.groups) == (expected, [])


class ShardsAnswerWhenTold(FakeGateway):
    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.answered = asyncio.Event()
        self.under_way = 0

    async def ask_coordinator(self, shard: int, api_key: int, body: bytes, context: RequestContext) -> tuple[int, bytes]:
        self.under_way += 1
        await self.answered.wait()
        return await super().ask_coordinator(shard, api_key, body, context)


async def turns() -> None:
    """Turns of the loop in which all that may go on goes on."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_listing_beyond_the_most_at_a_time_asks_no_shard_until_another_is_answered() -> None:
    gateway = ShardsAnswerWhenTold(Cluster(topics={"__consumer_offsets": (1, 2, 3, 1)}, owners={1: "2@1"}))
    gateway.listings = asyncio.Semaphore(2)
    listed = listed_by_shard(5)
    gateway.on_shard = lambda shard, body: (0, listed[shard])
    listings = [
        asyncio.create_task(list_groups_handler.handle(gateway, context(5, 2), list_groups.ListGroupsRequest())) for _ in range(5)
    ]
    await turns()
    assert gateway.under_way == 2
    listings[0].cancel()  # its client went away: the next one begins
    await turns()
    assert gateway.under_way == 3
    gateway.answered.set()
    answers = await asyncio.gather(*listings[1:])
    assert all(isinstance(answer, WrittenBody) for answer in answers)
    assert gateway.under_way == 5


async def test_a_listing_that_waits_too_long_for_others_is_told_to_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = ShardsAnswerWhenTold(Cluster(topics={"__consumer_offsets": (1, 2, 3, 1)}, owners={1: "2@1"}))
    monkeypatch.setattr(split, "LISTING_WAIT_S", 0.01)
    await gateway.listings.acquire()
    response = await list_groups_handler.handle(gateway, context(5, 2), list_groups.ListGroupsRequest())
    assert isinstance(response, list_groups.ListGroupsResponse)
    assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert gateway.under_way == 0


# --- by the wire ------------------------------------------------------------------------------------------------------


@pytest.fixture
async def groups(rig: Rig) -> AsyncIterator[Groups]:
    groups_rig = Groups(rig)
    yield groups_rig
    await groups_rig.stop()


async def test_several_groups_are_asked_of_their_owners(groups: Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_request, "TIMEOUT_S", 0.05)
    await groups.start(owners={0: 1, 1: 2, 2: 1, 3: 0})
    for coordinator in groups.coordinators.values():
        coordinator.error = ErrorCode.REQUEST_TIMED_OUT
    client = await groups.rig.client(1)
    response = await ask(client, ApiKey.DELETE_GROUPS, 2, delete_groups.DeleteGroupsRequest(NAMES))
    gateway = groups.rig.gateway
    assert gateway is not None
    timed_out, not_coordinator = ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_COORDINATOR
    expected = [(name, not_coordinator if gateway.shards.of(name) == 3 else timed_out) for name in EACH_ONCE]
    assert [(result.group_id, result.error_code) for result in response.results] == expected
    assert {heard_request.ask.shard for heard_request in groups.coordinators[1].heard} == {0, 2}
    assert {heard_request.ask.shard for heard_request in groups.coordinators[2].heard} == {1}
    assert groups.held_bytes == 0


async def test_one_group_is_relayed_as_it_is(groups: Groups) -> None:
    await groups.start()
    response = describe_groups.DescribeGroupsResponse(groups=[describe_groups.DescribedGroup(group_id="a")])
    groups.coordinators[1].answers[ApiKey.DESCRIBE_GROUPS] = response_body(ApiKey.DESCRIBE_GROUPS, 6, response)
    client = await groups.rig.client(1)
    assert await ask(client, ApiKey.DESCRIBE_GROUPS, 6, describe_groups.DescribeGroupsRequest(["a"])) == response
    groups.coordinators[1].error = ErrorCode.REQUEST_TIMED_OUT
    (refused,) = (await ask(client, ApiKey.DESCRIBE_GROUPS, 6, describe_groups.DescribeGroupsRequest(["a"]))).groups
    assert (refused.group_id, refused.error_code) == ("a", ErrorCode.REQUEST_TIMED_OUT)


async def test_the_groups_of_a_broker_are_listed_by_its_port(groups: Groups) -> None:
    await groups.start(owners={0: 1, 1: 2, 2: 1, 3: 2})
    for coordinator in groups.coordinators.values():
        coordinator.by_shard = listed_by_shard(5)
    for broker_id, shards in ((1, [0, 2]), (2, [1, 3]), (0, [0, 1, 2, 3])):
        client = await groups.rig.client(broker_id)
        response = await ask(client, ApiKey.LIST_GROUPS, 5, list_groups.ListGroupsRequest())
        assert [group.group_id for group in response.groups] == [f"of {shard}" for shard in shards]


@pytest.mark.parametrize("version", range(1, 11))
async def test_offsets_of_one_group_are_refused_in_every_version(groups: Groups, version: int) -> None:
    await groups.start()
    groups.coordinators[1].error = ErrorCode.REQUEST_TIMED_OUT
    client = await groups.rig.client(1)
    if version >= 8:
        request = offset_fetch.OffsetFetchRequest([offset_fetch.OffsetFetchRequestGroup("a")])
        (group,) = (await ask(client, ApiKey.OFFSET_FETCH, version, request)).groups
        assert (group.group_id, group.error_code) == ("a", ErrorCode.REQUEST_TIMED_OUT)
        return
    topics = [offset_fetch.OffsetFetchRequestTopic("lines", [1])]
    response = await ask(client, ApiKey.OFFSET_FETCH, version, offset_fetch.OffsetFetchRequest(group_id="a", topics=topics))
    if version >= 2:
        assert (response.error_code, response.topics) == (ErrorCode.REQUEST_TIMED_OUT, [])
    else:
        ((partition,),) = [topic.partitions for topic in response.topics]
        assert (partition.committed_offset, partition.error_code) == (-1, ErrorCode.REQUEST_TIMED_OUT)
