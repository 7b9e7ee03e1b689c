"""What a coordinator bears: how soon another one has the offsets of one that died, and ten thousand groups of one member.

python -m tests.bench.group_figures [takeover] [many] [--kafka]
"""

import argparse
import asyncio
import json
import random
import selectors
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from libs.cluster.etcd_store import EtcdStore
from libs.cluster.follower import ImageFollower
from libs.cluster.image import ClusterImage
from libs.cluster.owners import Owner
from libs.cluster.topic_names import GROUP_TOPIC
from libs.runtime.shards.placement import shard_of
from services.local.processes import memory_bytes
from tests.bench import group_frames as frames
from tests.bench import load
from tests.bench.cases import unique
from tests.bench.group_cases import COMING, MEMBER_ID_REQUIRED, coordinator_of
from tests.bench.sides import Side
from tests.bench.systems import start_kafka, start_penstock
from tests.cluster_harness import LocalCluster
from tests.storm.topic import set_for_all

PARTITIONS, GROUPS = 1_000, 100
"""100,000 offsets."""
MANY = 10_000
CONNECTIONS = 16
CLASSIC_HEARTBEAT_S = 3.0
MB = 1_000_000


# -- takeover -----------------------------------------------------------------------------------------------------------------


def takeover(deaths: int = 3) -> list[dict[str, object]]:
    """Two coordinators; the one whose shard has all of the offsets is killed, and the other one's groups commit meanwhile."""
    waited, gaps = [], []
    for _ in range(deaths):
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as root, _two_coordinators(root) as cluster:
            took, gap = _die(cluster)
        waited.append(took)
        gaps.append(gap)
    settings = f"{GROUPS * PARTITIONS} offsets in one shard of two coordinators, SIGKILL of its owner, {deaths} times"
    return [
        _figure("coordinator-takeover", sorted(waited)[len(waited) // 2], "s", "≤ 2 s", settings, max=round(max(waited), 3)),
        _figure("commits-of-other-shards-meanwhile", max(gaps), "s (longest gap)", "untouched", settings),
    ]


def _two_coordinators(root: str) -> LocalCluster:
    return LocalCluster(Path(root), storage=1, coordinators=2)


def _die(cluster: LocalCluster) -> tuple[float, float]:
    side = Side("penstock", cluster.bootstrap)
    topic = unique("taken-over")
    side.create_topic(topic, PARTITIONS)
    coordinator_of(side, "somebody")
    image = asyncio.run(_image_with_owners(cluster.etcd_endpoint))
    mine, others = _two_shards(image)
    victim = image.partition(bytes.fromhex(image.topics[GROUP_TOPIC].topic_id), mine)
    assert victim is not None
    owner = Owner.named(victim.owner)
    assert owner is not None
    count = image.topics[GROUP_TOPIC].partitions
    groups = _names_in(mine, count, GROUPS)
    for group in groups:
        _commit(side, group, topic, PARTITIONS)
    [witness] = _names_in(others, count, 1)
    _commit(side, witness, topic, 1)
    watching = _Witness(side, witness, topic)
    fetch = frames.offset_fetch_frame(groups[-1], topic, PARTITIONS - 1)
    sock = load.connect(coordinator_of(side, groups[-1]))
    cluster.kill(f"group_coordinator-{owner.node_id}")
    began = time.perf_counter()
    while True:
        sock.sendall(fetch)
        offset, error = frames.offset_fetched(load.read_frame(sock), topic)
        if not error:
            break
        if error not in COMING or time.perf_counter() - began > 60:
            raise load.BenchError(f"OffsetFetch answered error {error}")
        time.sleep(0.005)
    took = time.perf_counter() - began
    assert offset == 1, f"the offset went back to {offset}"
    sock.close()
    return took, watching.longest_gap()


async def _image_with_owners(endpoint: str) -> ClusterImage:
    store = EtcdStore((endpoint,))
    follower, moved = ImageFollower(store), asyncio.Event()
    follower.subscribe(lambda _, new: moved.set())
    await follower.start()
    try:
        async with asyncio.timeout(60):
            while len(_owners(follower.image)) < 2:
                moved.clear()
                await moved.wait()
        return follower.image
    finally:
        await follower.close()
        await store.close()


def _owners(image: ClusterImage) -> set[str]:
    """None as long as a shard has none."""
    topic = image.topics.get(GROUP_TOPIC)
    if topic is None:
        return set()
    owners = {state.owner if state is not None else "" for state in image.partitions_of(bytes.fromhex(topic.topic_id))}
    return set() if "" in owners else owners


def _two_shards(image: ClusterImage) -> tuple[int, int]:
    """Of two owners."""
    states = image.partitions_of(bytes.fromhex(image.topics[GROUP_TOPIC].topic_id))
    first = states[0]
    assert first is not None
    return 0, next(index for index, state in enumerate(states) if state is not None and state.owner != first.owner)


def _names_in(shard: int, count: int, wanted: int) -> list[str]:
    found: list[str] = []
    number = 0
    while len(found) < wanted:
        if shard_of(f"group-{number}", count) == shard:
            found.append(f"group-{number}")
        number += 1
    return found


def _commit(side: Side, group: str, topic: str, partitions: int) -> None:
    sock, deadline = load.connect(coordinator_of(side, group)), time.monotonic() + 60
    while True:
        sock.sendall(frames.commit_frame(group, topic, 1, partitions))
        (error,) = struct.unpack_from(">h", load.read_frame(sock), frames.commit_error_position(topic))
        if not error:
            break
        if error not in COMING or time.monotonic() > deadline:
            raise load.BenchError(f"a commit was answered with error {error}")
        time.sleep(0.02)
    sock.close()


class _Witness:
    """Commits again and again from a thread of its own, to a shard that nobody takes away."""

    def __init__(self, side: Side, group: str, topic: str) -> None:
        self._sock = load.connect(coordinator_of(side, group))
        self._frame = frames.commit_frame(group, topic, 2)
        self._position = frames.commit_error_position(topic)
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


# -- many groups --------------------------------------------------------------------------------------------------------------


def many(*, kafka: bool = False) -> list[dict[str, object]]:
    with start_penstock("replicated") as side:
        port = int(side.bootstrap.rpartition(":")[2])
        asyncio.run(set_for_all((port,), {"group.initial.rebalance.delay.ms": "0"}, random.Random(1)))  # as `KafkaBroker` has it
        before = _pss(side)
        found = _beat(side)
        memory = _pss(side)
    beats = {"penstock": found}
    if kafka:
        with start_kafka("replicated") as side:
            _beat(side)  # warm
            beats["kafka"] = _beat(side)
    settings = f"{MANY} classic groups of one member, each heard of every {CLASSIC_HEARTBEAT_S:.0f} s, {CONNECTIONS} connections"
    heartbeats = {f"{name}_p50_ms": round(latency.p50_ms, 2) for name, latency in beats.items()}
    more = {"kafka": round(beats["kafka"].p99_ms, 2)} if kafka else {}
    return [
        _figure("many-groups-memory", memory / MB, "MB (Pss)", "< 200 MB", settings, before=round(before / MB, 1)),
        _figure("many-groups-heartbeats-p99", beats["penstock"].p99_ms, "ms (p99)", "≤ 5 ms", settings, **heartbeats, **more),
    ]


def _beat(side: Side, seconds: float = 12.0) -> load.Latency:
    prefix = unique("many")
    names = [f"{prefix}-{number}" for number in range(MANY)]
    socks = [load.connect(coordinator_of(side, name)) for name in names[:CONNECTIONS]]
    beats = []
    for number, name in enumerate(names):
        beats.append(_joined(socks[number % CONNECTIONS], name))
    found = _open_loop(socks, beats, MANY / CLASSIC_HEARTBEAT_S, seconds)
    for sock in socks:
        sock.close()
    return found


def _joined(sock: socket.socket, group: str) -> bytes:
    """Its member's heartbeat."""
    member, deadline = "", time.monotonic() + 60
    while True:
        sock.sendall(frames.join_frame(group, member))
        found = frames.joined(load.read_frame(sock))
        if not found.error:
            break
        if found.error == MEMBER_ID_REQUIRED:
            member = found.member_id
        elif found.error not in COMING or time.monotonic() > deadline:
            raise load.BenchError(f"JoinGroup answered error {found.error}")
    sock.sendall(frames.sync_frame(group, found.generation, found.member_id, found.members))
    error = frames.error_after_throttle(load.read_frame(sock))
    if error:
        raise load.BenchError(f"SyncGroup answered error {error}")
    return frames.heartbeat_frame(group, found.generation, found.member_id)


def _open_loop(socks: Sequence[socket.socket], beats: Sequence[bytes], rate: float, seconds: float) -> load.Latency:
    """Heartbeat i is due at i / rate, and its latency counts from then; each connection answers in order."""
    total = int(rate * seconds)
    selector = selectors.DefaultSelector()
    received = [bytearray() for _ in socks]
    due: list[list[float]] = [[] for _ in socks]
    for index, sock in enumerate(socks):
        sock.setblocking(False)
        selector.register(sock, selectors.EVENT_READ, index)
    latencies: list[float] = []
    sent, started = 0, time.perf_counter()
    while len(latencies) < total:
        now = time.perf_counter() - started
        while sent < total and sent / rate <= now:
            socks[sent % len(socks)].sendall(beats[sent % len(beats)])
            due[sent % len(socks)].append(sent / rate)
            sent += 1
        wait = max(0.0, sent / rate - (time.perf_counter() - started)) if sent < total else 5.0
        ready = selector.select(timeout=wait)
        if not ready and sent == total:
            raise load.BenchError("no answer for five seconds")
        for key, _ in ready:
            index = key.data
            buffer = received[index]
            buffer += socks[index].recv(262_144)
            now = time.perf_counter() - started
            while len(buffer) >= 4 and len(buffer) >= (size := 4 + struct.unpack_from(">i", buffer)[0]):
                if error := frames.error_after_throttle(bytes(buffer[:size])):
                    raise load.BenchError(f"Heartbeat answered error {error}")
                latencies.append(now - due[index].pop(0))
                del buffer[:size]
    selector.close()
    latencies.sort()
    return load.Latency(latencies[total // 2] * 1e3, latencies[int(total * 0.99)] * 1e3, latencies[-1] * 1e3, total)


def _pss(side: Side) -> int:
    found = memory_bytes(side.pids["group_coordinator-1"])
    assert found is not None, "the coordinator is gone"
    return found


def _figure(name: str, value: float, unit: str, mark: str, settings: str, **more: object) -> dict[str, object]:
    return {"name": name, "penstock": round(value, 3), "unit": unit, "mark": mark, "settings": settings, **more}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tests.bench.group_figures")
    parser.add_argument("what", nargs="*", choices=["takeover", "many", []], default=[])
    parser.add_argument("--kafka", action="store_true")
    options = parser.parse_args(arguments)
    wanted = options.what or ["takeover", "many"]
    for name in wanted:
        for figure in takeover() if name == "takeover" else many(kafka=options.kafka):
            print(json.dumps(figure), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
