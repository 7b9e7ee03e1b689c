"""The relay of requests about one group to the owner of its shard, and of the answers back, unchanged."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from libs.cluster import keys
from libs.cluster.records import GROUP_COORDINATOR, Topic
from libs.cluster.shard_owners import Owner
from libs.cluster.store import Delete
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS, GROUP_ELEMENTS_MAX, GROUPS_MAX
from libs.wire.errors import ErrorCode
from libs.wire.messages import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from services.gateway.groups.relay import java_address
from services.gateway.peers import coordinator_request, coordinators
from services.gateway.peers.delayed_requests import RETRY_S
from tests.gateway.conftest import Rig
from tests.gateway.fake_coordinator import heard
from tests.gateway.fake_groups import Groups, answer, answered, ask, request_body, response_body, send
from tests.gateway.kafka_client import RawClient
from tests.support.polling import until

GROUP = "some group"

SINGLE = {
    ApiKey.JOIN_GROUP: (
        join_group.JoinGroupRequest(GROUP, protocol_type="consumer"),
        join_group.JoinGroupResponse(protocol_name="range", member_id="m"),
    ),
    ApiKey.SYNC_GROUP: (sync_group.SyncGroupRequest(GROUP, 3, "m"), sync_group.SyncGroupResponse(assignment=b"all of it")),
    ApiKey.HEARTBEAT: (heartbeat.HeartbeatRequest(GROUP, 3, "m"), heartbeat.HeartbeatResponse(error_code=27)),
    ApiKey.LEAVE_GROUP: (leave_group.LeaveGroupRequest(GROUP, member_id="m"), leave_group.LeaveGroupResponse(error_code=25)),
    ApiKey.OFFSET_COMMIT: (
        offset_commit.OffsetCommitRequest(GROUP, 3, "m"),
        offset_commit.OffsetCommitResponse(),
    ),
    ApiKey.OFFSET_DELETE: (offset_delete.OffsetDeleteRequest(GROUP), offset_delete.OffsetDeleteResponse(error_code=69)),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (
        consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(GROUP, "m"),
        consumer_group_heartbeat.ConsumerGroupHeartbeatResponse(error_code=110, member_id="m"),
    ),
}

VERSIONS = [(key, version) for key in SINGLE for version in range(APIS[key].min_version, APIS[key].max_version + 1)]


@pytest.fixture
async def groups(rig: Rig) -> AsyncIterator[Groups]:
    groups_rig = Groups(rig)
    yield groups_rig
    await groups_rig.stop()


def join(group_id: str = GROUP, padding: int = 0) -> bytes:
    request = join_group.JoinGroupRequest(group_id, 10_000, 60_000, protocol_type="consumer")
    request.protocols = [join_group.JoinGroupRequestProtocol("range", b"x" * padding)]
    return request_body(ApiKey.JOIN_GROUP, 5, request)


def beat() -> bytes:
    return request_body(ApiKey.HEARTBEAT, 3, heartbeat.HeartbeatRequest(GROUP, 3, "m"))


def commit() -> bytes:
    topic = offset_commit.OffsetCommitRequestTopic(name="lines", partitions=[offset_commit.OffsetCommitRequestPartition(1, 7)])
    return request_body(ApiKey.OFFSET_COMMIT, 7, offset_commit.OffsetCommitRequest(GROUP, 3, "m", topics=[topic]))


async def commit_error(client: RawClient) -> int:
    response = await answered(client, ApiKey.OFFSET_COMMIT, 7)
    ((error,),) = [[partition.error_code for partition in topic.partitions] for topic in response.topics]
    return int(error)


# --- as it is ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", SINGLE)
async def test_request_and_answer_travel_as_they_are_in_every_version(groups: Groups, key: ApiKey) -> None:
    await groups.start()
    client, coordinator = await groups.rig.client(1), groups.coordinators[1]
    request, response = SINGLE[key]
    gateway = groups.rig.gateway
    assert gateway is not None
    for version in range(APIS[key].min_version, APIS[key].max_version + 1):
        body, expected = request_body(key, version, request), response_body(key, version, response)
        coordinator.answers[key] = expected
        send(client, key, version, body)
        assert await answer(client, key, version) == expected
        heard_last = coordinator.heard[-1]
        assert heard_last.body == body
        assert (heard_last.ask.api_key, heard_last.ask.api_version) == (key, version)
        assert heard_last.ask.shard == gateway.shards.of(GROUP)
        assert (heard_last.ask.client_id, heard_last.ask.client_host) == ("some-client", "/127.0.0.1")
    assert groups.held_bytes == 0


async def test_each_request_names_the_revision_at_which_the_topics_last_changed(groups: Groups) -> None:
    await groups.start()
    client, coordinator, rig = await groups.rig.client(1), groups.coordinators[1], groups.rig
    gateway = rig.gateway
    assert gateway is not None
    for name in ("first", "second"):
        await rig.put(keys.topic(name), Topic(name, name.encode().ljust(16, b".").hex(), 1))
        changed = rig.store.keyspace.revision
        await groups.own_all(1)  # an image without a change of topics
        assert await gateway.wait_for_revision(rig.store.keyspace.revision, 10)
        send(client, ApiKey.HEARTBEAT, 3, beat())
        await answer(client, ApiKey.HEARTBEAT, 3)
        assert coordinator.heard[-1].ask.topics_revision == changed


async def test_each_shard_has_its_own_owner(groups: Groups) -> None:
    await groups.start(owners={0: 1, 1: 2, 2: 1, 3: 2})
    gateway = groups.rig.gateway
    assert gateway is not None
    client = await groups.rig.client()
    for number in range(20):
        group_id = f"group {number}"
        send(client, ApiKey.HEARTBEAT, 3, request_body(ApiKey.HEARTBEAT, 3, heartbeat.HeartbeatRequest(group_id)))
        await answer(client, ApiKey.HEARTBEAT, 3)
        owner = 1 + gateway.shards.of(group_id) % 2
        assert groups.coordinators[owner].heard[-1].ask.shard == gateway.shards.of(group_id)


@pytest.mark.parametrize(
    ("host", "as_java_writes_it"),
    [
        ("tcp:10.0.0.1", "/10.0.0.1"),
        ("10.0.0.1", "/10.0.0.1"),
        ("tcp:[::1]", "/0:0:0:0:0:0:0:1"),
        ("::ffff:10.0.0.1", "/10.0.0.1"),
        ("somewhere", "/somewhere"),
    ],
)
def test_client_hosts_are_written_as_java_does(host: str, as_java_writes_it: str) -> None:
    assert java_address(host) == as_java_writes_it


# --- hostile ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"", b"\x00", b"\x00\x09short", b"\xff\xff", b"\x00\x02\xff\xfe"], ids=repr)
async def test_a_group_id_that_is_none_closes_the_connection(groups: Groups, body: bytes) -> None:
    await groups.start()
    client = await groups.rig.client(1)
    send(client, ApiKey.JOIN_GROUP, 5, body)
    assert await client.ended()
    assert groups.rig.closed("malformed") == 1
    assert groups.coordinators[1].heard == []


@pytest.mark.parametrize("body", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff\x00\x01a", b"\x00\x00\x00\x01\x00\x05a"], ids=repr)
async def test_an_array_of_groups_that_is_none_closes_the_connection(groups: Groups, body: bytes) -> None:
    await groups.start()
    client = await groups.rig.client(1)
    send(client, ApiKey.DESCRIBE_GROUPS, 4, body)
    assert await client.ended()
    assert groups.coordinators[1].heard == []


def naming(key: ApiKey, count: int) -> tuple[int, bytes]:
    """A request about so many groups, and its version."""
    names = [f"{number:05}" for number in range(count)]
    version, request = {
        ApiKey.DESCRIBE_GROUPS: (4, describe_groups.DescribeGroupsRequest(names)),
        ApiKey.DELETE_GROUPS: (1, delete_groups.DeleteGroupsRequest(names)),
        ApiKey.CONSUMER_GROUP_DESCRIBE: (1, consumer_group_describe.ConsumerGroupDescribeRequest(names)),
        ApiKey.OFFSET_FETCH: (8, offset_fetch.OffsetFetchRequest([offset_fetch.OffsetFetchRequestGroup(n) for n in names])),
        ApiKey.FIND_COORDINATOR: (4, find_coordinator.FindCoordinatorRequest(coordinator_keys=names)),
    }[key]
    return version, request_body(key, version, request)


NAME_SEVERAL = [
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.DELETE_GROUPS,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR,
]


@pytest.mark.parametrize("key", NAME_SEVERAL)
async def test_countless_groups_close_the_connection_before_they_are_read(groups: Groups, key: ApiKey) -> None:
    """Regression: splitting so many groups delayed all other clients for seconds."""
    await groups.start()
    client = await groups.rig.client(1)
    send(client, key, *naming(key, GROUPS_MAX + 1))
    assert await client.ended()
    assert groups.rig.closed("malformed") == 1
    assert groups.coordinators[1].heard == []


@pytest.mark.parametrize("key", NAME_SEVERAL)
async def test_as_many_groups_as_may_be_are_answered(groups: Groups, key: ApiKey) -> None:
    await groups.start()
    groups.coordinators[1].error = ErrorCode.UNKNOWN_SERVER_ERROR
    client = await groups.rig.client(1)
    version, body = naming(key, GROUPS_MAX)
    send(client, key, version, body)
    assert len(await answer(client, key, version)) > GROUPS_MAX


def one_group_of(partitions: int) -> bytes:
    topic = offset_fetch.OffsetFetchRequestTopics(name="t", partition_indexes=[0] * partitions)
    request = offset_fetch.OffsetFetchRequest([offset_fetch.OffsetFetchRequestGroup(GROUP, topics=[topic])])
    return request_body(ApiKey.OFFSET_FETCH, 8, request)


@pytest.mark.parametrize("surplus", [0, 1])
async def test_countless_elements_are_not_read_either_where_nobody_answers(groups: Groups, surplus: int) -> None:
    await groups.start()
    groups.coordinators[1].error = ErrorCode.UNKNOWN_SERVER_ERROR
    client = await groups.rig.client(1)
    send(client, ApiKey.OFFSET_FETCH, 8, one_group_of(GROUP_ELEMENTS_MAX - 2 + surplus))
    if surplus:
        assert await client.ended()
    else:
        assert (await answered(client, ApiKey.OFFSET_FETCH, 8)).groups[0].error_code == -1
    assert groups.rig.closed("malformed") == surplus


async def test_a_request_that_the_coordinator_cannot_read_closes_the_connection(groups: Groups) -> None:
    await groups.start()
    groups.coordinators[1].error = ErrorCode.INVALID_REQUEST
    client = await groups.rig.client(1)
    send(client, ApiKey.JOIN_GROUP, 5, join()[:-1])
    assert await client.ended()
    assert groups.rig.closed("malformed") == 1


async def test_a_request_that_cannot_be_refused_closes_the_connection(groups: Groups) -> None:
    await groups.start()
    groups.coordinators[1].error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    client = await groups.rig.client(1)
    send(client, ApiKey.JOIN_GROUP, 5, join() + b"more")
    assert await client.ended()
    assert groups.rig.closed("malformed") == 1


async def test_an_empty_group_id_is_the_coordinators_to_refuse(groups: Groups) -> None:
    await groups.start()
    expected = response_body(
        ApiKey.JOIN_GROUP, 5, join_group.JoinGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID, protocol_name="")
    )
    groups.coordinators[1].answers[ApiKey.JOIN_GROUP] = expected
    client = await groups.rig.client(1)
    send(client, ApiKey.JOIN_GROUP, 5, join(""))
    assert await answer(client, ApiKey.JOIN_GROUP, 5) == expected


async def test_a_coordinator_that_speaks_nonsense_is_unknown_trouble(groups: Groups) -> None:
    await groups.start()
    groups.coordinators[1].error = "no number"  # type: ignore[assignment]
    client = await groups.rig.client(1)
    assert (await ask(client, ApiKey.HEARTBEAT, 3, heartbeat.HeartbeatRequest(GROUP))).error_code == -1


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "version"), VERSIONS)
async def test_an_error_of_the_coordinator_reaches_clients_of_every_version(groups: Groups, key: ApiKey, version: int) -> None:
    await groups.start()
    groups.coordinators[1].error = ErrorCode.REQUEST_TIMED_OUT
    client = await groups.rig.client(1)
    request = SINGLE[key][0]
    if isinstance(request, offset_commit.OffsetCommitRequest):
        send(client, key, 7, commit())
        assert await commit_error(client) == ErrorCode.REQUEST_TIMED_OUT
        return
    assert (await ask(client, key, version, request)).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert len(groups.coordinators[1].heard) == 1


async def test_a_heartbeat_succeeds_while_its_group_is_loaded(groups: Groups) -> None:
    await groups.start()
    groups.coordinators[1].error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    client = await groups.rig.client(1)
    assert (await ask(client, ApiKey.HEARTBEAT, 3, heartbeat.HeartbeatRequest(GROUP))).error_code == 0


async def test_without_the_topic_nobody_is_waited_for(rig: Rig) -> None:
    gateway = await rig.start()
    result = await rig.store.txn([], [Delete(keys.topic("__consumer_offsets"))])
    assert await gateway.wait_for_revision(result.revision, 10)
    client = await rig.client(1)
    response = await ask(client, ApiKey.HEARTBEAT, 3, heartbeat.HeartbeatRequest(GROUP))
    assert response.error_code == ErrorCode.NOT_COORDINATOR
    response = await ask(client, ApiKey.HEARTBEAT, 3, heartbeat.HeartbeatRequest(""))
    assert response.error_code == ErrorCode.INVALID_GROUP_ID


# --- owners come and go -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
async def test_a_request_that_was_refused_without_effect_goes_to_the_next_owner(groups: Groups, error: ErrorCode) -> None:
    await groups.start()
    groups.coordinators[1].error = error
    client = await groups.rig.client(1)
    send(client, ApiKey.OFFSET_COMMIT, 7, commit())
    await heard(groups.coordinators[1], 1)
    groups.coordinators[2].answers[ApiKey.OFFSET_COMMIT] = response_body(
        ApiKey.OFFSET_COMMIT,
        7,
        offset_commit.OffsetCommitResponse(
            topics=[offset_commit.OffsetCommitResponseTopic(partitions=[offset_commit.OffsetCommitResponsePartition(1, 0)])]
        ),
    )
    await groups.own_all(2)
    assert await commit_error(client) == 0
    assert [heard_request.body for heard_request in groups.coordinators[2].heard] == [commit()]


async def test_a_shard_that_nobody_owns_is_waited_for(groups: Groups) -> None:
    await groups.start()
    await groups.own_all(0)
    await groups.settled()
    client = await groups.rig.client(1)
    send(client, ApiKey.JOIN_GROUP, 5, join())
    await groups.waiting(1)
    assert groups.coordinators[1].heard == []
    expected = response_body(ApiKey.JOIN_GROUP, 5, join_group.JoinGroupResponse(protocol_name="range", member_id="m"))
    groups.coordinators[2].answers[ApiKey.JOIN_GROUP] = expected
    await groups.own_all(2)
    assert await answer(client, ApiKey.JOIN_GROUP, 5) == expected


async def test_an_owner_that_restarts_is_waited_for_until_it_owns_the_shard_again(groups: Groups) -> None:
    await groups.start()
    coordinator = groups.coordinators[1]
    await coordinator.restart()
    await groups.register(coordinator)
    await groups.settled()
    client = await groups.rig.client(1)
    send(client, ApiKey.HEARTBEAT, 3, beat())
    await groups.waiting(1)
    assert coordinator.heard == []
    expected = coordinator.answers[ApiKey.HEARTBEAT] = response_body(ApiKey.HEARTBEAT, 3, heartbeat.HeartbeatResponse())
    await groups.own_all(1)
    assert await answer(client, ApiKey.HEARTBEAT, 3) == expected


async def test_one_that_is_shutting_down_did_not_look_at_it(groups: Groups) -> None:
    await groups.start()
    groups.coordinators[1].begin_to_stop()
    client = await groups.rig.client(1)
    send(client, ApiKey.JOIN_GROUP, 5, join())
    await groups.waiting(1)
    expected = response_body(ApiKey.JOIN_GROUP, 5, join_group.JoinGroupResponse(protocol_name="range", member_id="m"))
    groups.coordinators[2].answers[ApiKey.JOIN_GROUP] = expected
    await groups.own_all(2)
    assert await answer(client, ApiKey.JOIN_GROUP, 5) == expected


async def test_heartbeats_wait_less_long_for_an_owner_than_other_requests(
    groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator_request, "HEARTBEAT_TIMEOUT_S", 0.05)
    monkeypatch.setattr(coordinator_request, "TIMEOUT_S", 3600)
    await groups.start()
    await groups.own_all(0)
    await groups.settled()
    client, other = await groups.rig.client(1), await groups.rig.client(1)
    send(other, ApiKey.OFFSET_COMMIT, 7, commit())
    await groups.waiting(1)
    for key, version in ((ApiKey.HEARTBEAT, 3), (ApiKey.CONSUMER_GROUP_HEARTBEAT, 0)):
        send(client, key, version, request_body(key, version, SINGLE[key][0]))
        assert (await answered(client, key, version)).error_code == ErrorCode.NOT_COORDINATOR
    await groups.waiting(1)


def test_a_heartbeat_behind_a_commit_is_answered_before_librdkafka_gives_it_up() -> None:
    assert coordinator_request.TIMEOUT_S + coordinator_request.HEARTBEAT_TIMEOUT_S < 5.0
    assert coordinator_request.TIMEOUT_S + coordinator_request.HEARTBEAT_TIMEOUT_S + 2 * RETRY_S <= 5.0, (
        "either may be noticed so much later"
    )


async def test_the_wait_for_an_owner_ends(groups: Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_request, "TIMEOUT_S", 0.05)
    await groups.start()
    await groups.own_all(0)
    await groups.settled()
    client = await groups.rig.client(1)
    send(client, ApiKey.OFFSET_COMMIT, 7, commit())
    assert await commit_error(client) == ErrorCode.NOT_COORDINATOR
    await groups.own_all(1)
    await groups.settled()
    groups.coordinators[1].error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    send(client, ApiKey.OFFSET_COMMIT, 7, commit())
    assert await commit_error(client) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert groups.held_bytes == 0


@pytest.mark.parametrize("key", [ApiKey.JOIN_GROUP, ApiKey.OFFSET_COMMIT])
async def test_a_request_that_was_sent_and_not_answered_is_not_sent_again(groups: Groups, key: ApiKey) -> None:
    await groups.start()
    coordinator = groups.coordinators[1]
    coordinator.holding = True
    client = await groups.rig.client(1)
    if key == ApiKey.JOIN_GROUP:
        send(client, key, 5, join())
    else:
        send(client, key, 7, commit())
    await heard(coordinator, 1)
    await coordinator.restart()
    await groups.register(coordinator)
    await groups.own_all(1)
    if key == ApiKey.JOIN_GROUP:
        assert (await answered(client, key, 5)).error_code == ErrorCode.NOT_COORDINATOR
    else:
        assert await commit_error(client) == ErrorCode.NOT_COORDINATOR
    assert len(coordinator.heard) == 1


async def test_reads_that_were_not_answered_are_asked_again(groups: Groups) -> None:
    await groups.start()
    coordinator = groups.coordinators[1]
    coordinator.holding = True
    client = await groups.rig.client(1)
    request = offset_fetch.OffsetFetchRequest([offset_fetch.OffsetFetchRequestGroup(GROUP)])
    send(client, ApiKey.OFFSET_FETCH, 8, request_body(ApiKey.OFFSET_FETCH, 8, request))
    await heard(coordinator, 1)
    response = offset_fetch.OffsetFetchResponse(groups=[offset_fetch.OffsetFetchResponseGroup(GROUP)])
    expected = coordinator.answers[ApiKey.OFFSET_FETCH] = response_body(ApiKey.OFFSET_FETCH, 8, response)
    await coordinator.restart()
    await groups.register(coordinator)
    await groups.own_all(1)
    assert await answer(client, ApiKey.OFFSET_FETCH, 8) == expected
    assert len(coordinator.heard) == 2


async def test_a_parked_join_ends_when_its_shard_moves_and_the_former_owner_is_silent(
    groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator_request, "FORMER_OWNER_TIMEOUT_S", 0.05)
    await groups.start()
    groups.coordinators[1].holding = True
    client = await groups.rig.client(1)
    send(client, ApiKey.JOIN_GROUP, 5, join())
    await heard(groups.coordinators[1], 1)
    await groups.own_all(2)
    assert (await answered(client, ApiKey.JOIN_GROUP, 5)).error_code == ErrorCode.NOT_COORDINATOR
    await until(lambda: groups.coordinators[1].cancelled == [join()])
    assert groups.coordinators[2].heard == []


async def test_a_former_owner_has_the_last_word(groups: Groups) -> None:
    await groups.start()
    coordinator = groups.coordinators[1]
    coordinator.holding = True
    client = await groups.rig.client(1)
    send(client, ApiKey.JOIN_GROUP, 5, join())
    await heard(coordinator, 1)
    await groups.own_all(2)
    await groups.settled()
    expected = coordinator.answers[ApiKey.JOIN_GROUP] = response_body(
        ApiKey.JOIN_GROUP, 5, join_group.JoinGroupResponse(protocol_name="range", member_id="m")
    )
    coordinator.release()
    assert await answer(client, ApiKey.JOIN_GROUP, 5) == expected


async def test_a_read_at_a_former_owner_goes_to_the_new_one_at_once(groups: Groups) -> None:
    await groups.start()
    groups.coordinators[1].holding = True
    expected = groups.coordinators[2].answers[ApiKey.HEARTBEAT] = response_body(
        ApiKey.HEARTBEAT, 3, heartbeat.HeartbeatResponse()
    )
    client = await groups.rig.client(1)
    send(client, ApiKey.HEARTBEAT, 3, beat())
    await heard(groups.coordinators[1], 1)
    await groups.own_all(2)
    assert await answer(client, ApiKey.HEARTBEAT, 3) == expected


async def test_a_lost_lease_is_not_a_death(groups: Groups) -> None:
    await groups.start()
    result = await groups.rig.store.txn([], [Delete(keys.member(GROUP_COORDINATOR, 1))])
    assert groups.rig.gateway is not None
    assert await groups.rig.gateway.wait_for_revision(result.revision, 10)
    groups.coordinators[1].answers[ApiKey.HEARTBEAT] = response_body(ApiKey.HEARTBEAT, 3, heartbeat.HeartbeatResponse())
    client = await groups.rig.client(1)
    assert (await ask(client, ApiKey.HEARTBEAT, 3, heartbeat.HeartbeatRequest(GROUP))).error_code == 0


async def test_an_owner_of_another_life_is_not_asked(groups: Groups) -> None:
    await groups.start()
    gateway = groups.rig.gateway
    assert gateway is not None
    assert gateway.shards.owner(0) == Owner(1, 1)
    groups.coordinators[1].incarnation = 7
    await groups.own(0, 1)
    await groups.settled()
    assert gateway.data_path.coordinators.owner(0) is None


# --- those who wait ---------------------------------------------------------------------------------------------------


async def test_a_join_ends_when_its_client_hangs_up(groups: Groups) -> None:
    await groups.start()
    groups.coordinators[1].holding = True
    client = await groups.rig.client(1)
    send(client, ApiKey.JOIN_GROUP, 5, join())
    await heard(groups.coordinators[1], 1)
    await client.close()
    await until(lambda: groups.coordinators[1].cancelled == [join()])
    assert groups.held_bytes == 0


async def test_a_client_that_hangs_up_behind_its_join_has_left_the_group(groups: Groups) -> None:
    """librdkafka closes like this while its join waits: it sends LeaveGroup behind the join, and does not wait for its answer."""
    await groups.start()
    groups.coordinators[1].holding = True
    client = await groups.rig.client(1)
    send(client, ApiKey.JOIN_GROUP, 5, join())
    leaving = request_body(ApiKey.LEAVE_GROUP, 4, leave_group.LeaveGroupRequest(GROUP, members=[leave_group.MemberIdentity("m")]))
    send(client, ApiKey.HEARTBEAT, 3, beat())
    send(client, ApiKey.LEAVE_GROUP, 4, leaving)
    await heard(groups.coordinators[1], 1)
    await client.close()
    await until(lambda: groups.coordinators[1].cancelled == [join()])
    await heard(groups.coordinators[1], 2)
    assert groups.coordinators[1].heard[-1].body == leaving
    groups.coordinators[1].release(1)
    await until(lambda: groups.held_bytes == 0)


async def test_a_parked_join_holds_its_own_connection_only(groups: Groups) -> None:
    await groups.start()
    groups.coordinators[1].holding = True
    client, other = await groups.rig.client(1), await groups.rig.client(1)
    send(client, ApiKey.JOIN_GROUP, 5, join())
    send(client, ApiKey.HEARTBEAT, 3, beat())
    await heard(groups.coordinators[1], 1)
    groups.coordinators[1].holding = False
    expected = groups.coordinators[1].answers[ApiKey.HEARTBEAT] = response_body(
        ApiKey.HEARTBEAT, 3, heartbeat.HeartbeatResponse()
    )
    send(other, ApiKey.HEARTBEAT, 3, beat())
    assert await answer(other, ApiKey.HEARTBEAT, 3) == expected
    assert len(groups.coordinators[1].heard) == 2
    groups.coordinators[1].release()
    await answer(client, ApiKey.JOIN_GROUP, 5)
    assert await answer(client, ApiKey.HEARTBEAT, 3) == expected


async def test_parked_joins_leave_room_for_others(groups: Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinators, "PARKED_BYTES_MAX", 20_000)
    await groups.start()
    coordinator = groups.coordinators[1]
    coordinator.holding = True
    parked, late, other = await groups.rig.client(1), await groups.rig.client(1), await groups.rig.client(1)
    send(parked, ApiKey.JOIN_GROUP, 5, join(padding=15_000))
    await heard(coordinator, 1)
    send(late, ApiKey.JOIN_GROUP, 5, join(padding=15_000))
    assert (await answered(late, ApiKey.JOIN_GROUP, 5)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    coordinator.holding = False
    expected = coordinator.answers[ApiKey.HEARTBEAT] = response_body(ApiKey.HEARTBEAT, 3, heartbeat.HeartbeatResponse())
    send(other, ApiKey.HEARTBEAT, 3, beat())
    assert await answer(other, ApiKey.HEARTBEAT, 3) == expected
    coordinator.answers[ApiKey.JOIN_GROUP] = response_body(
        ApiKey.JOIN_GROUP, 5, join_group.JoinGroupResponse(protocol_name="range", member_id="m")
    )
    coordinator.release()
    assert (await answered(parked, ApiKey.JOIN_GROUP, 5)).member_id == "m"
    assert groups.held_bytes == 0


async def test_a_join_of_90_mb_is_refused_and_harms_nobody_else(groups: Groups) -> None:
    await groups.start()
    client, other = await groups.rig.client(1), await groups.rig.client(1)
    send(client, ApiKey.JOIN_GROUP, 5, join(padding=90 << 20))
    assert (await answered(client, ApiKey.JOIN_GROUP, 5)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert groups.coordinators[1].heard == []
    assert groups.held_bytes == 0
    expected = groups.coordinators[1].answers[ApiKey.HEARTBEAT] = response_body(
        ApiKey.HEARTBEAT, 3, heartbeat.HeartbeatResponse()
    )
    for each in (client, other):
        send(each, ApiKey.HEARTBEAT, 3, beat())
        assert await answer(each, ApiKey.HEARTBEAT, 3) == expected


async def test_a_gateway_that_ends_sends_waiting_clients_elsewhere(groups: Groups) -> None:
    await groups.start()
    groups.coordinators[1].holding = True
    client = await groups.rig.client(1)
    send(client, ApiKey.JOIN_GROUP, 5, join())
    await heard(groups.coordinators[1], 1)
    gateway = groups.rig.gateway
    assert gateway is not None
    stopping = asyncio.create_task(gateway.stop())
    assert (await answered(client, ApiKey.JOIN_GROUP, 5)).error_code == ErrorCode.NOT_COORDINATOR
    await stopping
    groups.rig.gateway = None


async def test_a_silent_client_that_waits_is_not_idle(groups: Groups) -> None:
    await groups.start(idle_s_max=0.1)
    groups.coordinators[1].holding = True
    client, idle = await groups.rig.client(1), await groups.rig.client(1)
    send(client, ApiKey.JOIN_GROUP, 5, join())
    await heard(groups.coordinators[1], 1)
    assert await idle.ended()  # the sweep has checked both
    groups.coordinators[1].release()
    await answer(client, ApiKey.JOIN_GROUP, 5)
