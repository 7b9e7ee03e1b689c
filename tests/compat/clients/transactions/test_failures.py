"""Transactions while processes are killed: what is committed is read once, and nothing else is."""

import uuid

import pytest
from confluent_kafka import KafkaException, Producer

from tests.compat.clients.admin import Admin
from tests.compat.clients.transactions.transactional import WAIT_S, Copy, fill, read, transactional, until_done
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


@pytest.mark.parametrize("victim", ["transaction_coordinator-1", "gateway-1"])
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


@pytest.mark.parametrize("victim", ["group_coordinator-1", "gateway-1"])
def test_a_killed_process_neither_loses_nor_doubles_what_is_copied(three: LocalCluster, victim: str) -> None:
    admin = Admin(three.bootstrap)
    source = f"source-{uuid.uuid4().hex[:8]}"
    for name in (source, f"{source}-copy"):
        admin.create(name, partitions=2, replicas=3)
    admin.close()
    fill(three.bootstrap, source, 600)
    copy = Copy(three.bootstrap, source, f"{source}-copy")
    killed = False
    while copy.copied < 600:
        values = copy.begin()
        if copy.copied > 200 and not killed:
            killed = True
            three.kill(victim)
            three.start(victim)
        try:
            copy.commit()
        except KafkaException as failure:
            if not failure.args[0].txn_requires_abort():
                raise
            copy.abort()
        else:
            copy.copied += len(values)
    copy.close()
    assert sorted(int(value) for value in read(three.bootstrap, f"{source}-copy", 600, 2)) == list(range(600))
