"""Transfers between accounts, in transactions, while processes are killed: `python -m tests.system.transfers`.

    [--seconds 600] [--seed 1]

Each of four producers of librdkafka moves an amount from one partition to another, and aborts every fifth transfer. Meanwhile one
process after the other is killed and started again. At the end a reader of committed records must see both halves of each
transfer that was committed, and nothing of an aborted one. Prints one JSON line, and fails if that does not hold.
"""

import argparse
import json
import random
import sys
import threading
import time
import uuid
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.compat.clients.admin import Admin
from tests.compat.clients.transactions.transactional import WAIT_S, until_done
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually

PRODUCERS, PARTITIONS, TOPIC = 4, 4, "transfers"
TIMEOUT_MS = 10_000
ABORTED_SHARE = 0.2
KILL_EVERY_S = (3.0, 6.0)
AWAY_S_MAX = 2.0
END_S = 60.0
COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"


@dataclass
class Transfers:
    """What the producers know of each transfer, by name."""

    outcomes: dict[str, str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)


class Teller:
    """One transactional producer. A transfer whose outcome it does not know is the last one of its producer."""

    def __init__(self, bootstrap: str, number: int, seed: int, transfers: Transfers) -> None:
        self._bootstrap, self._number, self._transfers = bootstrap, number, transfers
        self._chance = random.Random(f"{seed} {number}")

    def run(self, over: threading.Event) -> None:
        producer = self._opened()
        for count in range(1 << 30):
            if over.is_set():
                return
            name = f"{self._number}:{count}"
            try:
                self._transfers.outcomes[name] = self._transfer(producer, name)
            except KafkaException as failure:
                self._transfers.outcomes[name] = UNKNOWN
                self._transfers.errors.append(str(failure))
                producer = self._opened()

    def _opened(self) -> Producer:
        settings = {"transactional.id": f"teller-{self._number}", "transaction.timeout.ms": TIMEOUT_MS, "log_level": 0}
        producer = Producer({"bootstrap.servers": self._bootstrap, **settings})
        until_done(producer.init_transactions)
        return producer

    def _transfer(self, producer: Producer, name: str) -> str:
        amount = self._chance.randrange(1, 100)
        giver, taker = self._chance.sample(range(PARTITIONS), 2)
        producer.begin_transaction()
        producer.produce(TOPIC, f"{name} {-amount}", partition=giver)
        producer.produce(TOPIC, f"{name} {amount}", partition=taker)
        if self._chance.random() < ABORTED_SHARE:
            producer.flush(WAIT_S)
        else:
            try:
                until_done(producer.commit_transaction)
            except KafkaException as failure:
                if not failure.args[0].txn_requires_abort():
                    raise
            else:
                return COMMITTED
        until_done(producer.abort_transaction)
        return ABORTED


def committed_amounts(bootstrap: str) -> dict[str, list[int]]:
    """The amounts of each transfer that a reader of committed records sees, up to the end of each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    ended: set[int | None] = set()
    amounts: dict[str, list[int]] = {}
    while len(ended) < PARTITIONS:
        for message in consumer.consume(500, 1.0):
            error = message.error()
            if error is None:
                name, amount = (message.value() or b"").decode().split()
                amounts.setdefault(name, []).append(int(amount))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    consumer.close()
    return amounts


def verdict(transfers: Transfers, amounts: dict[str, list[int]]) -> dict[str, object]:
    """What is wrong, by name of the transfer."""
    outcomes = transfers.outcomes
    return {
        "torn": [name for name, seen in amounts.items() if len(seen) != 2 or sum(seen)],
        "lost": [name for name, outcome in outcomes.items() if outcome == COMMITTED and name not in amounts],
        "not_aborted": [name for name in amounts if outcomes.get(name) == ABORTED],
    }


def run(seconds: float, seed: int) -> dict[str, object]:
    chance, transfers, over = random.Random(seed), Transfers(), threading.Event()
    with LocalCluster(storage=3, gateways=2, controllers=3) as cluster:
        admin = Admin(cluster.bootstrap)
        admin.create(TOPIC, partitions=PARTITIONS, replicas=3)
        admin.close()
        tellers = [Teller(cluster.bootstrap, number, seed, transfers) for number in range(PRODUCERS)]
        threads = [threading.Thread(target=teller.run, args=(over,)) for teller in tellers]
        for thread in threads:
            thread.start()
        victims = [name for name in cluster.names if name.partition("-")[0] not in ("etcd", "group_coordinator")]
        kills: Counter[str] = Counter()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            over.wait(chance.uniform(*KILL_EVERY_S))
            victim = chance.choice(victims)
            cluster.kill(victim)
            over.wait(chance.uniform(0.0, AWAY_S_MAX))
            cluster.start(victim)
            cluster.wait_ready([victim])
            kills[victim] += 1
        over.set()
        for thread in threads:
            thread.join()
        # What a producer left open ends by its timeout.
        eventually(lambda: json.loads(cluster.admin("transaction_coordinator-1", "/debug/transactions")) == {}, END_S)
        amounts = committed_amounts(cluster.bootstrap)
    counts = Counter(transfers.outcomes.values())
    return {"kills": dict(kills), "transfers": dict(counts), "errors": len(transfers.errors), **verdict(transfers, amounts)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.system.transfers")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    found = run(given.seconds, given.seed)
    print(json.dumps(found))
    return 1 if found["torn"] or found["lost"] or found["not_aborted"] else 0


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
