"""Transactions while processes are killed: what is committed is read once, and nothing else is."""

import uuid

import pytest
from confluent_kafka import KafkaException, Producer

from tests.compat.clients.admin import Admin
from tests.compat.clients.transactions.transactional import WAIT_S, read, transactional, until_done
from tests.support.cluster_harness import LocalCluster


def run_transaction(producer: Producer, topic: str, number: int) -> bool:
    """One record to each of two partitions. Whether it is committed; any other is aborted, and may be tried again."""
    producer.begin_transaction()
    for partition in range(2):
        producer.produce(topic, str(number), partition=partition)
    try:
        until_done(producer.commit_transaction)
    except KafkaException as failure:
        error = failure.args[0]
        assert error.txn_requires_abort(), error
        producer.abort_transaction(WAIT_S)
        return False
    return True


@pytest.mark.parametrize("victim", ["transaction_coordinator-1", "storage-1", "gateway-1", "controller-1"])
def test_a_killed_process_neither_tears_nor_loses_a_transaction(three: LocalCluster, victim: str) -> None:
    admin = Admin(three.bootstrap)
    topic = f"killed-{uuid.uuid4().hex[:8]}"
    admin.create(topic, partitions=2, replicas=3)
    admin.close()
    producer = transactional(three.bootstrap, topic)
    committed = []
    for number in range(40):
        if number == 10:
            three.kill(victim)
            three.start(victim)
        while not run_transaction(producer, topic, number):
            pass
        committed.append(number)
    values = read(three.bootstrap, topic, 2 * len(committed), 2)
    assert sorted(int(value) for value in values) == sorted(2 * committed)
