"""Transactions a second, and how long a commit takes, beside a warm Apache Kafka: `python -m tests.bench.transactions`.

    [--producers 1,8] [--durability replicated,synced] [--seconds 10] [--rounds 3]

Three storage nodes, and three brokers; librdkafka's producers; transactions of ten records of 100 bytes over two partitions. The
systems run at the same time and take turns, after a round that does not count. One JSON line per case: transactions a second of
each, their ratio, and the 50th and 99th percentile of commits in ms.
"""

import argparse
import json
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from itertools import count

from confluent_kafka import Producer

from tests.bench.cases import unique
from tests.bench.sides import Side
from tests.bench.systems import start_replicated_kafka, start_replicated_penstock

RECORDS, SIZE, PARTITIONS = 10, 100, 2
INIT_S, COMMIT_S = 60.0, 60.0
WARM_S = 3.0


class TransactionalProducer:
    """One producer, which commits transactions one after the other."""

    def __init__(self, bootstrap: str, topic: str, name: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 0, "log_level": 2})
        self._producer.init_transactions(INIT_S)
        self._topic = topic

    def run(self, until: float, commits_ms: list[float]) -> None:
        value = bytes(SIZE)
        while time.monotonic() < until:
            self._producer.begin_transaction()
            for number in range(RECORDS):
                self._producer.produce(self._topic, value, partition=number % PARTITIONS)
            begun = time.perf_counter()
            self._producer.commit_transaction(COMMIT_S)
            commits_ms.append((time.perf_counter() - begun) * 1000)


def measure(durability: str, producer_counts: Sequence[int], seconds: float, rounds: int) -> list[dict[str, object]]:
    figures: list[dict[str, object]] = []
    with start_replicated_penstock(durability) as penstock, start_replicated_kafka(durability) as kafka:
        sides = (penstock, kafka)
        for producers in producer_counts:
            teams = {side.name: _team(side, producers) for side in sides}
            for side in sides:
                _round(teams[side.name], WARM_S)
            commits: dict[str, list[float]] = {side.name: [] for side in sides}
            for number in range(rounds):
                for side in sides if number % 2 else reversed(sides):
                    commits[side.name] += _round(teams[side.name], seconds)
            rates = {name: len(done) / (seconds * rounds) for name, done in commits.items()}
            figure: dict[str, object] = {"case": "transactions", "producers": producers, "durability": durability}
            figure |= {"ratio": round(rates["penstock"] / rates["kafka"], 2)}
            figure |= {name: {"per_second": round(rates[name], 1), **_percentiles(done)} for name, done in commits.items()}
            figures.append(figure)
    return figures


def _team(side: Side, producers: int) -> list[TransactionalProducer]:
    topic = unique("transactions")
    side.create_topic(topic, PARTITIONS)
    names = count(1)
    return [TransactionalProducer(side.bootstrap, topic, f"{topic}-{next(names)}") for _ in range(producers)]


def _round(team: Sequence[TransactionalProducer], seconds: float) -> list[float]:
    commits: list[list[float]] = [[] for _ in team]
    until = time.monotonic() + seconds
    threads = [threading.Thread(target=member.run, args=(until, own)) for member, own in zip(team, commits, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [commit for own in commits for commit in own]


def _percentiles(commits_ms: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(commits_ms, n=100)
    return {"p50_ms": round(cuts[49], 1), "p99_ms": round(cuts[98], 1)}


def transactions() -> list[dict[str, object]]:
    """With one producer and with eight, for each durability of the data topics."""
    return [figure for durability in ("replicated", "synced") for figure in measure(durability, (1, 8), 10.0, 3)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.transactions")
    parser.add_argument("--producers", default="1,8")
    parser.add_argument("--durability", default="replicated,synced")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    for durability in given.durability.split(","):
        counts = [int(text) for text in given.producers.split(",")]
        for figure in measure(durability, counts, given.seconds, given.rounds):
            print(json.dumps(figure), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
