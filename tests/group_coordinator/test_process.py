"""A coordinator process: it registers, owns the shards that the image assigns to it, and answers requests of gateways."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from libs.cluster.image import ClusterImage
from libs.cluster.membership import Superseded
from libs.cluster.records import GROUP_COORDINATOR
from libs.commitlog.files.filesystem import OsFileSystem
from libs.coordinator.core.shard_hashing import shard_of
from libs.coordinator.process.shard_handover import has_successors
from libs.rpc.contracts.coordinators import ASK_GROUPS, Ask, AskReply
from libs.rpc.messages.schema import unpack
from libs.rpc.transport.socket_transport import SocketTransport
from libs.runtime.address_book import AddressBook
from libs.runtime.peers import Peers
from libs.wire.api_keys import ApiKey
from libs.wire.apis import GROUP_ELEMENTS_MAX
from libs.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from libs.wire.messages.delete_groups import DeleteGroupsRequest
from libs.wire.messages.heartbeat import HeartbeatRequest
from libs.wire.messages.join_group import JoinGroupRequest
from libs.wire.messages.list_groups import ListGroupsRequest
from libs.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, write_request
from libs.wire.primitives import Writer
from services.group_coordinator.coordinator import GroupCoordinator
from tests.group_coordinator.processes import (
    TOPIC,
    Coordinator,
    a_controller,
    ask,
    registered,
    said,
    start_request,
)
from tests.storage.cluster import WAIT_S, StorageCluster
from tests.storage.held_disk import HeldDisk
from tests.support.polling import until

SHARDS = 2
Begin = Callable[..., Awaitable[Coordinator]]
GROUP = "g"
SHARD = shard_of(GROUP, SHARDS)


@pytest.fixture
async def topic(node: StorageCluster) -> bytes:
    return await node.topic(TOPIC, partitions=SHARDS, cleanup_policy="compact")


@pytest.fixture
async def owner(node: StorageCluster, topic: bytes, begin: Begin) -> Coordinator:
    """A coordinator that owns all shards."""
    coordinator = await begin()
    for index in range(SHARDS):
        await node.give(topic, index, coordinator.owner, 1)
    await coordinator.serves(*range(SHARDS))
    return coordinator


async def test_it_registers_with_its_addresses(node: StorageCluster, begin: Begin) -> None:
    coordinator = await begin()
    member = await registered(node.store, 1)
    assert member is not None
    assert (member.role, member.incarnation, member.unix_address) == (
        GROUP_COORDINATOR,
        coordinator.incarnation,
        coordinator.address,
    )
    assert coordinator.service is not None
    assert coordinator.service.ready() == (True, "ready, 0 shards")


async def test_requests_to_owned_shards_are_served_and_kept_in_the_log(
    node: StorageCluster, topic: bytes, owner: Coordinator
) -> None:
    client = owner.gateway()
    assert (await ask(client, SHARD, HeartbeatRequest(GROUP))).error_code == 1
    assert (await ask(client, SHARD, HeartbeatRequest(GROUP))).error_code == 2
    assert [result.group_id for result in (await ask(client, SHARD, ListGroupsRequest())).groups] == [GROUP]
    assert (await ask(client, 1 - SHARD, ListGroupsRequest())).groups == []
    request = owner.machine(SHARD).asked[0]
    assert (request.request.group_id, request.version, request.client_id, request.client_host) == (
        GROUP,
        4,
        "a client",
        "/127.0.0.1",
    )
    await node.give(topic, SHARD, owner.owner, 2)
    await until(lambda: owner.service is not None and owner.service.shards.owned[SHARD].owner_epoch == 2)
    await owner.serves(SHARD)
    assert (await ask(client, SHARD, HeartbeatRequest(GROUP))).error_code == 3


async def test_without_the_topic_there_is_no_coordinator_yet(begin: Begin) -> None:
    coordinator = await begin()
    assert await ask(coordinator.gateway(), 0, HeartbeatRequest(GROUP)) == 15


async def test_a_shard_of_somebody_else_is_refused(node: StorageCluster, topic: bytes, begin: Begin) -> None:
    coordinator = await begin()
    await until(lambda: coordinator.service is not None and coordinator.service.shards.count == SHARDS)
    assert await ask(coordinator.gateway(), SHARD, HeartbeatRequest(GROUP)) == 16
    assert await ask(coordinator.gateway(), 77, ListGroupsRequest()) == 16


async def test_a_group_is_not_decided_by_the_shard_of_another(owner: Coordinator) -> None:
    assert await ask(owner.gateway(), 1 - SHARD, HeartbeatRequest(GROUP)) == 16
    assert owner.machine(1 - SHARD).asked == []


@pytest.mark.parametrize(
    ("api_key", "version", "body"),
    [
        (ApiKey.HEARTBEAT, 4, b""),
        (ApiKey.HEARTBEAT, 4, b"\xff" * 40),
        (ApiKey.HEARTBEAT, 0, b"\0\x01g\0\0\0\x01\0\x01mMORE"),
        (ApiKey.HEARTBEAT, 5, b"\0\x01g\0\0\0\x01\0\x01m"),
        (ApiKey.HEARTBEAT, -1, b"\0\x01g\0\0\0\x01\0\x01m"),
        (ApiKey.METADATA, 1, b"\0\0\0\0"),
        (999, 0, b""),
    ],
)
async def test_an_unknown_request_is_refused_as_invalid(owner: Coordinator, api_key: int, version: int, body: bytes) -> None:
    client = owner.gateway()
    response = await client.call(ASK_GROUPS, Ask(SHARD, api_key, version, "", "/"), [body], timeout_s=WAIT_S)
    assert (unpack(AskReply, response.body).error, len(response.payload)) == (42, 0)
    assert (await ask(client, SHARD, HeartbeatRequest(GROUP))).error_code == 1, "the connection goes on"


async def test_repeated_malformed_requests_fill_no_log(owner: Coordinator, caplog: pytest.LogCaptureFixture) -> None:
    client = owner.gateway()
    for _ in range(100):
        response = await client.call(ASK_GROUPS, Ask(SHARD, ApiKey.HEARTBEAT, 4, "", "/"), [b"no"], timeout_s=WAIT_S)
        assert unpack(AskReply, response.body).error == 42
    assert 1 <= caplog.messages.count("malformed request") < 50  # one a second


async def test_a_request_of_countless_elements_is_none_before_they_are_read(owner: Coordinator) -> None:
    """Such a request would take so long that the coordinator, and the next one, would count as dead."""
    client = owner.gateway()
    for count, error in (GROUP_ELEMENTS_MAX, 0), (GROUP_ELEMENTS_MAX + 1, 42):
        assignments = [SyncGroupRequestAssignment("m", b"")] * count
        writer = Writer()
        write_request(writer, SyncGroupRequest(GROUP, 1, "m", assignments=assignments), 3)
        response = await client.call(ASK_GROUPS, Ask(SHARD, ApiKey.SYNC_GROUP, 3, "", "/"), [writer.buffer], timeout_s=WAIT_S)
        assert unpack(AskReply, response.body).error == error


async def test_requests_of_one_connection_are_decided_in_their_order(owner: Coordinator) -> None:
    client = owner.gateway()
    answers = [start_request(client, SHARD, HeartbeatRequest(GROUP)) for _ in range(200)]
    heard = [said(response, HeartbeatRequest).error_code for response in await asyncio.gather(*answers)]
    assert heard == list(range(1, 201))


async def test_nothing_is_answered_before_the_disk_has_it(owner: Coordinator, node: StorageCluster, disk: HeldDisk) -> None:
    client = owner.gateway()
    disk.hold()
    answer = start_request(client, SHARD, HeartbeatRequest(GROUP))
    await ask(client, 1 - SHARD, ListGroupsRequest())
    assert not answer.done()
    disk.release()
    assert said(await answer, HeartbeatRequest).error_code == 1


async def test_a_parked_join_holds_no_other_request_up(owner: Coordinator) -> None:
    client = owner.gateway()
    joining = start_request(client, SHARD, JoinGroupRequest(GROUP))
    assert (await ask(client, SHARD, HeartbeatRequest(GROUP))).error_code == 1
    assert not joining.done()
    await ask(client, SHARD, SyncGroupRequest(GROUP, member_id="m"))
    assert said(await joining, JoinGroupRequest).member_id == "m"


@pytest.mark.parametrize("how", ["cancelled", "disconnected"])
async def test_a_caller_that_goes_away_is_forgotten_and_nothing_taken_back(owner: Coordinator, how: str) -> None:
    first, second = owner.gateway(1), owner.gateway(2)
    joining = start_request(first, SHARD, JoinGroupRequest(GROUP))
    counting = start_request(first, SHARD, HeartbeatRequest(GROUP))
    await counting
    if how == "cancelled":
        joining.cancel()
    else:
        await first.close()
    assert (await ask(second, SHARD, HeartbeatRequest(GROUP))).error_code == 2
    assert (await ask(second, SHARD, SyncGroupRequest(GROUP, member_id="m"))).error_code == 0, "wakes nobody"
    assert (await ask(second, SHARD, HeartbeatRequest(GROUP))).error_code == 3


@pytest.mark.parametrize("odd", ["break", "unwritable"])
async def test_a_machine_that_fails_fails_one_request(owner: Coordinator, odd: str) -> None:
    client = owner.gateway()
    assert await ask(client, SHARD, HeartbeatRequest(GROUP, group_instance_id=odd)) == -1
    assert (await ask(client, SHARD, HeartbeatRequest(GROUP))).error_code == 1


async def test_a_request_that_may_need_a_member_id_gets_a_fresh_uuid(owner: Coordinator) -> None:
    client = owner.gateway()
    joining = start_request(client, SHARD, JoinGroupRequest(GROUP))
    for _ in range(25):
        await ask(client, SHARD, ConsumerGroupHeartbeatRequest(GROUP))
        await ask(client, SHARD, DeleteGroupsRequest([GROUP]))
    given = [request.fresh_id for request in owner.machine(SHARD).asked]
    joining.cancel()
    assert len(set(given)) == 51
    pattern = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
    assert all(pattern.fullmatch(member_id) for member_id in given)


async def test_one_whose_place_is_taken_stops(owner: Coordinator, begin: Begin) -> None:
    other = await begin(owner.node_id)
    async with asyncio.timeout(WAIT_S):
        await owner.lifecycle.stopped()
    assert isinstance(owner.lifecycle.failure, Superseded)
    assert not other.lifecycle.stopping


# -- the metadata store is away ---------------------------------------------------------------------------------------------


async def test_one_that_starts_without_the_store_waits_with_the_image_of_a_peer(
    node: StorageCluster, topic: bytes, begin: Begin, tmp_path: Path
) -> None:
    def peers(coordinator: Coordinator) -> Peers:
        return Peers(
            AddressBook(OsFileSystem(), str(tmp_path)),
            [f"unix:{node.config.rpc_unix}"],
            role=GROUP_COORDINATOR,
            node_id=coordinator.node_id,
            incarnation=coordinator.incarnation,
            version="test",
            host_id="this-host",
            transport=SocketTransport(),
        )

    coordinator = await begin(peers=peers, cut_off=True)
    service = coordinator.service
    assert service is not None
    ready, why = service.ready()
    assert (ready, "waits for the metadata store" in why) == (False, True)
    assert await ask(coordinator.gateway(), SHARD, HeartbeatRequest(GROUP)) == 16, "it knows the topic"
    assert await registered(node.store, 1) is None
    coordinator.store.unavailable = False
    await until(lambda: service.ready()[0])
    await node.give(topic, SHARD, coordinator.owner, 1)
    await coordinator.serves(SHARD)
    assert (await ask(coordinator.gateway(), SHARD, HeartbeatRequest(GROUP))).error_code == 1


async def test_one_that_runs_goes_on_without_the_store(owner: Coordinator) -> None:
    owner.store.unavailable = True
    client = owner.gateway()
    for count in (1, 2, 3):
        assert (await ask(client, SHARD, HeartbeatRequest(GROUP))).error_code == count
    owner.store.unavailable = False


# -- leaving ----------------------------------------------------------------------------------------------------------------


def knows_others(service: GroupCoordinator | None) -> bool:
    """Whether coordinator 1 may hand over: it knows a controller, and another coordinator."""
    image = service.image if service is not None else ClusterImage()
    return has_successors(image, GROUP_COORDINATOR, 1) and bool(image.members("controller"))


async def test_one_that_stops_says_so_and_serves_until_another_has_its_shards(
    node: StorageCluster, topic: bytes, owner: Coordinator, begin: Begin
) -> None:
    await a_controller(node)
    client = owner.gateway()
    joining = start_request(client, SHARD, JoinGroupRequest(GROUP))
    await ask(client, SHARD, HeartbeatRequest(GROUP))
    other = await begin(2)
    assert owner.service is not None
    await until(lambda: knows_others(owner.service))
    stopping = asyncio.create_task(owner.lifecycle.drain())

    async def says_so() -> bool:
        member = await registered(node.store, 1)
        return member is not None and member.stopping

    await until(says_so)
    assert (await ask(client, SHARD, HeartbeatRequest(GROUP))).error_code == 2
    assert not stopping.done()
    for index in range(SHARDS):
        await node.give(topic, index, other.owner, 2)
    assert said(await joining, JoinGroupRequest) == 16, "whoever waits is sent on"
    assert await stopping
    assert await registered(node.store, 1) is None
    await other.serves(*range(SHARDS))
    assert (await ask(other.gateway(), SHARD, HeartbeatRequest(GROUP))).error_code == 3


@pytest.mark.parametrize("why", ["no store", "no controller that acts"])
async def test_one_whose_shards_nobody_moves_stops_all_the_same(
    node: StorageCluster, topic: bytes, begin: Begin, why: str
) -> None:
    await a_controller(node)
    coordinator, other = await begin(1, hand_over_s=0.2), await begin(2)
    await node.give(topic, SHARD, coordinator.owner, 1)
    await coordinator.serves(SHARD)
    service = coordinator.service
    assert service is not None
    await until(lambda: knows_others(service))
    coordinator.store.unavailable = why == "no store"
    client = coordinator.gateway()
    joining = start_request(client, SHARD, JoinGroupRequest(GROUP))
    await ask(client, SHARD, HeartbeatRequest(GROUP))
    assert await coordinator.lifecycle.drain()
    assert said(await joining, JoinGroupRequest) == 16
    await node.give(topic, SHARD, other.owner, 2)
    await other.serves(SHARD)
    assert (await ask(other.gateway(), SHARD, HeartbeatRequest(GROUP))).error_code == 2


async def test_one_that_is_alone_stops_at_once_and_answers_what_is_under_way(
    node: StorageCluster, owner: Coordinator, disk: HeldDisk
) -> None:
    await a_controller(node)
    client = owner.gateway()
    disk.hold()
    answer = start_request(client, SHARD, HeartbeatRequest(GROUP))
    await ask(client, 1 - SHARD, ListGroupsRequest())
    stopping = asyncio.create_task(owner.lifecycle.drain())
    service = owner.service
    assert service is not None
    await until(lambda: not service.shards.owned)
    disk.release()
    assert said(await answer, HeartbeatRequest).error_code == 1
    assert await stopping
    assert await registered(node.store, 1) is None
