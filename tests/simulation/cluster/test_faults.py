"""Faults that overlap in one process: each heals, and none breaks the run."""

import asyncio

import pytest

from tests.simulation.cluster.faults import Faults
from tests.simulation.cluster.scenarios import Cluster, play


@pytest.mark.parametrize("seed", range(4))
def test_two_power_cuts_of_one_host_end_with_one_start(seed: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        node = cluster.storage[0]
        # A power cut lasts 0.2 s at least, and one amid a write 6 s at most, of which the share is less than that.
        short, long = Faults(cluster.world, [node], [], share=0.03), Faults(cluster.world, [node], [])
        amid = asyncio.ensure_future(short.power_cut_amid())
        await asyncio.sleep(0.001)  # virtual: what is ready runs first, in an order that the seed draws
        dark = asyncio.ensure_future(long.power_cut())
        await amid
        assert node.running
        assert not dark.done()
        await dark
        assert node.running
        assert not node.held_down
        assert node.starts == 2

    play(seed, scenario)
