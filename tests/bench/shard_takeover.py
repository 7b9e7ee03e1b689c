"""How long shards of a coordinator that is killed have no owner that serves: python -m tests.bench.shard_takeover [repetitions]

Two coordinators, one storage node, 50 shards. Each repetition kills one and asks for the committed offset of one group in each of
its shards, again and again on a connection for each, until every one of them was answered; then it starts it again, and waits
until it has its share.
"""

import asyncio
import json
import random
import sys
import time
from collections.abc import Callable

from libs.cluster.etcd_store import EtcdStore
from libs.cluster.follower import ImageFollower
from libs.cluster.image import ClusterImage
from libs.cluster.owners import Owner
from libs.cluster.topic_names import GROUP_TOPIC
from libs.runtime.shards.placement import shard_of
from libs.wire.api import ApiKey
from libs.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.cluster_harness import LocalCluster
from tests.storm.topic import await_coordinator
from tests.storm.wire import Connection

SHARDS = 50
COMING = {14, 15, 16}
PACE_S = 0.002


async def measure(cluster: LocalCluster, repetitions: int) -> dict[str, object]:
    chance = random.Random(1)
    ports = (cluster.shape.bootstrap_port(1),)
    await await_coordinator(ports, "somebody", chance)
    store = EtcdStore((cluster.etcd_endpoint,))
    follower = ImageFollower(store)
    await follower.start()
    groups = {shard_of(f"group-{number}", SHARDS): f"group-{number}" for number in range(2_000)}
    moved, served = [], []
    try:
        for repetition in range(repetitions):
            victim = 1 + repetition % 2
            await _until(lambda: len(_shards(follower.image, 1)) == len(_shards(follower.image, 2)) == SHARDS // 2)
            mine = _shards(follower.image, victim)
            connections = {shard: Connection(ports, chance, "asker") for shard in mine}
            for shard, connection in connections.items():
                await _answered(connection, groups[shard])
            began = time.monotonic()
            await asyncio.to_thread(cluster.kill, f"group_coordinator-{victim}")
            image = asyncio.create_task(_until(lambda victim=victim: not _shards(follower.image, victim)))
            ends = await asyncio.gather(*(_answered(connection, groups[shard]) for shard, connection in connections.items()))
            served.append(max(ends) - began)
            moved.append(await image - began)
            for connection in connections.values():
                connection.cut()
            await asyncio.to_thread(cluster.start, f"group_coordinator-{victim}")
    finally:
        await follower.close()
        await store.close()
    return {"repetitions": repetitions, "shards": SHARDS // 2, "moved_ms": _told(moved), "all_served_ms": _told(served)}


def _told(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {"p50": round(ordered[len(ordered) // 2] * 1e3, 1), "max": round(ordered[-1] * 1e3, 1)}


def _shards(image: ClusterImage, node_id: int) -> list[int]:
    topic = image.topics.get(GROUP_TOPIC)
    if topic is None:
        return []
    states = [image.partition(bytes.fromhex(topic.topic_id), shard) for shard in range(SHARDS)]
    owners = [Owner.named(state.owner) if state is not None else None for state in states]
    return [shard for shard, owner in enumerate(owners) if owner is not None and owner.node_id == node_id]


async def _answered(connection: Connection, group: str) -> float:
    """When its coordinator answered."""
    while True:
        answer = await connection.ask(ApiKey.OFFSET_FETCH, 8, OffsetFetchRequest([OffsetFetchRequestGroup(group, topics=None)]))
        if not answer.groups[0].error_code:
            return time.monotonic()
        assert answer.groups[0].error_code in COMING, answer
        await asyncio.sleep(PACE_S)


async def _until(question: Callable[[], bool], within_s: float = 60.0) -> float:
    async with asyncio.timeout(within_s):
        while True:
            if question():
                return time.monotonic()
            await asyncio.sleep(PACE_S)


def main() -> int:
    with LocalCluster(storage=1, coordinators=2) as cluster:
        found = asyncio.run(measure(cluster, int(sys.argv[1]) if len(sys.argv) > 1 else 10))
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
