"""Elections that other systems got wrong, played in a whole cluster."""

import asyncio

import pytest

from libs.cluster.image import ClusterImage
from tests.simulation.cluster.scenarios import Cluster, play

SEEDS = pytest.mark.parametrize("seed", range(3))


@SEEDS
def test_one_nodes_lost_page_cache_does_not_become_the_clusters_loss(seed: int) -> None:
    """A leader that loses power and is back at once does not lead with what is left: the others would cut their logs to it."""

    async def scenario(cluster: Cluster) -> None:
        before, former = await cluster.now(), await cluster.leader()
        former.power_cut()
        former.start()
        await cluster.until(lambda image: cluster.state(image).leader not in (-1, former.node_id), 5.0)
        after = await cluster.now()
        assert after.leader_epoch > before.leader_epoch
        assert all(member.node_id != former.node_id for member in after.isr), "it copies first"
        await cluster.until(lambda image: len(cluster.state(image).isr) == 3)
        assert (await cluster.now()).leader == after.leader

    play(seed, scenario)


@SEEDS
def test_a_replica_with_a_stale_log_that_keeps_coming_back_starves_nobody(seed: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        before = await cluster.now()
        stale = next(node for node in cluster.storage if node.node_id != before.leader)

        def undisturbed(image: ClusterImage) -> bool:
            state = cluster.state(image)
            return (state.leader, state.leader_epoch) == (before.leader, before.leader_epoch)

        for _ in range(5):
            stale.kill()
            stale.start()
            await cluster.steadily(undisturbed, for_s=0.5)

    play(seed, scenario)


@SEEDS
def test_candidates_that_keep_campaigning_do_not_disturb_the_active_controller(seed: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        before, office = await cluster.now(), cluster.elected()
        assert office is not None
        for _ in range(5):
            for candidate in cluster.controllers:
                if candidate is not office:
                    candidate.kill()
                    candidate.start()
            await cluster.steadily(lambda image: cluster.elected() is office and cluster.state(image) == before, for_s=0.5)
        await asyncio.sleep(3.0)
        assert cluster.elected() is office

    play(seed, scenario)
