"""Transfers between accounts in transactions, and copies of them, while every process is killed and stopped.

Producers of librdkafka and Java move amounts from one partition to another, and abort every fifth transfer. A group of each
client copies all that is committed to a topic of its own, in transactions. A reader of each client reads what is committed, again
and again. Meanwhile one process after the other is killed and started again, or stopped for a while; that of Java's clients, too.
`verdict` judges at the end.
"""

import json
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

from tests.compat.clients.admin import Admin
from tests.compat.clients.transactions.topic_reader import TopicReader
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually
from tests.system.chaos.transactions import java_clients
from tests.system.chaos.transactions.committed_reads import CommittedRead, read_again_and_again, read_committed
from tests.system.chaos.transactions.copiers import Copier
from tests.system.chaos.transactions.java_clients import JavaClients
from tests.system.chaos.transactions.tellers import PARTITIONS, TOPIC, Teller, Transfers
from tests.system.chaos.transactions.verdict import verdict

TELLERS, COPIERS, COPY = 4, 2, "copies"
COPIES = (COPY, java_clients.COPY)
PROTOCOLS = ("classic", "consumer")
FAULT_EVERY_S = (3.0, 6.0)
AWAY_S_MAX = 2.0
STOPPED_SHARE, STOPPED_S_MAX = 0.3, 6.0
"""Some are stopped for so long that they are replaced, and wake up with late requests and markers."""
JAVA, JAVA_STOPPED_S = "java", (1.0, 14.0)
"""It may outlast its transactions and its sessions of 10 s."""
END_S, COPIED_WITHIN_S = 60.0, 150.0
"""A member that was killed keeps its partitions for 45 s with the protocol `consumer`."""


def run(count: int, seed: int) -> dict[str, object]:
    chance, transfers, reads = random.Random(seed), Transfers(), list[CommittedRead]()
    protocol = chance.choice(PROTOCOLS)
    with (
        tempfile.TemporaryDirectory(prefix="penstock-chaos-java-") as directory,
        LocalCluster(storage=3, gateways=2, controllers=3, coordinators=2, transaction_coordinators=2) as cluster,
    ):
        bootstrap = cluster.bootstrap
        admin = Admin(bootstrap)
        for topic in (TOPIC, *COPIES):
            admin.create(topic, partitions=PARTITIONS, replicas=3)
        admin.close()
        tellers = [Teller(bootstrap, number, seed, transfers) for number in range(TELLERS)]
        copiers = [Copier(bootstrap, f"copier-{number}", TOPIC, COPY) for number in range(COPIERS)]
        copies: dict[str, list[str]] = {}
        with JavaClients(bootstrap, protocol, seed, Path(directory) / "clients") as java:
            with working(
                *[copier.run for copier in copiers], lambda over: read_again_and_again(bootstrap, TOPIC, PARTITIONS, over, reads)
            ):
                with working(*[teller.run for teller in tellers]):
                    faults = break_processes(cluster, java, count, chance)
                java.end_transfers()
                # What a producer left open ends by its timeout. The copiers' transactions go on.
                ids = {teller.transactional_id for teller in tellers} | java_clients.TRANSACTIONAL_IDS
                eventually(lambda: not open_ids(cluster) & ids, END_S)
                last = read_committed(bootstrap, TOPIC, PARTITIONS)
                count = sum(map(len, last.records))
                with suppress(AssertionError):  # the verdict says what is missing
                    eventually(lambda: all(len(committed_values(bootstrap, topic)) >= count for topic in COPIES), COPIED_WITHIN_S)
            java.end()
            eventually(lambda: not open_ids(cluster), END_S)
            copies = {topic: committed_values(bootstrap, topic) for topic in COPIES}
            of_java = java.transfers()
            java_reads, java_aborted_copies = java.reads(), java.aborted_copies()
    return {
        "faults": dict(faults),
        "protocol": protocol,
        "transfers": {"librdkafka": Counter(transfers.outcomes.values()), "java": Counter(of_java.outcomes.values())},
        "copied": {topic: len(values) for topic, values in copies.items()},
        "aborted_copies": {"librdkafka": sum(len(copier.aborts) for copier in copiers), "java": java_aborted_copies},
        "reads": {"librdkafka": len(reads), "java": len(java_reads)},
        "errors": [*transfers.errors, *(error for copier in copiers for error in copier.errors), *of_java.errors],
        **verdict(transfers.outcomes | of_java.outcomes, last, copies, [*reads, *java_reads]),
    }


@contextmanager
def working(*work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Each runs in a thread until the block has ended, which its event says. Raises what they raise."""
    over = threading.Event()
    with ThreadPoolExecutor(len(work)) as pool:
        running = [pool.submit(each, over) for each in work]
        try:
            yield
        finally:
            over.set()
    for each in running:
        each.result()


def break_processes(cluster: LocalCluster, java: JavaClients, count: int, chance: random.Random) -> Counter[str]:
    """Kills or stops one process after the other, `count` of them. Returns how often which, once all run."""
    faults: Counter[str] = Counter()
    for victim in islice(drawn(cluster.names, chance), count):
        time.sleep(chance.uniform(*FAULT_EVERY_S))
        stops = chance.random() < STOPPED_SHARE
        if victim == JAVA:
            break_java(java, chance, stops=stops)
        else:
            break_process(cluster, victim, chance, stops=stops)
        faults[f"{victim} {'stopped' if stops else 'killed'}"] += 1
    return faults


def drawn(names: list[str], chance: random.Random) -> Iterator[str]:
    """Each once before any comes again. Java's clients come after the first round: a short run has no time for their sessions."""
    yield from chance.sample(names, len(names))
    while True:
        yield from chance.sample([*names, JAVA], len(names) + 1)


def break_process(cluster: LocalCluster, victim: str, chance: random.Random, *, stops: bool) -> None:
    cluster.kill(victim, signal.SIGSTOP if stops else signal.SIGKILL)
    time.sleep(chance.uniform(0.0, STOPPED_S_MAX if stops else AWAY_S_MAX))
    if stops:
        cluster.kill(victim, signal.SIGCONT)
    else:
        cluster.start(victim)
    cluster.wait_ready([victim])


def break_java(java: JavaClients, chance: random.Random, *, stops: bool) -> None:
    if not stops:
        java.kill_and_start()
        return
    with java.stopped():
        time.sleep(chance.uniform(*JAVA_STOPPED_S))


def committed_values(bootstrap: str, topic: str) -> list[str]:
    """What a reader of committed records sees, up to the end of each partition."""
    with TopicReader(bootstrap, topic, PARTITIONS) as reader:
        return [value for records in reader.read_to_end() for _, value in records]


def open_ids(cluster: LocalCluster) -> set[str]:
    """The transactional ids with a transaction under way."""
    names = [name for name in cluster.names if name.startswith("transaction_coordinator")]
    return {name for coordinator in names for name in json.loads(cluster.admin(coordinator, "/debug/transactions"))}
