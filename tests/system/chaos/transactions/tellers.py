"""Producers of librdkafka that move amounts from one partition to another, and abort every fifth transfer."""

import random
import threading
from dataclasses import dataclass, field

from confluent_kafka import KafkaException, Producer

from tests.compat.clients.transactions.transactional import WAIT_S, opened_amid_faults, until_done

PARTITIONS, TOPIC = 4, "transfers"
TIMEOUT_MS = 10_000
ABORTED_SHARE = 0.2
COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"
"""A transfer is unknown from when its producer asks for the commit, until the answer."""


@dataclass
class Transfers:
    """What the producers know of each transfer, by name."""

    outcomes: dict[str, str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)


class Teller:
    """One transactional producer. After an error that it cannot abort it goes on as another producer.

    `pause_s`: after each transfer. Without it a teller takes all the CPU that the cluster gives it.
    """

    def __init__(self, bootstrap: str, number: int, seed: int, transfers: Transfers, *, pause_s: float = 0.0) -> None:
        self.transactional_id = f"teller-{number}"
        self._pause_s = pause_s
        self._bootstrap, self._number, self._transfers = bootstrap, number, transfers
        self._chance = random.Random(f"{seed} {number}")

    def run(self, over: threading.Event) -> None:
        producer = self._opened()
        for count in range(1 << 30):
            if over.is_set():
                return
            try:
                self._transfer(producer, f"{self._number}:{count}")
            except KafkaException as failure:
                self._transfers.errors.append(str(failure))
                producer = self._opened()
            if self._pause_s:
                over.wait(self._pause_s)

    def _opened(self) -> Producer:
        return opened_amid_faults(self._bootstrap, self.transactional_id, **{"transaction.timeout.ms": TIMEOUT_MS})

    def _transfer(self, producer: Producer, name: str) -> None:
        amount = self._chance.randrange(1, 100)
        giver, taker = self._chance.sample(range(PARTITIONS), 2)
        outcomes = self._transfers.outcomes
        outcomes[name] = ABORTED
        producer.begin_transaction()
        producer.produce(TOPIC, f"{name} {-amount}", partition=giver)
        producer.produce(TOPIC, f"{name} {amount}", partition=taker)
        if self._chance.random() < ABORTED_SHARE:
            producer.flush(WAIT_S)
        else:
            outcomes[name] = UNKNOWN
            try:
                until_done(producer.commit_transaction)
            except KafkaException as failure:
                if not failure.args[0].txn_requires_abort():
                    raise
            else:
                outcomes[name] = COMMITTED
                return
        until_done(producer.abort_transaction)
        outcomes[name] = ABORTED
