"""Members join, leave and crash: nobody owns what somebody else does, nothing is skipped, or read twice without cause.

The full size, 200 members over 500 partitions: `python -m tests.system.storm`.
"""

import asyncio

import pytest

from tests.support.cluster_harness import LocalCluster
from tests.system.storm.ledger import Ledger
from tests.system.storm.run import KINDS, Size, storm

SIZE = Size(members=15, partitions=150, events=12)
SEED = 1937669044
"""`python -m tests.system.storm` draws others."""


def test_in_a_storm_of_rebalances_no_partition_is_owned_twice_and_nothing_is_skipped(topic: str) -> None:
    with LocalCluster(storage=1, gateways=2, coordinators=2) as cluster:
        outcomes = asyncio.run(storm(cluster, topic, list(KINDS), SIZE, SEED))
    for outcome in outcomes:
        assert outcome.epochs > 2, outcome
        assert sum(outcome.events.values()) == SIZE.events
        assert outcome.read >= SIZE.partitions
        assert outcome.redelivered == 0 or outcome.ends.keys() - {"clean"}, outcome


@pytest.fixture
def ledger() -> Ledger:
    """`a` owns partition 0 since epoch 5, and has read two records and committed one."""
    made = Ledger(2)
    made.take("a", 0, 5, 1.0)
    made.begin("a", 0, 0)
    made.deliver("a", 0, 0, 1)
    made.commits({0: 1})
    made.acknowledged("a", {0: 1})
    assert not made.complaints
    return made


def test_a_second_owner_in_the_same_epoch_is_noticed(ledger: Ledger) -> None:
    ledger.take("b", 0, 5, 2.0)
    assert ledger.complaints


def test_an_owner_that_goes_on_as_a_member_beside_a_newer_one_is_noticed(ledger: Ledger) -> None:
    ledger.take("b", 0, 6, 2.0)
    ledger.alive("a", 1.5)
    assert not ledger.complaints, "that was asked before"
    ledger.alive("a", 2.5)
    assert ledger.complaints


def test_an_owner_that_was_declared_dead_may_learn_it_late(ledger: Ledger) -> None:
    ledger.take("b", 0, 6, 2.0)
    ledger.begin("b", 0, 1)
    ledger.deliver("a", 0, 2, 2)
    ledger.lose("a", "fenced")
    ledger.deliver("b", 0, 1, 1)
    assert not ledger.complaints
    assert ledger.redelivered == 1
    assert ledger.owns("b", 0)


def test_a_commit_whose_answer_was_lost_counts_once_its_offset_is_told(ledger: Ledger) -> None:
    ledger.commits({0: 2})
    ledger.lose("a", "crashed")
    ledger.take("b", 0, 6, 2.0)
    ledger.begin("b", 0, 2)
    assert not ledger.complaints
    assert ledger.committed[0] == 2, "b has nothing to commit, and nobody would ever"


@pytest.mark.parametrize("position", [0, 2])
def test_a_position_that_nobody_committed_is_noticed(ledger: Ledger, position: int) -> None:
    ledger.lose("a", "crashed")
    ledger.take("b", 0, 6, 2.0)
    ledger.begin("b", 0, position)
    assert ledger.complaints


def test_a_record_that_is_skipped_is_noticed(ledger: Ledger) -> None:
    ledger.deliver("a", 0, 3, 3)
    assert ledger.complaints


def test_letting_go_of_what_is_read_and_not_committed_is_no_clean_end(ledger: Ledger) -> None:
    ledger.release("a", 0)
    assert ledger.complaints


def test_a_commit_that_goes_back_is_noticed(ledger: Ledger) -> None:
    ledger.acknowledged("a", {0: 0})
    assert ledger.complaints
