"""The time without a serving owner after a coordinator is killed: python -m tests.bench.shard_takeover [repetitions]

Two coordinators, one storage node, 50 shards. Each repetition kills one and asks for the committed offset of one group in each of
its shards, again and again on a connection for each, until every one of them was answered; then it starts it again, and waits
until it has its share. `full_shard` is of one shard with 100,000 offsets; `group_figures` prints it.
"""

import asyncio
import json
import random
import sys
import threading
import time
from collections.abc import Callable

from libs.cluster.etcd.etcd_store import EtcdStore
from libs.cluster.image import ClusterImage
from libs.cluster.image_follower import ImageFollower
from libs.wire.api_keys import ApiKey
from libs.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.bench import group_frames, load
from tests.bench.cases import unique
from tests.bench.coordinators import COMING, commit, coordinator_of, groups_in, shards_by_owner
from tests.bench.sides import Side
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import until
from tests.system.storm.topic import await_coordinator
from tests.system.storm.wire import Connection

SHARDS = 50
PACE_S = 0.002
PARTITIONS, GROUPS = 1_000, 100
"""100,000 offsets, in a full shard."""


def two_coordinators() -> LocalCluster:
    return LocalCluster(storage=1, coordinators=2)


async def measure(cluster: LocalCluster, repetitions: int) -> dict[str, object]:
    chance = random.Random(1)
    ports = (cluster.shape.bootstrap_port(1),)
    await await_coordinator(ports, "somebody", chance)
    store = EtcdStore((cluster.etcd_endpoint,))
    follower = ImageFollower(store)
    await follower.start()
    groups = {shard: groups_in(shard, SHARDS, 1)[0] for shard in range(SHARDS)}
    moved, served = [], []
    try:
        for repetition in range(repetitions):
            victim = 1 + repetition % 2
            await until(lambda: _are_shared(follower.image))
            mine = shards_by_owner(follower.image)[victim]
            connections = {shard: Connection(ports, chance, "asker") for shard in mine}
            for shard, connection in connections.items():
                await _answered(connection, groups[shard])
            began = time.monotonic()
            await asyncio.to_thread(cluster.kill, f"group_coordinator-{victim}")
            image = asyncio.create_task(_moment(lambda victim=victim: victim not in shards_by_owner(follower.image)))
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


def _are_shared(image: ClusterImage) -> bool:
    """Half of them each."""
    return [len(theirs) for theirs in shards_by_owner(image).values()] == [SHARDS // 2] * 2


async def _answered(connection: Connection, group: str) -> float:
    """When its coordinator answered."""
    while True:
        answer = await connection.ask(ApiKey.OFFSET_FETCH, 8, OffsetFetchRequest([OffsetFetchRequestGroup(group, topics=None)]))
        if not answer.groups[0].error_code:
            return time.monotonic()
        assert answer.groups[0].error_code in COMING, answer
        await asyncio.sleep(PACE_S)


async def _moment(condition: Callable[[], bool]) -> float:
    """When the condition came to hold."""
    await until(condition)
    return time.monotonic()


# -- a full shard -------------------------------------------------------------------------------------------------------------


def full_shard(cluster: LocalCluster) -> tuple[float, float]:
    """Seconds from the kill of its owner until one of its last offsets is told; the longest gap between commits to a shard of the
    other coordinator meanwhile."""
    side = Side("penstock", cluster.bootstrap)
    topic = unique("taken-over")
    side.create_topic(topic, PARTITIONS)
    coordinator_of(side, "somebody")
    (victim, (mine, *_)), (_, (others, *_)) = asyncio.run(_owned_by_two(cluster.etcd_endpoint)).items()
    groups = groups_in(mine, SHARDS, GROUPS)
    for group in groups:
        commit(side, group, topic, partitions=PARTITIONS)
    [witness] = groups_in(others, SHARDS, 1)
    scoped_watch = _Witness(*commit(side, witness, topic), topic)
    fetch = group_frames.offset_fetch_frame(groups[-1], topic, PARTITIONS - 1)
    sock = load.connect(coordinator_of(side, groups[-1]))
    cluster.kill(f"group_coordinator-{victim}")
    began = time.perf_counter()
    answer = load.ask_until_taken(
        sock, fetch, lambda answer: group_frames.offset_fetched(answer, topic)[1], COMING, what="OffsetFetch", pace_s=0.005
    )
    took = time.perf_counter() - began
    offset, _ = group_frames.offset_fetched(answer, topic)
    assert offset == 1, f"the offset went back to {offset}"
    sock.close()
    return took, scoped_watch.longest_gap()


async def _owned_by_two(endpoint: str) -> dict[int, list[int]]:
    """Once both have their share."""
    store = EtcdStore((endpoint,))
    follower = ImageFollower(store)
    await follower.start()
    try:
        await until(lambda: _are_shared(follower.image))
        return shards_by_owner(follower.image)
    finally:
        await follower.close()
        await store.close()


class _Witness:
    """Commits again and again from a thread of its own, to a shard that nobody takes away."""

    def __init__(self, address: load.Address, frame: bytes, topic: str) -> None:
        self._sock = load.connect(address)
        self._frame = frame
        self._position = group_frames.commit_error_position(topic)
        self._done = threading.Event()
        self._gap = 0.0
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        last = time.perf_counter()
        try:
            while not self._done.is_set():
                self._sock.sendall(self._frame)
                load.check_answer(load.read_frame(self._sock), self._position)
                now = time.perf_counter()
                self._gap, last = max(self._gap, now - last), now
        except BaseException as error:  # told by `longest_gap`
            self._failure = error

    def longest_gap(self) -> float:
        self._done.set()
        self._thread.join()
        self._sock.close()
        if self._failure is not None:
            raise self._failure
        return self._gap


def main() -> int:
    with two_coordinators() as cluster:
        found = asyncio.run(measure(cluster, int(sys.argv[1]) if len(sys.argv) > 1 else 10))
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
