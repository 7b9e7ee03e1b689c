"""Transfers between accounts in transactions, and copies of them, while processes are killed and stopped.

Each of four producers of librdkafka moves an amount from one partition to another, and aborts every fifth transfer. Two consumers
of a group copy all that is committed, in transactions of their own. Meanwhile one process after the other is killed and started
again, or stopped for a while. At the end a reader of committed records must see both halves of each transfer that was committed,
and nothing of an aborted one, and the copy must equal what was copied.
"""

import json
import random
import signal
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

from confluent_kafka import KafkaException, Producer

from tests.compat.clients.admin import Admin
from tests.compat.clients.transactions.topic_reader import TopicReader
from tests.compat.clients.transactions.transactional import WAIT_S, opened_amid_faults, until_done
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually
from tests.system.chaos.copiers import Copier

PRODUCERS, PARTITIONS, TOPIC = 4, 4, "transfers"
COPIERS, COPY = 2, "copies"
TIMEOUT_MS = 10_000
ABORTED_SHARE = 0.2
FAULT_EVERY_S = (3.0, 6.0)
AWAY_S_MAX = 2.0
STOPPED_SHARE, STOPPED_S_MAX = 0.3, 6.0
"""Some are stopped for so long that they are replaced, and wake up with late requests and markers."""
END_S = 60.0
COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"
WRONG = ("torn", "lost", "not_aborted", "not_copied", "copied_twice")


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
        settings = {"transaction.timeout.ms": TIMEOUT_MS}
        return opened_amid_faults(self._bootstrap, f"teller-{self._number}", **settings)

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


def committed_records(bootstrap: str, topic: str) -> list[str]:
    """What a reader of committed records sees, up to the end of each partition."""
    with TopicReader(bootstrap, topic, PARTITIONS) as reader:
        return [value for records in reader.read_to_end() for _, value in records]


def verdict(transfers: Transfers, records: list[str], copied: list[str]) -> dict[str, object]:
    """What is wrong, by name of the transfer, and by copied record."""
    outcomes = transfers.outcomes
    amounts: dict[str, list[int]] = {}
    for record in records:
        name, amount = record.split()
        amounts.setdefault(name, []).append(int(amount))
    return {
        "torn": [name for name, seen in amounts.items() if len(seen) != 2 or sum(seen)],
        "lost": [name for name, outcome in outcomes.items() if outcome == COMMITTED and name not in amounts],
        "not_aborted": [name for name in amounts if outcomes.get(name) == ABORTED],
        "not_copied": list((Counter(records) - Counter(copied)).elements()),
        "copied_twice": list((Counter(copied) - Counter(records)).elements()),
    }


def run(seconds: float, seed: int) -> dict[str, object]:
    chance, transfers, over = random.Random(seed), Transfers(), threading.Event()
    with LocalCluster(storage=3, gateways=2, controllers=3) as cluster:
        admin = Admin(cluster.bootstrap)
        for topic in (TOPIC, COPY):
            admin.create(topic, partitions=PARTITIONS, replicas=3)
        admin.close()
        tellers = [Teller(cluster.bootstrap, number, seed, transfers) for number in range(PRODUCERS)]
        threads = [threading.Thread(target=teller.run, args=(over,)) for teller in tellers]
        copiers = [Copier(cluster.bootstrap, f"copier-{number}", TOPIC, COPY) for number in range(COPIERS)]
        all_copied = threading.Event()
        copying = [threading.Thread(target=copier.run, args=(all_copied,)) for copier in copiers]
        for thread in (*threads, *copying):
            thread.start()
        victims = [name for name in cluster.names if not name.startswith("etcd")]
        faults: Counter[str] = Counter()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            over.wait(chance.uniform(*FAULT_EVERY_S))
            victim = chance.choice(victims)
            stops = chance.random() < STOPPED_SHARE
            cluster.kill(victim, signal.SIGSTOP if stops else signal.SIGKILL)
            over.wait(chance.uniform(0.0, STOPPED_S_MAX if stops else AWAY_S_MAX))
            if stops:
                cluster.kill(victim, signal.SIGCONT)
            else:
                cluster.start(victim)
            cluster.wait_ready([victim])
            faults[f"{victim} {'stopped' if stops else 'killed'}"] += 1
        over.set()
        for thread in threads:
            thread.join()
        # What a producer left open ends by its timeout. The copiers' transactions go on.
        eventually(lambda: not open_ids(cluster) & {f"teller-{number}" for number in range(PRODUCERS)}, END_S)
        records = committed_records(cluster.bootstrap, TOPIC)
        with suppress(AssertionError):  # the verdict says what is missing
            eventually(lambda: len(committed_records(cluster.bootstrap, COPY)) >= len(records), END_S)
        all_copied.set()
        for thread in copying:
            thread.join()
        eventually(lambda: not open_ids(cluster), END_S)
        copied = committed_records(cluster.bootstrap, COPY)
    counts = Counter(transfers.outcomes.values())
    aborted_copies = sum(copier.aborted for copier in copiers)
    errors = [*transfers.errors, *(error for copier in copiers for error in copier.errors)]
    known = {"faults": dict(faults), "transfers": dict(counts), "copied": len(copied), "aborted_copies": aborted_copies}
    return {**known, "errors": errors, **verdict(transfers, records, copied)}


def open_ids(cluster: LocalCluster) -> set[str]:
    """The transactional ids with a transaction under way."""
    return set(json.loads(cluster.admin("transaction_coordinator-1", "/debug/transactions")))
