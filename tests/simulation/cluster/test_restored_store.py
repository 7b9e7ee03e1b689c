"""A metadata store that was restored from a backup: no acknowledged record is lost, and producers go on soon."""

import asyncio
from functools import partial

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.memory.memory_keyspace import Keyspace
from libs.cluster.records import ConfigOverrides
from libs.cluster.store import Put
from tests.simulation.cluster.high_watermarks import ShownHighWatermarks
from tests.simulation.cluster.repairs import WITHIN_S, Client, complete, restarted, restore
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


async def roll_back(cluster: Cluster, backup: Keyspace, writes: int) -> None:
    """Stops etcd, restores it and starts it, while all processes run. `writes`: so many more raise its revision."""
    world = cluster.world
    world.links.down = True
    await asyncio.sleep(2.0)
    restore(cluster, backup)
    for _ in range(writes):
        world.keyspace.write([Put(keys.config("topic", "unknown"), encode(ConfigOverrides()))])
    world.links.down = False
    for process in cluster.processes:
        if process.store is not None:
            process.store.link_changed()


class Writing:
    """A producer that writes one record after the other until it is stopped."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._stopping = False
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        value = 1000
        while not self._stopping:
            await self._client.produce([value], within_s=3 * WITHIN_S)
            value += 1

    async def stop(self) -> None:
        self._stopping = True
        await self._task


async def rolled_back_while_all_run(cluster: Cluster, writes: int) -> None:
    """One node misses what is acknowledged after the backup, and is back when the store is."""
    client, shown = Client(cluster), ShownHighWatermarks(cluster.storage)
    with shown.watched():
        await client.produce([1])
        backup = cluster.world.keyspace.backup()
        leader = await cluster.leader()
        late = next(node for node in cluster.storage if node is not leader)
        late.kill()
        await cluster.until(lambda image: len(cluster.state(image).isr) == 2)
        await client.produce(range(2, 12))
        leader.kill()
        leader.start()
        await cluster.until(lambda image: cluster.state(image).leader not in (-1, leader.node_id))
        await client.produce(range(12, 22))
        writing = Writing(client)
        late.start()
        await roll_back(cluster, backup, writes)
        had_an_image = [process for process in cluster.processes if process is not late]
        took_s = await cluster.until(lambda _: all(process.anew for process in had_an_image), WITHIN_S)
        before = len(client.acknowledged)
        await cluster.until(lambda _: len(client.acknowledged) > before + 2, WITHIN_S - took_s)
        await cluster.until(lambda image: complete(cluster, image))
        await writing.stop()
        assert ({process.anew for process in had_an_image}, late.anew) == ({1}, 0)
        found = await client.read()
    assert {offset: found.get(offset) for offset in client.acknowledged} == client.acknowledged
    assert shown.cuts == []


@SEEDS
@pytest.mark.parametrize("writes", [0, 200], ids=["lower revision", "higher revision"])
def test_a_store_that_is_rolled_back_under_running_processes_loses_nothing_and_producers_go_on(seed: int, writes: int) -> None:
    """Processes kept their image of the lost branch until somebody restarted them, or mixed both if the revision was higher."""
    play(seed, partial(rolled_back_while_all_run, writes=writes))
