"""The simulated metadata store, as a process has it that is cut off. What each store promises: `test_store_contract.py`."""

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from libs.cluster.memory.memory_keyspace import Keyspace
from libs.cluster.store import Put
from tests.simulation.cluster.loop import VirtualLoop
from tests.simulation.cluster.store import Links, SimulatedStore

LONG_S = 60.0


class ReplicaLogEnd:
    """The log end of one process."""

    def __init__(self) -> None:
        self.links = Links(Random(1))
        self.reaches = self.hears = True


@pytest.mark.parametrize(
    "cut",
    [
        lambda reach, cut: setattr(reach.links, "down", cut),
        lambda reach, cut: setattr(reach, "reaches", not cut),
        lambda reach, cut: setattr(reach, "hears", not cut),
    ],
    ids=["the store is down", "requests do not arrive", "answers do not come back"],
)
def test_a_process_that_is_cut_off_sees_the_writes_once_it_is_healed(cut: Callable[[ReplicaLogEnd, bool], None]) -> None:
    """Watches went on, whatever was cut: no run ever had a process that did not know of an election."""
    reach, keyspace = ReplicaLogEnd(), Keyspace()
    store = SimulatedStore(keyspace, reach.links, reaches=lambda: reach.reaches, hears=lambda: reach.hears)
    loop = VirtualLoop(Random(2))  # type: ignore[abstract]

    async def story() -> None:
        batches = store.watch("/", 0)
        keyspace.write([Put("/before", b"")])
        await anext(batches)
        cut(reach, True)
        store.link_changed()
        keyspace.write([Put("/amid", b"")])
        seen = asyncio.ensure_future(anext(batches))
        await asyncio.sleep(LONG_S)
        assert not seen.done()
        cut(reach, False)
        store.link_changed()
        batch = await seen
        assert [event.key for event in batch.events] == ["/amid"]

    loop.run(story())
    assert loop.failures == []
