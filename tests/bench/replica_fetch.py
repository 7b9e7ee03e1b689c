"""Followers' pulls at several values of `replica.fetch.max.bytes`. `python -m tests.bench.replica_fetch` prints JSON lines.

    [--mib 1,4] [--rounds 5] [--seconds 4] [--behind-mib 512]

Three storage nodes behind one gateway, and a topic of one partition with three replicas. The values take turns, round by round.

- produce: acks=all in batches of 1 MB, 20 in flight. MB/s, and CPU seconds of the three nodes per GB.
- catch-up: a follower is down while the leader takes so many MiB. Seconds from its start until it is in sync again.

Other load spoils both: take figures on a quiet machine.
"""

import argparse
import json
import signal
import statistics
import sys
import time
from dataclasses import dataclass, field

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.bench import frames, load
from tests.bench.cpu import cpu_s
from tests.bench.sides import Side
from tests.bench.systems import SEGMENT_BYTES
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually

NODES = (1, 2, 3)
FOLLOWER = 3
BATCH_BYTES, VALUE_BYTES = 1_000_000, 1_000
ENOUGH_BYTES = 1 << 40


@dataclass
class Figures:
    """What one value of the config gave, round by round."""

    megabytes_per_s: list[float] = field(default_factory=list)
    cpu_s_per_gb: list[float] = field(default_factory=list)
    catch_up_s: list[float] = field(default_factory=list)

    def medians(self) -> dict[str, float]:
        return {name: round(statistics.median(values), 2) for name, values in vars(self).items()}


class Trial:
    """One cluster, whose nodes pull as they are told."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._side = Side("penstock", cluster.bootstrap, {**SEGMENT_BYTES, "durability": "replicated"}, nodes=NODES)
        self._batch, _ = frames.batch_of_about(BATCH_BYTES, VALUE_BYTES, time.time_ns() // 1_000_000)

    def pull_at_most(self, mib: int) -> None:
        entry = ConfigEntry("replica.fetch.max.bytes", str(mib << 20), incremental_operation=AlterConfigOpType.SET)
        for node in NODES:
            resource = ConfigResource(ResourceType.BROKER, str(node), incremental_configs=[entry])
            self._side.admin.incremental_alter_configs([resource])[resource].result(timeout=30)

    def produce(self, topic: str, seconds: float, figures: Figures) -> None:
        self._side.create_topic(topic, 1)
        frame = frames.produce_frame(topic, 0, self._batch, -1)
        position = frames.produce_error_position(topic)
        (leader,) = self._side.leaders(topic)
        with load.connect(leader) as sock:
            load.first_answer(sock, frame, position)
        nodes = [self._cluster.pid(f"storage-{node}") for node in NODES]
        before = sum(map(cpu_s, nodes))
        done = load.produce([(leader, frame)], position, len(self._batch), load.IN_FLIGHT, seconds, ENOUGH_BYTES)
        figures.megabytes_per_s.append(done.megabytes_per_s)
        figures.cpu_s_per_gb.append((sum(map(cpu_s, nodes)) - before) / (done.bytes / 1e9))
        self._side.delete_topic(topic)

    def catch_up(self, topic: str, behind_mib: int, figures: Figures) -> None:
        self._side.create_topic(topic, 1)
        node = f"storage-{FOLLOWER}"
        self._cluster.kill(node, signal.SIGTERM)
        eventually(lambda: FOLLOWER not in self._in_sync(topic))
        batches = [self._batch] * ((behind_mib << 20) // len(self._batch))
        load.produce_each(self._side.leaders(topic)[0], topic, batches, frames.produce_error_position(topic))
        self._cluster.start(node)
        since = time.monotonic()
        eventually(lambda: FOLLOWER in self._in_sync(topic))
        figures.catch_up_s.append(time.monotonic() - since)
        self._cluster.wait_ready([node])
        self._side.delete_topic(topic)

    def _in_sync(self, topic: str) -> list[int]:
        return list(self._side.admin.list_topics(topic, timeout=10).topics[topic].partitions[0].isrs)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.replica_fetch")
    parser.add_argument("--mib", default="1,4")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--behind-mib", type=int, default=512)
    given = parser.parse_args(arguments)
    figures = {int(mib): Figures() for mib in given.mib.split(",")}
    with LocalCluster(storage=len(NODES)) as cluster:
        trial = Trial(cluster)
        for turn in range(given.rounds):
            for mib in sorted(figures, reverse=bool(turn % 2)):
                trial.pull_at_most(mib)
                trial.produce(f"produce-{turn}-{mib}", given.seconds, figures[mib])
                trial.catch_up(f"catch-up-{turn}-{mib}", given.behind_mib, figures[mib])
    for mib, measured in figures.items():
        settings = f"one partition, three replicas, batches of 1 MB; {given.behind_mib} MiB behind"
        line = {"name": f"replica-fetch-max-{mib}-mib", **measured.medians(), "rounds": given.rounds, "settings": settings}
        print(json.dumps(line), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
