"""Coordinators that die, fall silent, stop and join in a whole cluster: who gets their shards, and how soon. Time is virtual."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from libs.cluster.configs.definitions import BROKER
from libs.cluster.image import ClusterImage
from libs.cluster.records import GROUP_COORDINATOR, STORAGE, PartitionState
from libs.cluster.shard_owners import Owner
from libs.cluster.topic_names import GROUP_TOPIC
from libs.coordinator.core.states import State
from libs.rpc.contracts.controller import AlterConfigs, ConfigChange, ConfigResource, CreateInternalTopic
from services.controller.core.shards.shard_ownership import CALM_S
from services.controller.core.topics.alter_configs import SET
from tests.simulation.cluster.coordinator_process import CoordinatorProcess
from tests.simulation.cluster.scenarios import Cluster, play

AT_ONCE_S = 0.3
SHARDS = 8
SEEDS = pytest.mark.parametrize("seed", range(3))


class Coordinators:
    """Two of them, with the topic of groups."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.processes = [CoordinatorProcess(cluster.world, node_id) for node_id in (1, 2)]
        cluster.processes.extend(self.processes)

    async def start(self) -> None:
        for process in self.processes:
            process.start()
        await self.cluster.until(lambda image: len(image.members(GROUP_COORDINATOR)) == len(self.processes))
        elected = self.cluster.elected()
        assert elected is not None
        count = ConfigResource(BROKER, "", (ConfigChange("offsets.topic.num.partitions", SET, str(SHARDS)),))
        await elected.what.administer(lambda administration, term: administration.alter_configs(term, AlterConfigs((count,))))
        wanted = CreateInternalTopic(GROUP_TOPIC)
        await elected.what.administer(lambda administration, term: administration.create_internal_topic(term, wanted))
        await self.shared(1, 2)
        await asyncio.sleep(1.0)  # heartbeats reach everybody

    async def shared(self, *node_ids: int) -> float:
        """The seconds until all shards belonged evenly to these processes, which live."""

        def evenly(image: ClusterImage) -> bool:
            living = {str(Owner(n, m.incarnation)) for n, m in image.members(GROUP_COORDINATOR).items() if n in node_ids}
            shares = Counter(state.owner for state in shards(image))
            return len(living) == len(node_ids) and set(shares) == living and max(shares.values()) - min(shares.values()) <= 1

        return await self.cluster.until(evenly)

    async def served(self) -> float:
        """The seconds until all shards were served, each by its owner."""

        def all_served(image: ClusterImage) -> bool:
            return all(self._serves(index, state) for index, state in enumerate(shards(image)))

        return await self.cluster.until(all_served)

    def _serves(self, index: int, state: PartitionState) -> bool:
        process = next((p for p in self.processes if p.running and str(getattr(p.what, "owner", "")) == state.owner), None)
        driver = process.what.shards.owned.get(index) if process is not None else None
        return driver is not None and driver.state is State.SERVING


def shards(image: ClusterImage) -> list[PartitionState]:
    if GROUP_TOPIC not in image.topics:
        return []
    return [state for state in image.partitions_of(bytes.fromhex(image.topics[GROUP_TOPIC].topic_id)) if state is not None]


def owners(image: ClusterImage) -> list[tuple[str, int]]:
    return [(state.owner, state.owner_epoch) for state in shards(image)]


def with_coordinators(seed: int, scenario: Callable[[Cluster, Coordinators], Awaitable[None]]) -> None:
    async def run(cluster: Cluster) -> None:
        coordinators = Coordinators(cluster)
        await coordinators.start()
        await coordinators.served()
        await scenario(cluster, coordinators)

    play(seed, run)


@SEEDS
def test_a_killed_coordinators_shards_move_at_once_and_no_other_does(seed: int) -> None:
    async def scenario(cluster: Cluster, coordinators: Coordinators) -> None:
        before = owners(await cluster.image())
        coordinators.processes[0].kill()
        assert await coordinators.shared(2) < AT_ONCE_S
        after = owners(await cluster.image())
        assert all(now == was for was, now in zip(before, after, strict=True) if was[0] == after[0][0])
        assert await coordinators.served() < 1.0
        coordinators.processes[0].start()
        assert CALM_S < await coordinators.shared(1, 2) < CALM_S + 1.0
        await coordinators.served()

    with_coordinators(seed, scenario)


@SEEDS
def test_a_coordinator_that_restarts_before_anybody_took_over_gets_its_shards_anew(seed: int) -> None:
    async def scenario(cluster: Cluster, coordinators: Coordinators) -> None:
        before = owners(await cluster.image())
        coordinators.processes[0].kill()
        coordinators.processes[0].start()
        await coordinators.shared(1, 2)
        await coordinators.served()
        after = owners(await cluster.image())
        assert all(now[1] > was[1] for was, now in zip(before, after, strict=True) if was[0].startswith("1@"))

    with_coordinators(seed, scenario)


@SEEDS
def test_a_silent_coordinators_shards_move_after_two_seconds_and_it_shares_again_when_it_wakes(seed: int) -> None:
    async def scenario(cluster: Cluster, coordinators: Coordinators) -> None:
        coordinators.processes[0].pause()
        assert 1.5 < await coordinators.shared(2) < 2.6
        await coordinators.served()
        coordinators.processes[0].resume()
        await coordinators.shared(1, 2)
        await coordinators.served()

    with_coordinators(seed, scenario)


@SEEDS
def test_a_stopping_coordinator_hands_over_before_it_ends(seed: int) -> None:
    async def scenario(cluster: Cluster, coordinators: Coordinators) -> None:
        leaving = coordinators.processes[0]
        begun = cluster.world.seconds
        leaving.stop()
        while any(owner.startswith("1@") for owner, _ in owners(await cluster.image())):
            assert leaving.running
            await asyncio.sleep(0.001)
        assert cluster.world.seconds - begun < AT_ONCE_S
        await leaving.ended.wait()
        await coordinators.shared(2)
        assert leaving.node_id not in (await cluster.image()).members(GROUP_COORDINATOR)

    with_coordinators(seed, scenario)


@SEEDS
def test_a_coordinator_and_the_controller_that_die_together_are_replaced_within_a_second(seed: int) -> None:
    async def scenario(cluster: Cluster, coordinators: Coordinators) -> None:
        controller = cluster.elected()
        assert controller is not None
        controller.kill()
        coordinators.processes[1].kill()
        assert await coordinators.shared(1) < 1.0

    with_coordinators(seed, scenario)


@SEEDS
def test_a_controller_that_hears_nobody_takes_no_coordinator_for_dead(seed: int) -> None:
    async def scenario(cluster: Cluster, coordinators: Coordinators) -> None:
        former, before = cluster.elected(), owners(await cluster.image())
        assert former is not None
        cluster.cut(former, [*cluster.storage, *coordinators.processes])
        await cluster.until(lambda image: cluster.elected() not in (None, former), 4.0)
        await cluster.steadily(lambda image: owners(image) == before, for_s=5.0)

    with_coordinators(seed, scenario)


@SEEDS
def test_a_controller_that_hears_no_coordinator_stays_active_and_leaves_shards_to_their_owners(seed: int) -> None:
    """Of coordinators it takes no half for a sign: none lives who could take over."""

    async def scenario(cluster: Cluster, coordinators: Coordinators) -> None:
        controller, before = cluster.elected(), await cluster.image()
        for process in coordinators.processes:
            process.kill()
        await cluster.until(lambda image: not image.members(GROUP_COORDINATOR))
        await asyncio.sleep(0.1)  # the first that is evicted loses its shards to the other, whose death nobody knew
        last = owners(await cluster.image())
        await cluster.steadily(lambda image: owners(image) == last and cluster.elected() is controller, for_s=3.0)
        assert (await cluster.image()).members(STORAGE) == before.members(STORAGE)
        coordinators.processes[1].start()
        await coordinators.shared(2)
        await coordinators.served()

    with_coordinators(seed, scenario)


@SEEDS
def test_a_killed_storage_node_takes_no_shard_from_its_owner(seed: int) -> None:
    async def scenario(cluster: Cluster, coordinators: Coordinators) -> None:
        before = owners(await cluster.image())
        dead = cluster.storage[0]
        dead.kill()
        await cluster.until(lambda image: all(state.leader not in (-1, dead.node_id) for state in shards(image)))
        await coordinators.served()
        assert owners(await cluster.image()) == before

    with_coordinators(seed, scenario)
