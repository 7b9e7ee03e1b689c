"""ISR membership: every way in and out, and what counts while nobody knows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.cluster.records import InSync
from services.storage.core.replication.leader.follower_progress import LagLimits
from services.storage.core.replication.leader.in_sync import TRANSITIONS, Event, InSyncReplicas, Proposal, Standing
from services.storage.core.replication.leader.replica import Replica
from services.storage.core.replication.leadership import Lead
from tests.storage.core.taken_effects import rose

LIMITS = LagLimits(10.0)


class Session:
    def __init__(self, alive_at: float = 0.0) -> None:
        self.alive_at = alive_at


def members(*nodes: int) -> tuple[InSync, ...]:
    return tuple(InSync(node, 10) for node in nodes)


def anyone(node: int, incarnation: int) -> bool:
    return True


def leader(
    *isr: int, log_end: int = 0, synced: bool = False, replicas: tuple[int, ...] = (1, 2, 3), high_watermark: int = 0
) -> Replica:
    replica = Replica(1, log_end=log_end, durable=log_end, high_watermark=high_watermark, synced=synced)
    replica.become_leader(Lead(5, members(*isr), 0, replicas, 10))
    return replica


def heard(replica: Replica, node: int, end: int, now: float, *, durable: int | None = None, incarnation: int = 10) -> Session:
    session = Session(now)
    replica.reported(node, incarnation, log_end=end, durable=end if durable is None else durable, now=now, contact=session)
    return session


def nodes(proposal: Proposal | None) -> list[int]:
    assert proposal is not None
    return [member.node_id for member in proposal.isr]


# -- the table ------------------------------------------------------------------------------------------------------------


def test_the_isr_of_a_state_holds_wherever_a_replica_stood() -> None:
    for standing in Standing:
        assert TRANSITIONS[standing, Event.SHOWN_IN] is Standing.IN
        assert TRANSITIONS[standing, Event.SHOWN_OUT] is Standing.OUT


def test_a_refusal_leads_back_to_where_the_proposal_began() -> None:
    assert TRANSITIONS[TRANSITIONS[Standing.OUT, Event.PROPOSED_IN], Event.REFUSED] is Standing.OUT
    assert TRANSITIONS[TRANSITIONS[Standing.IN, Event.PROPOSED_OUT], Event.REFUSED] is Standing.IN


def test_one_proposal_at_a_time() -> None:
    isr = InSyncReplicas(5)
    isr.shown(3, members(1))
    isr.propose({1: 10, 2: 10})
    with pytest.raises(RuntimeError):
        isr.propose({1: 10})


def test_only_a_later_state_settles_a_proposal() -> None:
    isr = InSyncReplicas(5)
    isr.shown(3, members(1, 3))
    proposal = isr.propose({1: 10, 2: 10})
    assert (isr.standing(2), isr.standing(3)) == (Standing.JOINING, Standing.LEAVING)
    assert set(isr.maximal()) == {1, 2, 3}
    assert not isr.shown(3, members(1, 3))
    assert not isr.shown(2, members(1))
    assert isr.proposal is proposal
    assert isr.shown(4, members(1, 2))
    assert (isr.standing(2), isr.standing(3)) == (Standing.IN, Standing.OUT)
    assert isr.proposal is None
    assert not isr.refused(proposal)


facts = st.lists(
    st.one_of(
        st.tuples(st.just("shown"), st.integers(0, 9), st.sets(st.integers(2, 4))),
        st.tuples(st.just("propose"), st.just(0), st.sets(st.integers(2, 4))),
        st.tuples(st.just("refused"), st.just(0), st.just(set[int]())),
    ),
    max_size=30,
)


@given(facts)
def test_whatever_happens_the_maximal_isr_is_what_is_committed_and_what_is_proposed(
    history: list[tuple[str, int, set[int]]],
) -> None:
    isr = InSyncReplicas(5)
    isr.shown(0, members(1))
    committed, proposed, epoch = {1}, set[int](), 0
    for what, partition_epoch, who in history:
        match what:
            case "shown":
                if isr.shown(partition_epoch, members(1, *sorted(who))):
                    assert partition_epoch > epoch
                    committed, proposed, epoch = {1, *who}, set(), partition_epoch
            case "propose" if isr.proposal is None:
                isr.propose(dict.fromkeys([1, *sorted(who)], 10))
                proposed = {1, *who}
            case "refused" if isr.proposal is not None:
                isr.refused(isr.proposal)
                proposed = set()
        assert set(isr.committed) == committed
        assert set(isr.maximal()) == committed | proposed
        in_states = {node for node in (1, 2, 3, 4) if isr.standing(node) is not Standing.OUT}
        assert in_states == committed | proposed


# -- who joins ------------------------------------------------------------------------------------------------------------


def test_a_follower_with_all_committed_records_joins() -> None:
    replica = leader(1, log_end=5)
    heard(replica, 2, 4, 0.0)
    assert replica.decide(0.0, LIMITS, anyone) is None
    heard(replica, 2, 5, 1.0)
    assert nodes(replica.decide(1.0, LIMITS, anyone)) == [1, 2]
    assert replica.decide(1.0, LIMITS, anyone) is None  # it is under way


def test_a_joining_replica_holds_the_high_watermark_from_then_on() -> None:
    replica = leader(1, log_end=5)
    heard(replica, 2, 5, 0.0)
    proposal = replica.decide(0.0, LIMITS, anyone)
    replica.take_effects()
    replica.appended(9)
    assert not rose(replica)
    assert replica.high_watermark == 5
    assert proposal is not None
    replica.isr_refused(proposal)
    assert rose(replica)
    assert replica.high_watermark == 9


def test_a_node_without_a_replica_or_not_eligible_does_not_join() -> None:
    replica = leader(1, log_end=5, replicas=(1, 2))
    heard(replica, 3, 5, 0.0)
    heard(replica, 2, 5, 0.0)
    assert replica.decide(0.0, LIMITS, lambda node, incarnation: False) is None
    assert nodes(replica.decide(0.0, LIMITS, anyone)) == [1, 2]


def test_a_follower_that_pulls_no_longer_does_not_join_on_its_earlier_report() -> None:
    replica = leader(1, log_end=5)
    heard(replica, 2, 5, 0.0)
    replica.follower_left(2)
    assert replica.decide(0.0, LIMITS, anyone) is None


def test_on_a_synced_topic_a_joining_follower_has_all_durably() -> None:
    replica = leader(1, log_end=5, synced=True)
    heard(replica, 2, 5, 0.0, durable=4)
    assert replica.decide(0.0, LIMITS, anyone) is None
    replica.made_durable(2, 10, 5, 0.0)
    assert nodes(replica.decide(0.0, LIMITS, anyone)) == [1, 2]


# -- who leaves -----------------------------------------------------------------------------------------------------------


def test_a_new_leader_gives_everyone_the_full_time() -> None:
    replica = leader(1, 2, log_end=5)
    assert replica.decide(100.0, LIMITS, anyone) is None
    assert replica.decide(110.0, LIMITS, anyone) is None
    assert nodes(replica.decide(110.1, LIMITS, anyone)) == [1]


def test_a_follower_at_the_end_is_in_sync_however_long_it_was_silent() -> None:
    replica = leader(1, 2, log_end=5)
    heard(replica, 2, 5, 0.0)
    assert replica.decide(1000.0, LIMITS, anyone) is None


def test_a_session_that_goes_on_keeps_a_quiet_follower_caught_up() -> None:
    """Its pulls do not name the partition: it has nothing to say of it."""
    replica = leader(1, 2, log_end=5)
    session = heard(replica, 2, 5, 0.0)
    session.alive_at = 500.0
    assert replica.decide(500.0, LIMITS, anyone) is None
    replica.appended(6)
    assert replica.decide(509.0, LIMITS, anyone) is None
    assert nodes(replica.decide(511.0, LIMITS, anyone)) == [1]


@pytest.mark.parametrize("synced", [False, True])
def test_a_follower_that_keeps_up_under_load_stays(synced: bool) -> None:
    """It is never at the end, but always has what the leader had a while ago; its durable offset trails by several reports."""
    replica = leader(1, 2, synced=synced)
    for second in range(1, 200):
        replica.appended(100 * second)
        heard(replica, 2, max(0, 100 * (second - 1)), float(second), durable=max(0, 100 * (second - 4)))
        assert replica.decide(second + 0.5, LIMITS, anyone) is None


def test_a_follower_that_falls_behind_under_load_leaves() -> None:
    replica = leader(1, 2)

    def out() -> int:
        for second in range(1, 200):
            replica.appended(100 * second)
            heard(replica, 2, 50 * second, float(second))
            if replica.decide(second + 0.5, LIMITS, anyone) is not None:
                return second
        raise AssertionError("it stayed")

    assert 10 <= out() <= 45  # ten seconds behind after twenty, noticed after twice that at most


def test_a_leaving_member_counts_until_that_is_known() -> None:
    replica = leader(1, 2, log_end=5)
    replica.decide(0.0, LIMITS, anyone)
    assert nodes(replica.decide(11.0, LIMITS, anyone)) == [1]
    replica.take_effects()
    replica.appended(9)
    assert not rose(replica)
    assert replica.high_watermark == 0
    replica.isr_shown(1, members(1))
    assert rose(replica)
    assert replica.high_watermark == 9


def test_the_leader_never_proposes_to_leave() -> None:
    replica = leader(1, 2, 3, log_end=5)
    replica.decide(0.0, LIMITS, anyone)
    assert nodes(replica.decide(1000.0, LIMITS, anyone)) == [1]


# -- incarnations -----------------------------------------------------------------------------------------------------------


def test_a_member_that_restarted_counts_once_its_new_incarnation_is_proposed() -> None:
    replica = leader(1, 2, log_end=5)
    heard(replica, 2, 5, 0.0)
    assert replica.high_watermark == 5
    replica.appended(6)
    heard(replica, 2, 6, 0.0, incarnation=11)
    assert replica.high_watermark == 5  # the ISR names another life of it
    proposal = replica.decide(0.0, LIMITS, anyone)
    assert proposal is not None
    assert proposal.isr == (InSync(1, 10), InSync(2, 11))
    heard(replica, 2, 6, 0.0, incarnation=11)
    assert replica.high_watermark == 6  # it has it, whichever of its lives the state names


def test_an_earlier_incarnation_is_heard_no_more() -> None:
    replica = leader(1, 2, log_end=5)
    heard(replica, 2, 0, 0.0, incarnation=11)
    heard(replica, 2, 5, 0.0, incarnation=10)
    replica.take_effects()
    replica.made_durable(2, 10, 5, 0.0)
    assert not rose(replica)
    assert replica.high_watermark == 0


def test_a_reported_sync_round_says_nothing_before_the_logs_were_compared() -> None:
    replica = leader(1, 2, log_end=5, synced=True)
    replica.take_effects()
    replica.made_durable(2, 10, 5, 0.0)
    assert not rose(replica)
    assert replica.high_watermark == 0


def test_kafka_3978_the_high_watermark_is_never_negative() -> None:
    replica = Replica(1, log_end=5, durable=5, high_watermark=-1, synced=False)
    assert replica.high_watermark == 0
    replica.become_leader(Lead(5, members(1, 2, 3), 0, (1, 2, 3), 10))
    assert replica.high_watermark == 0
    replica.become_follower(6)
    assert replica.high_watermark == 0


def test_a_report_beyond_the_leaders_end_counts_to_the_end() -> None:
    replica = leader(1, 2, log_end=5)
    heard(replica, 2, 99, 0.0)
    assert replica.high_watermark == 5
    replica.appended(99)
    assert replica.high_watermark == 5


def test_kip_966_nothing_is_committed_by_fewer_than_the_minimum() -> None:
    replica = leader(1, log_end=5)
    replica.configure(synced=False, min_in_sync=2)
    replica.appended(9)
    assert replica.high_watermark == 5
    heard(replica, 2, 9, 0.0)
    assert nodes(replica.decide(0.0, LIMITS, anyone)) == [1, 2]
    assert replica.high_watermark == 5  # proposed is not committed
    replica.isr_shown(1, members(1, 2))
    assert rose(replica)
    assert replica.high_watermark == 9


Step = tuple[str, int, int]
histories = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.just(0), st.integers(1, 5)),
        st.tuples(st.just("report"), st.integers(2, 3), st.integers(0, 40)),
        st.tuples(st.just("decide"), st.integers(0, 20), st.just(0)),
        st.tuples(st.just("applied"), st.just(0), st.just(0)),
        st.tuples(st.just("refused"), st.just(0), st.just(0)),
    ),
    max_size=50,
)


@given(histories)
def test_every_member_of_the_isr_that_may_be_committed_has_all_below_the_high_watermark(history: list[Step]) -> None:
    """Reports never go back here, as with followers that lose nothing: then the ISR always covers what is committed."""
    replica = leader(1, 2, 3)
    ends, now = {1: 0, 2: 0, 3: 0}, 0.0
    for what, who, amount in history:
        before = replica.high_watermark
        match what:
            case "append":
                ends[1] += amount
                replica.appended(ends[1])
            case "report":
                ends[who] = max(ends[who], min(amount, ends[1]))
                heard(replica, who, ends[who], now)
            case "decide":
                now += who
                replica.decide(now, LIMITS, anyone)
            case "applied" if replica.isr.proposal is not None:
                proposal = replica.isr.proposal
                replica.isr_shown(proposal.partition_epoch + 1, proposal.isr)
            case "refused" if replica.isr.proposal is not None:
                replica.isr_refused(replica.isr.proposal)
        assert replica.high_watermark >= before
        assert all(ends[node] >= replica.high_watermark for node in replica.isr.maximal())


def test_a_partition_where_nobody_was_behind_gives_the_full_time_from_its_next_record_on() -> None:
    """It is not looked at closely while nothing happens; what it was then is remembered all the same."""
    replica = leader(1, 2, log_end=5, replicas=(1, 2))
    session = heard(replica, 2, 5, 0.0)
    for now in range(1, 100):
        session.alive_at = float(now)
        assert replica.decide(float(now), LIMITS, anyone) is None
    replica.appended(6)
    assert replica.decide(105.0, LIMITS, anyone) is None
    assert nodes(replica.decide(110.0, LIMITS, anyone)) == [1]


def test_a_partition_where_nobody_was_behind_proves_no_follower_alive() -> None:
    replica = leader(1, 2, log_end=5, replicas=(1, 2))
    heard(replica, 2, 5, 0.0)
    for now in range(1, 100):
        assert replica.decide(float(now), LIMITS, anyone) is None
    replica.appended(6)
    assert nodes(replica.decide(100.0, LIMITS, anyone)) == [1]


# -- what is on disks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("replicas", [(1,), (1, 2)])
def test_a_leader_says_when_all_that_was_acknowledged_lax_is_on_disks(replicas: tuple[int, ...]) -> None:
    """The topic was `replicated`: until then, who comes back without its page cache may have lost some of it."""
    replica = Replica(1, log_end=0, durable=0, high_watermark=0, synced=False)
    replica.become_leader(Lead(5, members(*replicas), 0, replicas, 10, lax=True))
    replica.appended(5)
    if 2 in replicas:
        heard(replica, 2, 5, 0.0, durable=3)
    assert replica.high_watermark == 5
    replica.synced_to(5)
    assert replica.decide(0.0, LIMITS, anyone) is None
    replica.configure(synced=True, min_in_sync=1)
    if 2 in replicas:
        assert replica.decide(0.0, LIMITS, anyone) is None
        replica.made_durable(2, 10, 5, 0.0)
    assert replica.is_durable
    assert nodes(replica.decide(0.0, LIMITS, anyone)) == list(replicas)
    replica.become_leader(Lead(5, members(*replicas), 1, replicas, 10))
    assert replica.decide(0.0, LIMITS, anyone) is None


def test_a_new_leader_does_not_say_so_before_all_that_an_earlier_one_may_have_acknowledged_is_on_disks() -> None:
    """Its high watermark trails the earlier leader's."""
    replica = Replica(1, log_end=101, durable=100, high_watermark=100, synced=True)
    replica.become_leader(Lead(6, members(1), 0, (1,), 10, lax=True))
    assert not replica.is_durable
    replica.synced_to(101)
    assert replica.is_durable
