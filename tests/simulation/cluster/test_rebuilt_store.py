"""A metadata store that is lost as a whole and rebuilt from the disks: no acknowledged record is lost, and producers go on."""

import asyncio
from collections.abc import Callable

import pytest

from libs.cluster.image import ClusterImage
from libs.cluster.memory.memory_keyspace import Keyspace
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.saved_metadata import IMAGE_FILE, parse_file
from libs.commitlog.files.durable_files import read_file, replace_file
from services.controller.core.recovery.rebuilt_metadata import rebuild
from services.controller.recovery.disk_reading import DiskReading
from services.controller.recovery.sources import saved_images
from services.controller.recovery.store_contents import fill_store
from tests.simulation.cluster import kafka_admin
from tests.simulation.cluster.kafka_client import Link
from tests.simulation.cluster.network import SimulatedTransport
from tests.simulation.cluster.processes import KAFKA_PORT, Process, StorageProcess
from tests.simulation.cluster.repairs import TIMEOUT_S, TOPIC, WITHIN_S, Client, restarted
from tests.simulation.cluster.scenarios import Cluster, play

SEEDS = pytest.mark.parametrize("seed", range(3))
ENDS = pytest.mark.parametrize("end", [Process.kill, Process.power_cut], ids=["killed", "power cut"])
FILE = f"/data/{IMAGE_FILE}"


def copy(node: StorageProcess) -> bytes:
    return read_file(node.disk, FILE) or b""


def names_topic(content: bytes) -> bool:
    return bool(content) and TOPIC[0] in parse_file(content).image.topics


async def lose_and_rebuild(cluster: Cluster, end: Callable[[Process], None], copies: list[bytes] | None = None) -> None:
    """Ends all processes, empties the store, and fills it from the disks. `copies`: the nodes' copies of the image, if others
    than the newest are to count; b"": none."""
    for process in cluster.processes:
        end(process)
    for node, content in zip(cluster.storage, copies or [], strict=bool(copies)):
        if content:
            replace_file(node.disk, FILE, content)
        elif node.disk.exists(FILE):
            node.disk.unlink(FILE)
    nodes = [DiskReading(node.disk).read("/data", ["/data/logs"]) for node in cluster.storage]
    sources, damaged = saved_images(nodes)
    assert damaged == []
    cluster.world.keyspace.restore(Keyspace())
    await fill_store(MemoryStore(cluster.world.keyspace), rebuild(nodes, sources, feature_level=1, now_ms=1000).values)


def whole(cluster: Cluster, image: ClusterImage) -> bool:
    """Whether the partition has a leader, and all its replicas are in sync."""
    state = cluster.state(image)
    return state.leader >= 0 and len(state.isr) == len(state.replicas) >= 3


async def through_two_leaders(cluster: Cluster, client: Client) -> None:
    """A node goes down, and records are acknowledged that it lacks, in epochs that it has not seen."""
    await client.produce([1])
    leader = await cluster.leader()
    replicas = {replica.node_id for replica in (await cluster.now()).replicas}
    down = next(node for node in cluster.storage if node is not leader and node.node_id in replicas)
    down.kill()
    await cluster.until(lambda image: len(cluster.state(image).isr) == 2)
    await client.produce(range(2, 12))
    former = await cluster.leader()
    former.kill()
    former.start()
    await cluster.until(lambda image: cluster.state(image).leader not in (-1, former.node_id))
    await client.produce(range(12, 22))


async def goes_on(cluster: Cluster, client: Client) -> None:
    await restarted(cluster)
    await client.produce([22], within_s=WITHIN_S)
    await cluster.until(lambda image: whole(cluster, image))
    found = await client.read()
    assert {offset: found.get(offset) for offset in client.acknowledged} == client.acknowledged


@SEEDS
@ENDS
def test_acknowledged_records_survive_the_loss_of_the_store(seed: int, end: Callable[[Process], None]) -> None:
    async def scenario(cluster: Cluster) -> None:
        client = Client(cluster)
        await cluster.until(lambda _: all(names_topic(copy(node)) for node in cluster.storage))
        await through_two_leaders(cluster, client)
        await lose_and_rebuild(cluster, end)
        await goes_on(cluster, client)

    play(seed, scenario)


@SEEDS
@ENDS
def test_a_topic_that_no_copy_knows_comes_back_from_its_directories(seed: int, end: Callable[[Process], None]) -> None:
    async def scenario(cluster: Cluster) -> None:
        client = Client(cluster)
        await through_two_leaders(cluster, client)
        await lose_and_rebuild(cluster, end, [b""] * 3)
        await goes_on(cluster, client)

    play(seed, scenario)


@SEEDS
def test_a_partition_that_moved_since_all_copies_were_made_is_led_by_a_node_that_holds_it(seed: int) -> None:
    """The former replicas have removed it. Elected among themselves, they would lead with empty logs."""

    async def scenario(cluster: Cluster) -> None:
        client = Client(cluster)
        await cluster.until(lambda _: all(names_topic(copy(node)) for node in cluster.storage))
        copies = [copy(node) for node in cluster.storage]
        await client.produce(range(1, 12))
        former = {replica.node_id for replica in (await cluster.now()).replicas}
        target = [node.node_id for node in cluster.storage if node.node_id not in former]
        link = await Link.connect(SimulatedTransport(cluster.world.network, "operator", None), ("gateway-1", KAFKA_PORT))
        assert await kafka_admin.reassign(link, {TOPIC: target}, TIMEOUT_S) == {TOPIC: 0}
        await cluster.until(lambda image: [replica.node_id for replica in cluster.state(image).replicas] == target)
        await client.produce(range(12, 22))
        await asyncio.sleep(1.0)  # the former replicas go
        await lose_and_rebuild(cluster, Process.kill, copies)
        await goes_on(cluster, client)

    play(seed, scenario, storage=6)
