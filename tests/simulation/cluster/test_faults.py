"""Faults that overlap in one process: each heals, and none breaks the run."""

import asyncio

from tests.simulation.cluster.faults import Faults
from tests.simulation.cluster.scenarios import Cluster, play


def test_two_power_cuts_of_one_host_end_with_one_start() -> None:
    async def scenario(cluster: Cluster) -> None:
        node = cluster.storage[0]
        faults = Faults(cluster.world, [node], [])
        amid = asyncio.ensure_future(faults.power_cut_amid())
        await asyncio.sleep(0)
        dark = asyncio.ensure_future(faults.power_cut())
        await amid
        assert node.running
        assert not dark.done(), "the other fault ends first with this seed"
        await dark
        assert node.running
        assert not node.held_down
        assert node.starts == 2

    play(0, scenario)
