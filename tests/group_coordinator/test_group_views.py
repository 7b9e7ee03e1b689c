"""The views of groups for operators: on the admin port as JSON, and as metrics."""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import ConfigOverrides, PartitionState, Replica
from libs.cluster.shard_owners import Owner
from libs.coordinator.core.shard_hashing import shard_of
from libs.coordinator.core.tables import Journal
from libs.coordinator.requests import client_requests
from libs.rpc.client.rpc_client import RpcClient
from libs.runtime.admin import NotShown
from libs.telemetry.tracing.span import SpanContext
from libs.wire.consumer_protocol import ConsumerProtocolAssignment, TopicPartition, write_assignment
from libs.wire.errors import ErrorCode
from libs.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from libs.wire.messages.delete_groups import DeleteGroupsRequest
from libs.wire.messages.heartbeat import HeartbeatRequest
from libs.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from libs.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from libs.wire.messages.list_groups import ListGroupsRequest
from libs.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from libs.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from services.group_coordinator.config import GroupCoordinatorConfig
from services.group_coordinator.coordinator import GroupCoordinator, group_machine
from services.group_coordinator.core.consumer.group import Group
from services.group_coordinator.core.consumer.group_decision import revocation_key, session_key
from services.group_coordinator.core.consumer.member import Member
from services.group_coordinator.core.group_machine import GroupMachine
from services.group_coordinator.core.model.records import ClassicMemberMetadata, MemberState
from services.group_coordinator.core.model.requests import RequestEvent
from services.group_coordinator.core.model.topics_view import TopicsView
from services.group_coordinator.gauges import GroupGauges
from services.group_coordinator.introspection.consumer_view import details
from services.group_coordinator.introspection.lag_metrics import LagMetrics
from tests.group_coordinator.processes import TOPIC, Coordinator, ask, said, start_request
from tests.storage.cluster import NODE_ID, StorageCluster, batch
from tests.support.polling import until

SHARDS = 2
Begin = Callable[..., Awaitable[Coordinator]]


@pytest.fixture
async def owner(node: StorageCluster, begin: Begin) -> Coordinator:
    """An owner of all shards with groups. Rebalances have no initial delay."""
    await node.write(keys.config("broker", ""), encode(ConfigOverrides({"group.initial.rebalance.delay.ms": "0"})))
    topic = await node.topic(TOPIC, partitions=SHARDS, cleanup_policy="compact")
    data = await node.topic("t")
    for _ in range(5):
        await node.append(data, batch(b"x"))
    coordinator = await begin(make=group_machine)
    for index in range(SHARDS):
        await node.give(topic, index, coordinator.owner, 1)
    await coordinator.serves(*range(SHARDS))
    return coordinator


@pytest.fixture
def service(owner: Coordinator) -> GroupCoordinator:
    assert owner.service is not None
    return owner.service


async def joined(client: RpcClient, group: str, member_id: str = "", kind: str = "consumer") -> JoinGroupResponse:
    """Joins, also if a member id has to be fetched first."""
    request = JoinGroupRequest(
        group, 10_000, 10_000, member_id, protocol_type=kind, protocols=[JoinGroupRequestProtocol("range", b"")]
    )
    answer = await ask(client, shard_of(group, SHARDS), request)
    assert isinstance(answer, JoinGroupResponse)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        return await joined(client, group, answer.member_id, kind)
    assert answer.error_code == 0
    return answer


async def stable(client: RpcClient, group: str, kind: str = "consumer") -> str:
    """The only member of it, with t-0 to read."""
    answer = await joined(client, group, kind=kind)
    assigned = write_assignment(ConsumerProtocolAssignment((TopicPartition("t", (0,)),)))
    assignment = SyncGroupRequestAssignment(answer.member_id, assigned)
    request = SyncGroupRequest(group, answer.generation_id, answer.member_id, None, kind, "range", [assignment])
    assert (await ask(client, shard_of(group, SHARDS), request)).error_code == 0
    return answer.member_id


async def stable_consumer(client: RpcClient, group: str) -> None:
    """The only member of it, `m`, by the consumer protocol."""
    request = ConsumerGroupHeartbeatRequest(group, "m", 0, None, None, 10_000, ["t"], topic_partitions=[])
    answer = await ask(client, shard_of(group, SHARDS), request)
    assert answer.error_code == 0
    owned = [TopicPartitions(each.topic_id, each.partitions) for each in answer.assignment.topic_partitions]
    request = ConsumerGroupHeartbeatRequest(group, "m", answer.member_epoch, topic_partitions=owned)
    assert (await ask(client, shard_of(group, SHARDS), request)).error_code == 0


async def commit(client: RpcClient, group: str, offset: int, member_id: str = "", generation: int = -1) -> None:
    topic = OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition(0, offset, -1, "here")])
    request = OffsetCommitRequest(group, generation, member_id, topics=[topic])
    answer = await ask(client, shard_of(group, SHARDS), request)
    assert answer.topics[0].partitions[0].error_code == 0


async def looked_at(service: GroupCoordinator, group: str) -> dict:
    """As the admin port writes it."""
    seen = await service.group_views.group(group)
    assert not isinstance(seen, NotShown), seen
    return json.loads(json.dumps(seen))


async def not_shown(service: GroupCoordinator, group: str) -> tuple[int, dict]:
    """Why not."""
    seen = await service.group_views.group(group)
    assert isinstance(seen, NotShown), seen
    return seen.status, json.loads(json.dumps(seen.body))


def scraped(service: GroupCoordinator) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(GroupGauges(service))
    lines = generate_latest(registry).decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


async def test_a_group_shows_its_members_what_they_read_and_how_far_they_are(
    owner: Coordinator, service: GroupCoordinator
) -> None:
    client = owner.gateway()
    member_id = await stable(client, "g")
    await commit(client, "g", 3, member_id, 1)
    seen = await looked_at(service, "g")
    assert (seen["group"], seen["kind"], seen["state"], seen["generation"]) == ("g", "classic", "Stable", 1)
    assert (seen["protocol_type"], seen["protocol"], seen["leader"]) == ("consumer", "range", member_id)
    (member,) = seen["members"]
    assert (member["member_id"], member["client_id"], member["client_host"]) == (member_id, "a client", "/127.0.0.1")
    assert (member["assigned"], member["waits_for"], member["awaited"]) == ({"t": [0]}, None, None)
    assert member["session_ends_ms"] - member["last_heard_ms"] == member["session_timeout_ms"]
    assert 0 <= time.time() * 1000 - member["last_heard_ms"] < 60_000
    (row,) = seen["offsets"]
    assert (row["topic"], row["partition"], row["committed"], row["metadata"]) == ("t", 0, 3, "here")
    assert (row["log_start"], row["log_end"], row["lag_records"], row["error"]) == (0, 5, 2, 0)
    assert seen["lag"] == {"records": 2, "seconds": row["lag_seconds"], "partitions_unknown": 0}
    assert row["lag_seconds"] > 1e6, "the records say that they are of 2023"


async def test_rebalances_are_shown_with_their_reasons_in_words(owner: Coordinator, service: GroupCoordinator) -> None:
    client = owner.gateway()
    member_id = await stable(client, "g")
    response = (await looked_at(service, "g"))["rebalances"]
    assert (response["count"], response["under_way"]) == (1, False)
    assert f"member {member_id} joined" in response["last_reason"]
    joining = asyncio.ensure_future(joined(owner.gateway(2), "g"))

    async def is_under_way() -> bool:
        return (await service.group_views.groups())["groups"]["g"]["rebalances"]["under_way"]

    await until(is_under_way)
    seen = await looked_at(service, "g")
    assert seen["state"] == "PreparingRebalance"
    assert [each["waits_for"] for each in seen["members"]] == [None, "others to join"]
    late, newcomer = seen["members"]
    assert (late["awaited"]["request"], newcomer["awaited"]) == ("JoinGroup", None)
    assert late["awaited"]["due_ms"] > late["last_heard_ms"]
    assert newcomer["last_heard_ms"] is None or newcomer["session_ends_ms"] > newcomer["last_heard_ms"]
    request = LeaveGroupRequest("g", members=[MemberIdentity(member_id)])
    assert (await ask(client, shard_of("g", SHARDS), request)).error_code == 0
    await joining
    seen = await looked_at(service, "g")
    assert seen["state"] == "CompletingRebalance"
    assert [each["awaited"]["request"] for each in seen["members"]] == ["SyncGroup with the assignment"]


async def test_a_group_of_the_consumer_protocol_shows_what_each_has_and_is_to_have(
    owner: Coordinator, service: GroupCoordinator
) -> None:
    client = owner.gateway()
    await stable_consumer(client, "new")
    seen = await looked_at(service, "new")
    assert (seen["kind"], seen["state"], seen["generation"], seen["assignment_epoch"]) == ("consumer", "Stable", 1, 1)
    (member,) = seen["members"]
    assert (member["member_id"], member["speaks"], member["subscribed"]) == ("m", "consumer", ["t"])
    assert (member["assigned"], member["to_have"], member["to_give_up"], member["state"]) == (
        {"t": [0]},
        {"t": [0]},
        {},
        "stable",
    )
    assert member["awaited"] is None
    assert member["session_ends_ms"] - member["last_heard_ms"] == 45_000
    assert (seen["rebalances"]["count"], seen["rebalances"]["under_way"]) == (1, False)
    assert "m" in seen["rebalances"]["last_reason"]
    assert (await service.group_views.groups())["states"] == {"consumer": {"Stable": 1}}
    result = scraped(service)
    assert result['penstock_groups_groups{kind="consumer",state="Stable"}'] == 1
    assert result['penstock_groups_members{kind="consumer"}'] == 1
    assert result['penstock_groups_rebalances_total{kind="consumer"}'] == 1
    assert result['penstock_groups_rebalance_seconds_count{kind="consumer"}'] == 1


async def test_the_list_has_every_kind_and_counts_them(owner: Coordinator, service: GroupCoordinator) -> None:
    client = owner.gateway()
    await stable(client, "g")
    await stable(client, "connect", kind="connect")
    await commit(client, "simple", 5)
    listed = json.loads(json.dumps(await service.group_views.groups()))
    assert listed["count"] == 3
    assert listed["states"] == {"classic": {"Stable": 2}, "simple": {"Empty": 1}}
    assert list(listed["groups"]) == ["connect", "g", "simple"]
    assert listed["groups"]["simple"] == {
        "shard": shard_of("simple", SHARDS), "kind": "simple", "state": "Empty", "members": 0, "offsets": 1
    }  # fmt: skip
    connect = (await looked_at(service, "connect"))["members"][0]
    assert set(connect["assigned"]) == {"bytes"}, "nobody here can read what Connect's workers say to each other"


async def test_the_view_of_a_missing_group_names_it(owner: Coordinator, service: GroupCoordinator) -> None:
    shard = shard_of("nobody", SHARDS)
    response = {"error": "there is no group nobody", "group": "nobody", "shard": shard}
    assert await not_shown(service, "nobody") == (404, response)


async def test_before_there_are_groups_none_is_there(node: StorageCluster, begin: Begin) -> None:
    coordinator = await begin(make=group_machine)
    assert coordinator.service is not None
    assert await not_shown(coordinator.service, "g") == (404, {"error": "there are no groups yet", "group": "g"})


async def test_the_view_of_another_owners_group_names_the_owner_and_not_whether_the_group_exists(
    node: StorageCluster, owner: Coordinator, service: GroupCoordinator
) -> None:
    client = owner.gateway()
    await stable(client, "g")
    shard = shard_of("g", SHARDS)
    topic = bytes.fromhex(service.image.topics[TOPIC].topic_id)
    await node.give(topic, shard, Owner(9, 99), 2)
    await until(lambda: shard not in service.shards.owned)
    status, response = await not_shown(service, "g")
    assert (status, response["error"]) == (421, f"this process does not own shard {shard}: ask group_coordinator-9")
    assert (response["group"], response["shard"], response["owner"], response["ask"]) == (
        "g",
        shard,
        "9@99",
        "group_coordinator-9",
    )
    assert (await service.group_views.groups())["count"] == 0
    await node.give(topic, shard, None, 3)
    nobody = {"error": f"nobody owns shard {shard} now", "group": "g", "shard": shard, "owner": None, "ask": None}

    async def is_nobodys() -> bool:
        return await not_shown(service, "g") == (503, nobody)

    await until(is_nobodys)


async def test_while_its_shard_is_loaded_a_group_is_to_be_asked_for_again(
    node: StorageCluster, owner: Coordinator, service: GroupCoordinator
) -> None:
    shard = shard_of("g", SHARDS)
    topic = bytes.fromhex(service.image.topics[TOPIC].topic_id)
    nobody_leads = PartitionState((Replica(NODE_ID, ""),), -1, 0, 1, 5, (), str(service.owner), 2)
    await node.write(keys.partition(topic, shard), encode(nobody_leads))
    await until(lambda: service.shards.owned[shard].owner_epoch == 2)
    status, response = await not_shown(service, "g")
    assert (status, response["error"]) == (503, f"this process owns shard {shard}, and does not serve it yet")
    assert (response["owner"], response["ask"], response["shard_state_here"]) == (str(service.owner), None, "claiming")


def test_a_member_that_keeps_partitions_too_long_is_shown_as_the_one_that_is_awaited() -> None:
    group = Group.empty(Journal(), "g")
    holds, waits = (
        Member("holds", state=MemberState.UNREVOKED_PARTITIONS),
        Member("waits", state=MemberState.UNRELEASED_PARTITIONS),
    )
    for member in (holds, waits):
        group.apply(member.metadata_record("g"))
        group.apply(member.assignment_record("g"))
    deadlines = {session_key("g", "holds"): 90_000, session_key("g", "waits"): 80_000, revocation_key("g", "holds"): 70_000}
    first, second = details(group, TopicsView(), lambda member: 45_000, deadlines.get)["members"]
    assert first["awaited"] == {"request": "a heartbeat without the partitions to give up", "due_ms": 70_000}
    assert (first["last_heard_ms"], second["last_heard_ms"], second["awaited"]) == (45_000, 35_000, None)


def test_a_rack_that_nobody_named_is_none_of_any_member() -> None:
    group = Group.empty(Journal(), "g")
    for member in (Member("classic", rack_id="", classic=ClassicMemberMetadata(10_000, ())), Member("consumer", rack_id=None)):
        group.apply(member.metadata_record("g"))
    assert [each["rack"] for each in details(group, TopicsView(), lambda member: 45_000, {}.get)["members"]] == [None, None]


async def test_metrics_count_groups_rebalances_and_commits(owner: Coordinator, service: GroupCoordinator) -> None:
    client = owner.gateway()
    member_id = await stable(client, "g")
    for offset in (1, 2):
        await commit(client, "g", offset, member_id, 1)
    beat = HeartbeatRequest("g", 1, member_id)
    assert (await ask(client, shard_of("g", SHARDS), beat)).error_code == 0
    result = scraped(service)
    assert result['penstock_groups_groups{kind="classic",state="Stable"}'] == 1
    assert result['penstock_groups_members{kind="classic"}'] == 1
    assert result['penstock_groups_shards{state="serving"}'] == SHARDS
    assert result['penstock_groups_rebalances_total{kind="classic"}'] == 1
    assert result['penstock_groups_rebalance_seconds_count{kind="classic"}'] == 1
    assert result["penstock_groups_offsets_committed_total"] == 2
    assert result['penstock_groups_requests_total{api="heartbeat",error="NONE"}'] == 1
    assert result["penstock_groups_shard_load_seconds_count"] == SHARDS
    assert not [name for name in result if "lag{" in name], "the first scrape only asks for them"


async def test_requests_are_counted_as_the_help_says_by_shard_and_by_what_gateways_hear(
    owner: Coordinator, service: GroupCoordinator
) -> None:
    client = owner.gateway()
    for shard in range(SHARDS):
        assert (await ask(client, shard, ListGroupsRequest())).error_code == 0
    refused = HeartbeatRequest("nobody", 1, "m")
    assert (await ask(client, shard_of("nobody", SHARDS), refused)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    result = scraped(service)
    assert result['penstock_groups_requests_total{api="list_groups",error="NONE"}'] == SHARDS
    assert result['penstock_groups_requests_total{api="heartbeat",error="NONE"}'] == 1
    assert result['penstock_groups_errors_total{api="heartbeat",error="UNKNOWN_MEMBER_ID"}'] == 1
    response = next(family.documentation for family in service.meters.collect() if family.name == "penstock_groups_requests")
    assert "one for each shard" in response
    assert "NONE is the group's own answer" in response


async def test_the_log_tells_what_happens_to_groups(
    owner: Coordinator, service: GroupCoordinator, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "groups")
    client = owner.gateway()
    member_id = await stable(client, "g")
    request = LeaveGroupRequest("g", members=[MemberIdentity(member_id)])
    assert (await ask(client, shard_of("g", SHARDS), request)).error_code == 0
    response = [(record.message, record.__dict__["fields"]) for record in caplog.records]
    (rebalances, began), (_, ended), (_, removed), *_ = response
    assert (rebalances, began["group"], began["kind"], began["members"], began["generation"]) == (
        "group rebalances",
        "g",
        "classic",
        1,
        0,
    )
    assert f"member {member_id} joined" in began["reason"]
    assert (ended["members"], ended["generation"]) == (1, 1)
    assert ended["seconds"] >= 0
    assert removed == {"group": "g", "member_id": member_id, "why": "left"}
    assert [event for event, _ in response][1:] == ["group stable", "member removed", "group rebalances", "group empty"]


async def test_lag_is_a_metric_of_as_many_partitions_as_are_allowed(owner: Coordinator, service: GroupCoordinator) -> None:
    client = owner.gateway()
    for name, offset in (("a", 1), ("b", 5), ("c", 5)):
        await commit(client, name, offset)
    service.lag_series = LagMetrics(service.group_views, service.lag, 2)
    await service.lag_series.look()
    result = scraped(service)
    assert result['kafka_consumergroup_lag{consumergroup="a",partition="0",topic="t"}'] == 4
    assert result['kafka_consumergroup_current_offset{consumergroup="a",partition="0",topic="t"}'] == 1
    assert result['penstock_consumergroup_lag_seconds{consumergroup="b",partition="0",topic="t"}'] == 0
    assert result["penstock_groups_lag_series_left_out"] == 1
    assert not [name for name in result if 'group="c"' in name]


async def test_lag_is_measured_by_default_and_only_while_somebody_scrapes(
    owner: Coordinator, service: GroupCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = 'kafka_consumergroup_lag{consumergroup="a",partition="0",topic="t"}'
    monkeypatch.setattr("services.group_coordinator.introspection.lag_metrics.EVERY_S", 0.01)
    await commit(owner.gateway(), "a", 1)
    asked = []
    (by_default,) = [field.default for field in fields(GroupCoordinatorConfig) if field.name == "lag_series_max"]
    service.lag_series = LagMetrics(service.group_views, service.lag, by_default)
    look = service.lag_series.look
    monkeypatch.setattr(service.lag_series, "look", lambda: asked.append(True) or look())
    running = asyncio.create_task(service.lag_series.run())
    await asyncio.sleep(0.05)
    assert not asked
    await until(lambda: scraped(service).get(series) == 4)
    monkeypatch.setattr("services.group_coordinator.introspection.lag_metrics.WATCHED_S", 0.0)
    await asyncio.sleep(0.1)
    times = len(asked)
    await asyncio.sleep(0.05)
    assert len(asked) == times
    assert series not in scraped(service)  # what was measured long ago is not shown
    running.cancel()


async def make_groups(client: RpcClient) -> list[str]:
    """The names of more groups of the first shard than some turns of a listing look at."""
    names = [name for each in range(60) if shard_of(name := f"g{each}", SHARDS) == 0]
    for name in names:
        await commit(client, name, 1)
    return names


def watch_decisions(service: GroupCoordinator, monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str] | None]:
    """The names that each decision from now on is about. None: it is about no listing."""
    decided: list[Sequence[str] | None] = []
    submit = service.shards.submit

    def watched(index: int, event: RequestEvent, on_result: Callable[..., None], trace: SpanContext | None = None) -> None:
        decided.append(event.names)
        submit(index, event, on_result, trace)

    monkeypatch.setattr(service.shards, "submit", watched)
    return decided


async def test_a_long_listing_leaves_turns_to_others(
    node: StorageCluster, owner: Coordinator, service: GroupCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups that begin, end or change their kind meanwhile are in it once or not at all, all others once."""
    client = owner.gateway()
    names = await make_groups(client)
    whole = await ask(client, 0, ListGroupsRequest())
    assert sorted(group.group_id for group in whole.groups) == sorted(names)

    monkeypatch.setattr(client_requests, "LISTED_AT_ONCE", 4)
    decided = watch_decisions(service, monkeypatch)
    listing = start_request(client, 0, ListGroupsRequest())
    deleted = await ask(client, 0, DeleteGroupsRequest([names[-1]]))
    assert deleted.results[0].error_code == 0
    found = [group.group_id for group in said(await listing, ListGroupsRequest).groups]
    assert len(found) == len(set(found))
    assert set(names[:-1]) <= set(found) <= set(names)
    assert max(len(each) for each in decided if each is not None) == 4
    assert decided.index(None) < len(decided) - 2, "the deletion waited for a turn of the listing at most"


async def test_long_listings_of_a_shard_have_turns(
    node: StorageCluster, owner: Coordinator, service: GroupCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each holds all names and its answer, so many clients that ask at once would fill the memory."""
    client = owner.gateway()
    await make_groups(client)
    monkeypatch.setattr(client_requests, "LISTED_AT_ONCE", 4)
    decided = watch_decisions(service, monkeypatch)
    asked = [start_request(client, 0, ListGroupsRequest()) for _ in range(3)]
    first, *others = [said(await each, ListGroupsRequest) for each in asked]
    assert first.groups
    assert others == [first, first]
    assert len(decided) % 3 == 0
    assert decided == decided[: len(decided) // 3] * 3, "no turn of one lies between two of another"


async def test_a_listing_has_several_decisions_under_way(
    node: StorageCluster, owner: Coordinator, service: GroupCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each may wait for an append: one after the other, those about a million names would take longer than a gateway waits."""
    client = owner.gateway()
    names = await make_groups(client)
    monkeypatch.setattr(client_requests, "LISTED_AT_ONCE", 1)
    held: list[tuple[int, RequestEvent, Callable[..., None]]] = []
    submit = service.shards.submit
    monkeypatch.setattr(service.shards, "submit", lambda *decision: held.append(decision))
    listing = start_request(client, 0, ListGroupsRequest())
    await until(lambda: len(held) == min(len(names), client_requests.DECISIONS_UNDER_WAY))
    monkeypatch.setattr(service.shards, "submit", submit)
    for decision in held:
        submit(*decision)
    service.shards.end_turn()
    found = [group.group_id for group in said(await listing, ListGroupsRequest).groups]
    assert sorted(found) == sorted(names)


async def test_a_listing_decides_once_about_groups_that_have_members_and_offsets(
    node: StorageCluster, owner: Coordinator, service: GroupCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are among the names twice, and each decision waits for appends that are under way."""
    client = owner.gateway()
    names = (await make_groups(client))[:8]
    monkeypatch.setattr(client_requests, "LISTED_AT_ONCE", 4)
    monkeypatch.setattr(GroupMachine, "names", lambda machine: (names, names))
    decided = watch_decisions(service, monkeypatch)
    listed = await ask(client, 0, ListGroupsRequest())
    assert [group.group_id for group in listed.groups] == names
    assert decided == [names[:4], names[4:]]


async def test_a_listing_whose_groups_have_gone_when_its_turn_comes_is_empty(
    node: StorageCluster, owner: Coordinator, service: GroupCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = owner.gateway()
    await make_groups(client)
    monkeypatch.setattr(client_requests, "LISTED_AT_ONCE", 4)
    some, none = (["g0"] * 5,), ()
    answers = [some, none]
    monkeypatch.setattr(GroupMachine, "names", lambda machine: answers.pop(0))
    assert (await ask(client, 0, ListGroupsRequest())).groups == []
    assert not answers
