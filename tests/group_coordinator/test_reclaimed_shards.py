"""A shard that its owner claims anew, since the outcome of an append was unknown: its log may tell what no event told."""

import asyncio
from collections.abc import Awaitable, Callable

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import ConfigOverrides
from libs.coordinator.core.states import State
from libs.wire.errors import ErrorCode
from libs.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from libs.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from services.group_coordinator.coordinator import group_machine
from tests.group_coordinator.processes import TOPIC, Coordinator, ask
from tests.storage.cluster import StorageCluster
from tests.storage.held_disk import HeldDisk
from tests.support.polling import until

Begin = Callable[..., Awaitable[Coordinator]]
CONFIGS = {"group.initial.rebalance.delay.ms": "0", "offsets.commit.timeout.ms": "200"}


def join(group: str, member_id: str = "") -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    return JoinGroupRequest(group, 60_000, 60_000, member_id, protocol_type="consumer", protocols=protocols)


async def test_a_rebalance_whose_end_only_the_log_tells_is_not_told_as_under_way(
    node: StorageCluster, disk: HeldDisk, begin: Begin
) -> None:
    await node.write(keys.config("broker", ""), encode(ConfigOverrides(CONFIGS)))
    topic = await node.topic(TOPIC, partitions=1, cleanup_policy="compact")
    owner = await begin(make=group_machine)
    await node.give(topic, 0, owner.owner, 1)
    await owner.serves(0)
    client, service = owner.gateway(), owner.running
    member_id = (await ask(client, 0, join("g"))).member_id
    joined = await ask(client, 0, join("g", member_id))
    await until(lambda: service.longest_rebalance_s() > 0)
    disk.hold()
    assigned = [SyncGroupRequestAssignment(member_id, b"")]
    sync = SyncGroupRequest("g", joined.generation_id, member_id, None, "consumer", "range", assigned)
    syncing = asyncio.ensure_future(ask(client, 0, sync))
    await until(lambda: service.shards.owned[0].state is not State.SERVING)
    disk.release()
    await owner.serves(0)
    assert await syncing == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert owner.machine(0).classic.groups["g"].facts.state.value == "Stable", "as its log says"
    assert service.longest_rebalance_s() == 0
