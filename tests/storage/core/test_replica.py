"""The three numbers of a replica: what raises the high watermark, and what never lowers it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.cluster.records import InSync
from services.storage.core.replication.leader.follower_progress import LagLimits
from services.storage.core.replication.leader.replica import Replica, recovered_high_watermark
from services.storage.core.replication.leadership import Lead
from tests.storage.core.taken_effects import rose


def lead(epoch: int, *nodes: int, partition_epoch: int = 0) -> Lead:
    """As node 1, with replicas on nodes 1 to 4, each in its incarnation 10."""
    return Lead(epoch, tuple(InSync(node, 10) for node in nodes), partition_epoch, (1, 2, 3, 4), 10)


def report(replica: Replica, node: int, *, durable: int, log_end: int, now: float = 0.0, incarnation: int = 10) -> None:
    replica.reported(node, incarnation, log_end=log_end, durable=durable, now=now)


def alone(*, synced: bool, log_end: int = 0, durable: int = 0, high_watermark: int = 0) -> Replica:
    replica = Replica(1, log_end=log_end, durable=durable, high_watermark=high_watermark, synced=synced)
    replica.become_leader(lead(5, 1))
    replica.take_effects()
    return replica


def test_a_replicated_topic_commits_as_soon_as_it_is_appended() -> None:
    replica = alone(synced=False)
    replica.appended(10)
    assert rose(replica)
    assert replica.high_watermark == 10


def test_a_synced_topic_commits_only_what_a_sync_round_made_durable() -> None:
    replica = alone(synced=True)
    replica.appended(10)
    assert not rose(replica)
    assert replica.high_watermark == 0
    replica.synced_to(7)
    assert rose(replica)
    assert replica.high_watermark == 7


def test_with_followers_the_slowest_durable_offset_of_the_isr_decides() -> None:
    replica = Replica(1, log_end=0, durable=0, high_watermark=0, synced=True)
    replica.become_leader(lead(5, 1, 2, 3))
    replica.appended(10)
    replica.synced_to(10)
    report(replica, 2, durable=4, log_end=10)
    assert replica.high_watermark == 0
    report(replica, 3, durable=6, log_end=10)
    assert rose(replica)
    assert replica.high_watermark == 4


def test_a_member_that_was_looked_at_before_it_reported_counts_when_it_does() -> None:
    """Whether it lags was asked first: its reports then counted for nothing, and the high watermark stood still."""
    replica = Replica(1, log_end=0, durable=0, high_watermark=0, synced=False)
    replica.become_leader(lead(5, 1, 2))
    replica.appended(10)
    assert replica.decide(0.0, LagLimits(10.0), lambda node, incarnation: True) is None
    report(replica, 2, durable=0, log_end=10)
    assert rose(replica)
    assert replica.high_watermark == 10


def test_a_report_from_outside_the_isr_counts_for_nothing() -> None:
    replica = Replica(1, log_end=0, durable=0, high_watermark=0, synced=False)
    replica.become_leader(lead(5, 1, 2))
    replica.appended(10)
    report(replica, 3, durable=10, log_end=10)
    assert not rose(replica)
    report(replica, 1, durable=99, log_end=99)
    assert not rose(replica)
    assert replica.high_watermark == 0


def test_a_new_epoch_forgets_what_followers_reported_in_the_old_one() -> None:
    replica = Replica(1, log_end=0, durable=0, high_watermark=0, synced=False)
    replica.become_leader(lead(5, 1, 2))
    replica.appended(10)
    report(replica, 2, durable=0, log_end=4)
    replica.become_leader(lead(6, 1, 2))
    replica.take_effects()
    replica.appended(20)
    assert not rose(replica)
    assert replica.high_watermark == 4


def test_the_high_watermark_waits_while_the_isr_is_too_small() -> None:
    replica = Replica(1, log_end=0, durable=0, high_watermark=0, synced=False)
    replica.configure(synced=False, min_in_sync=2)
    replica.become_leader(lead(5, 1))
    replica.appended(10)
    assert not rose(replica)
    replica.configure(synced=False, min_in_sync=1)
    assert rose(replica)
    assert replica.high_watermark == 10


def test_one_that_resigned_advances_no_more() -> None:
    replica = alone(synced=True)
    replica.appended(10)
    replica.become_follower(6)
    replica.synced_to(10)
    assert not rose(replica)
    assert replica.high_watermark == 0
    assert replica.leader_epoch == 6


def test_an_older_epoch_cannot_be_led() -> None:
    replica = alone(synced=True)
    with pytest.raises(ValueError, match="behind"):
        replica.become_leader(lead(4, 1))


def test_a_new_leader_starts_with_the_high_watermark_that_it_knew() -> None:
    replica = alone(synced=True, log_end=10, durable=10, high_watermark=3)
    assert replica.high_watermark == 10  # alone in the ISR, and durable: committed on becoming leader
    ahead = Replica(1, log_end=5, durable=5, high_watermark=9, synced=True)
    assert ahead.high_watermark == 5  # a checkpoint cannot name more than the log holds


Step = tuple[str, int, int]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.just(0), st.integers(1, 5)),
        st.tuples(st.just("sync"), st.just(0), st.integers(0, 5)),
        st.tuples(st.just("report"), st.integers(2, 4), st.integers(0, 40)),
        st.tuples(st.just("isr"), st.integers(1, 7), st.just(0)),
        st.tuples(st.just("durability"), st.integers(0, 1), st.just(0)),
    ),
    max_size=40,
)


@given(steps)
def test_the_high_watermark_never_falls_and_never_passes_what_the_isr_holds(history: list[Step]) -> None:
    replica = alone(synced=True)
    synced, isr, partition_epoch = True, {1}, 0
    ends = {1: 0}
    durables = {1: 0}
    for what, who, amount in history:
        before = replica.high_watermark
        match what:
            case "append":
                ends[1] += amount
                replica.appended(ends[1])
            case "sync":
                durables[1] = min(ends[1], durables[1] + amount)
                replica.synced_to(durables[1])
            case "report":
                ends[who] = min(amount, ends[1])
                durables[who] = ends[who] // 2
                report(replica, who, durable=durables[who], log_end=ends[who])
            case "isr":
                isr = {1} | {node for bit, node in enumerate((2, 3, 4)) if who >> bit & 1}
                partition_epoch += 1
                replica.become_leader(lead(5, *sorted(isr), partition_epoch=partition_epoch))
            case _:
                synced = bool(who)
                replica.configure(synced=synced, min_in_sync=1)
        held = min((durables if synced else ends).get(node, 0) for node in isr)
        assert replica.high_watermark >= before
        assert replica.high_watermark == max(before, held)


def test_a_checkpoint_of_an_earlier_topic_shows_nothing_that_is_not_durable() -> None:
    """Deleted, made again, and killed before the next checkpoint: the entry bears the name of the new topic."""
    assert recovered_high_watermark(1000, log_start=0, durable=3, synced=True) == 3
    assert recovered_high_watermark(2, log_start=0, durable=3, synced=True) == 2
    assert recovered_high_watermark(0, log_start=7, durable=3, synced=True) == 7
    assert recovered_high_watermark(1000, log_start=0, durable=3, synced=False) == 1000
