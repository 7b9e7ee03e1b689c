"""A metadata store that was restored from a backup: no acknowledged record is lost, and producers go on soon."""

import asyncio
from functools import partial

import pytest

from tests.simulation.cluster.repairs import (
    WITHIN_S,
    Client,
    complete,
    restarted,
    restore,
    rolled_back_while_all_run,
    rolled_back_while_the_leader_is_cut_off,
)
from tests.simulation.cluster.scenarios import Cluster, play

SEEDS = pytest.mark.parametrize("seed", range(3))


@SEEDS
@pytest.mark.parametrize("after_s", [0.0, 8.0], ids=["all at once", "the one that was down first"])
def test_records_that_were_acknowledged_after_the_backup_survive_its_restoration(seed: int, after_s: float) -> None:
    """The node that was down led in an epoch below the others' logs, and they cut what they had to its end."""

    async def scenario(cluster: Cluster) -> None:
        client = Client(cluster)
        await client.produce([1])
        backup = cluster.world.keyspace.backup()
        leader = await cluster.leader()
        down = next(node for node in cluster.storage if node is not leader)
        down.kill()
        await cluster.until(lambda image: len(cluster.state(image).isr) == 2)
        await client.produce(range(2, 12))
        former = await cluster.leader()
        former.kill()
        former.start()
        await cluster.until(lambda image: cluster.state(image).leader not in (-1, former.node_id))
        await client.produce(range(12, 22))
        await asyncio.sleep(3.0)  # marks are written within a second
        for process in cluster.processes:
            process.kill()
        restore(cluster, backup)
        await restarted(cluster, first=[down], after_s=after_s)
        await client.produce([22], within_s=WITHIN_S + after_s)
        await cluster.until(lambda image: complete(cluster, image))
        found = await client.read()
        assert {offset: found.get(offset) for offset in client.acknowledged} == client.acknowledged

    play(seed, scenario)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("writes", [0, 200], ids=["lower revision", "higher revision"])
def test_a_store_that_is_rolled_back_under_running_processes_loses_nothing_and_producers_go_on(seed: int, writes: int) -> None:
    """Processes kept their image of the lost branch until somebody restarted them, or mixed both if the revision was higher."""
    play(seed, partial(rolled_back_while_all_run, writes=writes))


@SEEDS
def test_a_leader_that_does_not_know_of_it_acknowledges_nothing_that_the_next_one_lacks(seed: int) -> None:
    """It answered the survey, and went on with its follower while a third replica was elected."""
    play(seed, rolled_back_while_the_leader_is_cut_off)
