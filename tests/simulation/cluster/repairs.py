"""Repairs that go wrong: a metadata store or a volume that is restored from a backup, in a cluster that goes on.

No acknowledged record is lost, no replica cuts below a high watermark that was shown, and producers go on soon.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.memory.memory_keyspace import Keyspace
from libs.cluster.records import ConfigOverrides
from libs.cluster.store import Put
from libs.wire.record_batches.records import Record, build_batch
from tests.gateway.kafka_client import Fetched, Produced
from tests.simulation.cluster import kafka_admin, kafka_client
from tests.simulation.cluster.high_watermarks import ShownHighWatermarks
from tests.simulation.cluster.kafka_client import Disconnected, Link
from tests.simulation.cluster.network import SimulatedTransport
from tests.simulation.cluster.processes import KAFKA_PORT, STORE_HOST, Process, StorageProcess
from tests.simulation.cluster.scenarios import Cluster

T = TypeVar("T", Fetched, Produced)

LEASE_S = 5.0
TOPIC = ("t", 0)
ALL, TIMEOUT_S = -1, 3.0
WITHIN_S = 10.0


class Client:
    """A client that asks the leader until it is answered."""

    def __init__(self, cluster: Cluster, gateway: int = 1) -> None:
        self._gateway = (f"gateway-{gateway}", KAFKA_PORT)
        self._transport = SimulatedTransport(cluster.world.network, "client", None)
        self.acknowledged: dict[int, int] = {}

    async def produce(self, values: Sequence[int], within_s: float = WITHIN_S) -> None:
        batch = bytes(build_batch([Record(None, b"%d" % value, 1_750_000_000_000) for value in values]))
        produced = await self._until_answered(lambda link: kafka_client.produce(link, TOPIC, batch, ALL, TIMEOUT_S), within_s)
        self.acknowledged |= {produced.base_offset + n: value for n, value in enumerate(values)}

    async def elect_preferred(self) -> int:
        """An operator's request; its error."""
        errors = await kafka_admin.elect(await self._leader(), kafka_admin.PREFERRED, [TOPIC], TIMEOUT_S)
        return errors[TOPIC]

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
        any_broker = await Link.connect(self._transport, self._gateway)
        found = await kafka_client.metadata(any_broker, [TOPIC[0]], TIMEOUT_S)
        any_broker.close()
        _, port = found.brokers[found.leaders[TOPIC][0]]
        return await Link.connect(self._transport, (self._gateway[0], port))


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


def cut_from_store(cluster: Cluster, processes: Sequence[Process], *, cut: bool) -> None:
    network = cluster.world.network
    for process in processes:
        for pair in ((process.host, STORE_HOST), (STORE_HOST, process.host)):
            (network.block if cut else network.unblock)(*pair)
        if process.store is not None:
            process.store.link_changed()


async def rolled_back_while_the_leader_is_cut_off(cluster: Cluster) -> None:
    """Leader and follower do not know that the store went back, and acknowledge records while a new leader is sought."""
    shown = ShownHighWatermarks(cluster.storage)
    client = Client(cluster, gateway=2)
    with shown.watched():
        preferred = await cluster.leader()
        preferred.kill()
        preferred.start()
        await cluster.until(lambda image: cluster.state(image).leader not in (-1, preferred.node_id))
        await cluster.until(lambda image: complete(cluster, image))
        await client.produce([1])
        backup = cluster.world.keyspace.backup()
        preferred.kill()
        await cluster.until(lambda image: len(cluster.state(image).isr) == 2)
        await asyncio.sleep(0.5)  # everybody sees it
        unaware = [*(node for node in cluster.storage if node is not preferred), cluster.gateways[1]]
        cut_from_store(cluster, unaware, cut=True)
        preferred.start()
        await roll_back(cluster, backup, writes=0)
        await asyncio.sleep(4.0)
        await client.produce([2])  # it has seen no election
        cut_from_store(cluster, unaware, cut=False)
        await client.produce([3])
        await cluster.until(lambda image: complete(cluster, image))
        found = await client.read()
    assert {offset: found.get(offset) for offset in client.acknowledged} == client.acknowledged
    assert shown.cuts == []


async def one_volume_goes_back(cluster: Cluster) -> None:
    """The last of the ISR comes back on an older snapshot of its volume, and before all others."""
    client, shown = Client(cluster), ShownHighWatermarks(cluster.storage)
    with shown.watched():
        await client.produce([1])
        leader = await cluster.leader()
        behind, last = [node for node in cluster.storage if node is not leader]
        snapshot = last.snapshot()
        await client.produce(range(2, 12))
        await asyncio.sleep(10.0)  # volumes are stamped every few seconds
        behind.kill()
        await cluster.until(lambda image: len(cluster.state(image).isr) == 2)
        await client.produce(range(12, 22))
        leader.kill()
        await cluster.until(lambda image: [member.node_id for member in cluster.state(image).isr] == [last.node_id])
        last.kill()
        last.restore(snapshot)
        last.start()
        await asyncio.sleep(8.0)
        behind.start()
        await asyncio.sleep(3.0)
        leader.start()
        await client.produce([22])
        await cluster.until(lambda image: complete(cluster, image))
        found = await client.read()
        last.kill()  # its volume is stamped again: it counts as whole
        last.start()
        await cluster.until(lambda image: len(cluster.state(image).isr) == 2)
        await cluster.until(lambda image: complete(cluster, image))
    assert {offset: found.get(offset) for offset in client.acknowledged} == client.acknowledged
    assert shown.cuts == []
