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
import time
from collections.abc import Sequence

from tests.bench import group_frames, load
from tests.bench.cases import unique
from tests.bench.coordinators import COMING, coordinator_of
from tests.bench.group_cases import MEMBER_ID_REQUIRED
from tests.bench.own_figure import own_figure
from tests.bench.shard_takeover import GROUPS, PARTITIONS, full_shard, two_coordinators
from tests.bench.sides import Side
from tests.bench.systems import start_kafka, start_penstock
from tests.support.process_memory import memory_bytes
from tests.system.storm.topic import set_for_all

MANY = 10_000
CONNECTIONS = 16
CLASSIC_HEARTBEAT_S = 3.0
MB = 1_000_000


def takeover(deaths: int = 3) -> list[dict[str, object]]:
    waited, gaps = [], []
    for _ in range(deaths):
        with two_coordinators() as cluster:
            took, gap = full_shard(cluster)
        waited.append(took)
        gaps.append(gap)
    settings = f"{GROUPS * PARTITIONS} offsets in one shard of two coordinators, SIGKILL of its owner, {deaths} times"
    return [
        own_figure("coordinator-takeover", sorted(waited)[len(waited) // 2], "s", "≤ 2 s", settings, max=round(max(waited), 3)),
        own_figure("commits-of-other-shards-meanwhile", max(gaps), "s (longest gap)", "untouched", settings),
    ]


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
        own_figure("many-groups-memory", memory / MB, "MB (Pss)", "< 200 MB", settings, before=round(before / MB, 1)),
        own_figure("many-groups-heartbeats-p99", beats["penstock"].p99_ms, "ms (p99)", "≤ 5 ms", settings, **heartbeats, **more),
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

    def error_of(answer: bytes) -> int:
        error = group_frames.joined(answer).error
        return error if error != MEMBER_ID_REQUIRED else 0

    member = group_frames.joined(
        load.ask_until_taken(sock, group_frames.join_frame(group, ""), error_of, COMING, what="JoinGroup")
    )
    join = group_frames.join_frame(group, member.member_id)
    found = group_frames.joined(
        load.ask_until_taken(sock, join, lambda answer: group_frames.joined(answer).error, COMING, what="JoinGroup")
    )
    sock.sendall(group_frames.sync_frame(group, found.generation, found.member_id, found.members))
    error = group_frames.error_after_throttle(load.read_frame(sock))
    if error:
        raise load.BenchError(f"SyncGroup answered error {error}")
    return group_frames.heartbeat_frame(group, found.generation, found.member_id)


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
                if error := group_frames.error_after_throttle(bytes(buffer[:size])):
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
