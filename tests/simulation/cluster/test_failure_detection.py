"""Deaths, silences and shutdowns in a whole cluster: who notices, how soon, and who is left alone. Time is virtual."""

import asyncio

import pytest

from libs.cluster.image import ClusterImage
from libs.cluster.records import CONTROLLER, GATEWAY, STORAGE
from libs.wire.errors import ErrorCode
from tests.simulation.cluster.repairs import Client
from tests.simulation.cluster.scenarios import Cluster, play

AT_ONCE_S = 0.3
CUT_S_MAX = 3.0
"""How long a cut of one way may hold up producers."""
SEEDS = pytest.mark.parametrize("seed", range(3))


@SEEDS
def test_a_killed_leader_is_replaced_at_once(seed: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        former = await cluster.leader()
        former.kill()
        took_s = await cluster.until(lambda image: cluster.state(image).leader not in (-1, former.node_id))
        assert took_s < AT_ONCE_S
        state = await cluster.now()
        assert all(member.node_id != former.node_id for member in state.isr), "leader and ISR change together"

    play(seed, scenario)


@SEEDS
def test_a_killed_follower_leaves_the_isr_at_once(seed: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        before = await cluster.now()
        follower = next(node for node in cluster.storage if node.node_id != before.leader)
        follower.kill()
        assert await cluster.until(lambda image: len(cluster.state(image).isr) == 2) < AT_ONCE_S
        after = await cluster.now()
        assert (after.leader, after.leader_epoch) == (before.leader, before.leader_epoch)

    play(seed, scenario)


@SEEDS
def test_nodes_that_die_together_all_keep_their_places_in_the_isr(seed: int) -> None:
    """Removed one after the other, the last would have been left alone in it, and waited for while the others are back."""

    async def scenario(cluster: Cluster) -> None:
        everyone = {node.node_id for node in cluster.storage}
        for node in cluster.storage:
            node.kill()
        await cluster.until(lambda image: not image.members(STORAGE) and cluster.state(image).leader < 0)
        assert {member.node_id for member in (await cluster.now()).isr} == everyone
        cluster.storage[seed].start()
        await cluster.until(lambda image: cluster.state(image).leader == cluster.storage[seed].node_id)

    play(seed, scenario)


@SEEDS
def test_a_killed_controller_is_replaced_at_once_and_disturbs_no_partition(seed: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        before, former = await cluster.now(), cluster.elected()
        assert former is not None
        former.kill()
        assert await cluster.until(lambda image: cluster.elected() is not None) < 1.0
        await cluster.steadily(lambda image: cluster.state(image) == before, for_s=6.0)
        assert former.node_id not in (await cluster.image()).members(CONTROLLER)

    play(seed, scenario)


@SEEDS
def test_a_leader_and_the_controller_that_die_together_are_replaced_within_three_seconds(seed: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        former, controller = await cluster.leader(), cluster.elected()
        assert controller is not None
        controller.kill()
        former.kill()
        assert await cluster.until(lambda image: cluster.state(image).leader not in (-1, former.node_id)) < 1.0

    play(seed, scenario)


@SEEDS
def test_a_killed_gateway_leaves_the_list_of_members(seed: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.gateways[0].kill()
        assert await cluster.until(lambda image: 1 not in image.members(GATEWAY)) < AT_ONCE_S

    play(seed, scenario)


@SEEDS
def test_a_silent_leader_is_replaced_after_two_seconds_and_registers_again_when_it_wakes(seed: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        former = await cluster.leader()
        life = (await cluster.image()).members(STORAGE)[former.node_id].incarnation
        former.pause()
        took_s = await cluster.until(lambda image: cluster.state(image).leader not in (-1, former.node_id))
        assert 1.5 < took_s < 2.6
        former.resume()
        await cluster.until(lambda image: former.node_id in image.members(STORAGE), 2.0)
        assert (await cluster.image()).members(STORAGE)[former.node_id].incarnation == life
        await cluster.until(lambda image: len(cluster.state(image).isr) == 3)

    play(seed, scenario)


@SEEDS
def test_connections_that_are_reset_kill_nobody(seed: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        before = await cluster.now()
        for _ in range(10):
            for controller in cluster.controllers:
                for other in cluster.processes:
                    cluster.world.network.reset(controller.host, other.host)
            await cluster.steadily(lambda image: cluster.state(image) == before, for_s=0.7)

    play(seed, scenario)


@SEEDS
def test_a_controller_that_hears_no_storage_node_resigns_and_declares_nobody_dead(seed: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        before, former = await cluster.image(), cluster.elected()
        assert former is not None
        cluster.cut(former, [*cluster.storage])

        def unharmed(image: ClusterImage) -> bool:
            return image.members(STORAGE) == before.members(STORAGE) and cluster.state(image) == cluster.state(before)

        taken_s = await cluster.until(lambda image: cluster.elected() not in (None, former), 4.0)
        assert taken_s > 1.5
        await cluster.steadily(lambda image: unharmed(image) and cluster.elected() is not former, for_s=10.0)

    play(seed, scenario)


@SEEDS
def test_a_gateway_that_hears_nothing_from_a_leader_gets_another_one_and_only_once(seed: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        former, network, client = await cluster.leader(), cluster.world.network, Client(cluster)
        await client.produce([0])
        way = (former.host, cluster.gateways[0].host)
        network.block(*way)
        await client.produce([1], within_s=CUT_S_MAX)
        moved = await cluster.now()
        assert moved.leader != former.node_id
        assert former.node_id in (await cluster.image()).members(STORAGE), "it lives"
        await cluster.steadily(lambda image: cluster.state(image).leader_epoch == moved.leader_epoch, for_s=12.0)
        assert await client.elect_preferred() == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        network.unblock(*way)
        await cluster.steadily(lambda image: cluster.state(image).leader_epoch == moved.leader_epoch, for_s=12.0)
        await client.produce([2])
        assert await client.elect_preferred() == ErrorCode.NONE
        await cluster.steadily(lambda image: cluster.state(image).leader == former.node_id, for_s=2.0)

    play(seed, scenario)


@SEEDS
def test_a_follower_that_hears_nothing_from_its_leader_gets_another_one(seed: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        former, client = await cluster.leader(), Client(cluster)
        await client.produce([0])
        deaf = next(node for node in cluster.storage if node is not former)
        cluster.world.network.block(former.host, deaf.host)
        await cluster.until(lambda image: cluster.state(image).leader not in (former.node_id, deaf.node_id), CUT_S_MAX)
        await client.produce([1], within_s=1.0)
        assert {former.node_id, deaf.node_id} <= {member.node_id for member in (await cluster.now()).isr}

    play(seed, scenario)


@SEEDS
def test_one_silent_node_of_three_is_dead_though_its_lease_is_held(seed: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        former = await cluster.leader()
        cluster.cut(former, [other for other in cluster.processes if other is not former])
        await cluster.until(lambda image: cluster.state(image).leader not in (-1, former.node_id), 2.6)

    play(seed, scenario)


@SEEDS
def test_nobody_is_dead_while_that_cannot_be_written(seed: int) -> None:
    """Rule: an outage of the store is not a death. What happened meanwhile is noticed afterwards."""

    async def scenario(cluster: Cluster) -> None:
        before, former = await cluster.now(), await cluster.leader()
        for process in cluster.processes:
            assert process.store is not None
            process.store.unavailable = True
        await asyncio.sleep(0.5)
        former.kill()
        await cluster.steadily(lambda image: cluster.state(image) == before, for_s=1.0)
        for process in cluster.processes:
            if process.store is not None:
                process.store.unavailable = False
        await cluster.until(lambda image: cluster.state(image).leader not in (-1, former.node_id), 8.0)

    play(seed, scenario)


@SEEDS
def test_a_stopping_leader_hands_over_before_it_ends(seed: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        former = await cluster.leader()
        former.stop()
        begun = cluster.world.seconds

        def led(image: ClusterImage) -> bool:
            state = cluster.state(image)
            return state.leader != -1 and state.leader in image.members(STORAGE)

        while former.running:
            assert led(await cluster.image())
            await asyncio.sleep(0.005)
        assert cluster.world.seconds - begun < 3.0
        assert (await cluster.now()).leader != former.node_id
        assert former.node_id not in (await cluster.image()).members(STORAGE)

    play(seed, scenario)


def test_the_only_replica_is_not_waited_for() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.storage[0].stop()
        begun = cluster.world.seconds
        await cluster.storage[0].ended.wait()
        assert cluster.world.seconds - begun < 2.0

    play(1, scenario, storage=1)


def test_elections_are_counted_and_timed() -> None:
    async def scenario(cluster: Cluster) -> None:
        controller = cluster.elected()
        assert controller is not None
        before = controller.what.election_times.count
        (await cluster.leader()).kill()
        await cluster.until(lambda image: len(cluster.state(image).isr) == 2)
        await asyncio.sleep(0.1)
        times = controller.what.election_times
        assert times.count == before + 1
        assert 0 < times.total_s < AT_ONCE_S

    play(1, scenario)


def test_a_controller_shows_the_liveness_of_each_member() -> None:
    async def scenario(cluster: Cluster) -> None:
        standby = next(c for c in cluster.controllers if c is not cluster.elected())
        others = [process for process in cluster.processes if process is not standby]
        shown = standby.what.debug()["detection"]()
        assert sorted(shown.pop("heard")) == sorted(process.host for process in others)
        alive = {process.host: "alive" for process in others}
        assert shown == {"cut_off": False, "processes": alive, "callers_cut": {}, "peers_cut": {}}

    play(1, scenario)
