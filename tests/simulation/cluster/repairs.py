"""Repairs of a metadata store, and a client that holds a cluster to its word."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from libs.cluster.image import ClusterImage
from libs.cluster.memory.memory_keyspace import Keyspace
from libs.wire.record_batches.records import Record, build_batch
from tests.gateway.kafka_client import Fetched, Produced
from tests.simulation.cluster import kafka_client
from tests.simulation.cluster.kafka_client import Disconnected, Link
from tests.simulation.cluster.network import SimulatedTransport
from tests.simulation.cluster.processes import KAFKA_PORT, StorageProcess
from tests.simulation.cluster.scenarios import Cluster

T = TypeVar("T", Fetched, Produced)

LEASE_S = 5.0
TOPIC = ("t", 0)
ALL, TIMEOUT_S = -1, 3.0
WITHIN_S = 10.0


class Client:
    """A client that asks the leader until it is answered."""

    def __init__(self, cluster: Cluster) -> None:
        self._transport = SimulatedTransport(cluster.world.network, "client", None)
        self.acknowledged: dict[int, int] = {}

    async def produce(self, values: Sequence[int], within_s: float = WITHIN_S) -> None:
        batch = bytes(build_batch([Record(None, b"%d" % value, 1_750_000_000_000) for value in values]))
        produced = await self._until_answered(lambda link: kafka_client.produce(link, TOPIC, batch, ALL, TIMEOUT_S), within_s)
        self.acknowledged |= {produced.base_offset + n: value for n, value in enumerate(values)}

    async def read(self) -> dict[int, int]:
        found: dict[int, int] = {}
        while len(found) <= max(self.acknowledged):
            fetched = await self._until_answered(partial(self._fetch, len(found)), WITHIN_S)
            records = kafka_client.records_of(fetched, len(found))
            assert records, f"nothing at offset {len(found)}"
            found |= dict(records)
        return found

    async def _fetch(self, offset: int, link: Link) -> Fetched:
        (fetched,) = await kafka_client.fetch(link, {TOPIC: offset}, TIMEOUT_S, max_wait_ms=500, max_bytes=1 << 20)
        return fetched

    async def _until_answered(self, ask: Callable[[Link], Awaitable[T]], within_s: float) -> T:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while loop.time() - begun < within_s:
            with contextlib.suppress(Disconnected, OSError, TimeoutError, KeyError):
                answer = await ask(await self._leader())
                if not answer.error:
                    return answer
            await asyncio.sleep(0.05)
        raise AssertionError(f"no answer within {within_s} s")

    async def _leader(self) -> Link:
        any_broker = await Link.connect(self._transport, ("gateway-1", KAFKA_PORT))
        found = await kafka_client.metadata(any_broker, [TOPIC[0]], TIMEOUT_S)
        any_broker.close()
        return await Link.connect(self._transport, found.brokers[found.leaders[TOPIC][0]])


def restore(cluster: Cluster, backup: Keyspace) -> None:
    """As etcd does: leases that the backup has begin anew, and end since nobody keeps them alive."""
    keyspace = cluster.world.keyspace
    keyspace.restore(backup)
    for lease in list(keyspace.leases):
        cluster.world.loop.call_later(LEASE_S, keyspace.revoke, lease)


async def restarted(cluster: Cluster, first: Sequence[StorageProcess] = (), after_s: float = 0.0) -> None:
    """Starts all processes; of the storage nodes `first` come before the others."""
    others = [process for process in cluster.processes if process not in cluster.storage]
    for process in (*others, *(first or cluster.storage)):
        process.start()
    await asyncio.sleep(after_s)
    for node in cluster.storage:
        if not node.running:
            node.start()


def complete(cluster: Cluster, image: ClusterImage) -> bool:
    state = cluster.state(image)
    return state.leader >= 0 and len(state.isr) == 3
