"""A rig whose cluster has group coordinators, and requests about groups in any version."""

import struct
from importlib import import_module
from typing import Any

from libs.cluster import keys
from libs.cluster.records import GROUP_COORDINATOR, InSync, Member, PartitionState, Replica, Topic
from libs.cluster.shard_owners import Owner
from libs.wire.api_keys import ApiKey, request_header_version, response_header_version
from libs.wire.primitives import Reader, Writer
from tests.gateway.conftest import HOST_ID, OFFSETS_ID, Rig
from tests.gateway.fake_coordinator import FakeCoordinator
from tests.gateway.kafka_client import RawClient
from tests.support.polling import until

SHARDS = 4


class Groups:
    """Two coordinators and four shards. Storage node 1 leads the even shards, and node 2 the odd ones."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.coordinators = {1: FakeCoordinator(1, rig.directory), 2: FakeCoordinator(2, rig.directory)}

    async def start(self, *, owners: dict[int, int] | None = None, **changes: object) -> None:
        """Starts the rig. `owners` has the coordinator of each shard; by default number 1 owns all."""
        for coordinator in self.coordinators.values():
            await coordinator.start()
            await self.register(coordinator)
        await self.rig.start(**changes)
        await self.rig.put(keys.topic("__consumer_offsets"), Topic("__consumer_offsets", OFFSETS_ID.hex(), SHARDS, internal=True))
        for shard in range(SHARDS):
            await self.own(shard, (owners or {}).get(shard, 1))
        await self.settled()

    async def stop(self) -> None:
        for coordinator in self.coordinators.values():
            await coordinator.stop()

    async def register(self, coordinator: FakeCoordinator) -> None:
        node_id = coordinator.node_id
        member = Member(GROUP_COORDINATOR, node_id, coordinator.incarnation, HOST_ID, unix_address=coordinator.address)
        await self.rig.put(keys.member(GROUP_COORDINATOR, node_id), member)

    async def own(self, shard: int, node_id: int) -> None:
        """Makes a coordinator the owner of a shard; 0: the shard has no owner."""
        leader = 1 + shard % 2
        coordinator = self.coordinators.get(node_id)
        owner = str(Owner(node_id, coordinator.incarnation)) if coordinator is not None else ""
        state = PartitionState((Replica(leader, ""),), leader, 1, 0, 0, (InSync(leader, 1),), owner=owner)
        await self.rig.put(keys.partition(OFFSETS_ID, shard), state)

    async def own_all(self, node_id: int) -> None:
        for shard in range(SHARDS):
            await self.own(shard, node_id)

    async def settled(self) -> None:
        """Returns once the gateway's image is the newest, and the gateway is connected to each owner in it."""
        gateway = self.rig.gateway
        assert gateway is not None
        assert await gateway.wait_for_revision(self.rig.store.keyspace.revision, 10)
        coordinators = gateway.data_path.coordinators

        def connected() -> bool:
            owners = [coordinators.owner(shard) for shard in range(SHARDS)]
            return all(owner.client.connected for owner in owners if owner is not None)

        await until(connected)

    async def waiting(self, count: int) -> None:
        """Returns once so many requests wait for an owner."""
        gateway = self.rig.gateway
        assert gateway is not None
        await until(lambda: len(gateway.data_path.coordinators.delayed_requests) == count)

    @property
    def held_bytes(self) -> int:
        gateway = self.rig.gateway
        assert gateway is not None
        held = gateway.data_path.coordinators.debug()["requests_bytes"]
        assert isinstance(held, int)
        return held


def module_of(key: ApiKey) -> Any:
    return import_module(f"libs.wire.messages.{key.name.lower()}")


def request_body(key: ApiKey, version: int, request: object) -> bytes:
    writer = Writer()
    module_of(key).write_request(writer, request, version)
    return bytes(writer.buffer)


def response_body(key: ApiKey, version: int, response: object) -> bytes:
    writer = Writer()
    module_of(key).write_response(writer, response, version)
    return bytes(writer.buffer)


def send(client: RawClient, key: ApiKey, version: int, body: bytes, *, correlation_id: int = 1) -> None:
    client_id = b"some-client"
    header = struct.pack(">hhih", key, version, correlation_id, len(client_id)) + client_id
    if request_header_version(key, version) == 2:
        header += b"\0"
    client.send(struct.pack(">i", len(header) + len(body)) + header + body)


async def answer(client: RawClient, key: ApiKey, version: int) -> bytes:
    """The body of the next answer."""
    _, reader = await client.answer()
    if response_header_version(key, version) == 1:
        reader.skip_tagged_fields()
    return bytes(reader.view[reader.position :])


async def answered(client: RawClient, key: ApiKey, version: int) -> Any:
    """The next answer, decoded."""
    reader = Reader(memoryview(await answer(client, key, version)))
    response = module_of(key).read_response(reader, version)
    reader.expect_end()
    return response


async def ask(client: RawClient, key: ApiKey, version: int, request: object) -> Any:
    send(client, key, version, request_body(key, version, request))
    return await answered(client, key, version)
