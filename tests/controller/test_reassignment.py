"""Reassignments: the change of a request, the controller's further steps, and refusals."""

import random
from collections.abc import Mapping
from dataclasses import replace

import pytest

from libs.cluster.image import ClusterImage
from libs.cluster.records import InSync, Member, PartitionState, Replica
from libs.rpc.contracts.controller import AlterPartitions, AlterReassignments, NewIsr, Reassignment
from libs.wire.errors import ErrorCode
from services.controller.core.administration.alter_reassignments import (
    ReassignmentDecision,
    alter_reassignments,
    revert_queries,
)
from services.controller.core.elections.leader_election import ReplicaLogEnd
from services.controller.core.model.replica_health import live_nodes
from services.controller.core.partitions.isr_changes import alter_partitions
from services.controller.core.partitions.partition_reconciler import SteadyPartitions, reconcile
from services.controller.core.partitions.partition_states import follows_the_table
from services.controller.core.reassignment.reassignment import (
    REASSIGNMENT_TRANSITIONS,
    ReassignmentStatus,
    ReassignmentStep,
    reassignment_status,
)
from tests.controller.images import image_of, storage, topic_id

NODES = tuple(storage(n) for n in range(1, 7))


def placed(*nodes: int, isr: tuple[int, ...] | None = None, leader: int | None = None) -> PartitionState:
    members = tuple(InSync(n, 1) for n in (nodes if isr is None else isr))
    return PartitionState(tuple(Replica(n, f"d{n}") for n in nodes), leader or nodes[0], 1, 5, 8, members)


def cluster(state: PartitionState, members: tuple[Member, ...] = NODES, gone: tuple[int, ...] = ()) -> ClusterImage:
    return image_of(*members, topics={"t": [state]}, gone=gone)


def ask(
    image: ClusterImage,
    *expected: Reassignment,
    allow: bool = True,
    unclean: bool = False,
    ends: Mapping[int, int] | None = None,
) -> ReassignmentDecision:
    """`ends` are where the logs of nodes end, of those that answer."""
    live = live_nodes(image.members("storage"))
    request = AlterReassignments(expected, allow)
    queries = revert_queries(image, request, live, lambda _: True, lambda _: unclean)
    known = {}
    for key, query in queries.items():
        known[key] = {c: ReplicaLogEnd(5, ends[c.node_id]) for c in query.candidates if ends is not None and c.node_id in ends}
    return alter_reassignments(image, request, live, lambda _: True, lambda _: unclean, known)


def moved(
    state: PartitionState, target: tuple[int, ...] | None, *, unclean: bool = False, ends: Mapping[int, int] | None = None
) -> PartitionState:
    decision = ask(cluster(state), Reassignment("t", 0, target), unclean=unclean, ends=ends)
    assert [result.error for result in decision.results] == [0]
    ((_, _, after),) = decision.changed or [(b"", 0, state)]
    assert after == state or follows_the_table(state, after)
    return after


def nodes(state: PartitionState) -> tuple[int, ...]:
    return tuple(replica.node_id for replica in state.replicas)


def in_sync(state: PartitionState) -> set[int]:
    return {member.node_id for member in state.isr}


def joined(state: PartitionState, *more: int) -> tuple[PartitionState, int]:
    """The state that the controller makes of the leader's proposal, and the code of its answer."""
    proposal = NewIsr(topic_id(1), 0, state.leader_epoch, state.partition_epoch, (*state.isr, *((n, 1) for n in more)))
    image = cluster(state)
    decision = alter_partitions(
        image, AlterPartitions(state.leader, 1, (proposal,)), live_nodes(image.members("storage")), lambda _: True
    )
    ((_, _, after),) = decision.changed
    assert follows_the_table(state, after)
    return after, decision.results[0].error


def test_the_target_is_added_first_and_the_rest_stays_until_it_is_in_sync() -> None:
    state = moved(placed(1, 2, 3), (4, 2, 5))
    assert (nodes(state), state.adding, state.removing) == ((4, 2, 5, 1, 3), (4, 5), (1, 3))
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (1, 5, 9)
    assert state.replication_factor == 3
    half, error = joined(state, 4)
    assert (nodes(half), error) == ((4, 2, 5, 1, 3), 0)


def test_the_isr_that_completes_it_moves_the_leader_in_the_same_write_and_says_so() -> None:
    after, error = joined(moved(placed(1, 2, 3), (4, 2, 5)), 4, 5)
    assert error == ErrorCode.NEW_LEADER_ELECTED
    assert (nodes(after), after.adding, after.removing) == ((4, 2, 5), (), ())
    assert (after.leader, after.leader_epoch, in_sync(after)) == (4, 6, {2, 4, 5})


def test_a_leader_that_stays_leads_in_a_new_epoch_once_others_are_dropped() -> None:
    after, error = joined(moved(placed(1, 2, 3), (4, 2, 1)), 4)
    assert error == 0
    assert (nodes(after), after.leader, after.leader_epoch) == ((4, 2, 1), 1, 6)


def test_only_added_replicas_open_no_epoch() -> None:
    after, _ = joined(moved(placed(1), (1, 2)), 2)
    assert (nodes(after), after.adding, after.leader_epoch) == ((1, 2), (), 5)


def test_a_reassignment_that_needs_no_copying_is_done_at_once() -> None:
    fewer = moved(placed(1, 2, 3), (2, 3))
    assert (nodes(fewer), fewer.leader, fewer.leader_epoch, in_sync(fewer)) == ((2, 3), 2, 6, {2, 3})
    reordered = moved(placed(1, 2, 3), (3, 2, 1))
    assert (nodes(reordered), reordered.leader, reordered.leader_epoch) == ((3, 2, 1), 1, 5)
    assert ask(cluster(placed(1, 2, 3)), Reassignment("t", 0, (1, 2, 3))).changed == []


def test_a_leader_that_is_to_go_stays_while_none_of_the_target_can_lead() -> None:
    state = replace(moved(placed(1), (2,)), isr=(InSync(1, 1), InSync(2, 1)))
    without_2 = live_nodes({1: storage(1)})
    assert reconcile(state, without_2).leader == 1
    assert nodes(reconcile(state, without_2)) == (2, 1)
    live = live_nodes({1: storage(1), 2: storage(2)})
    assert not SteadyPartitions(live)(state)
    assert (nodes(reconcile(state, live)), reconcile(state, live).leader) == ((2,), 2)


def test_cancelled_it_is_as_before_with_those_that_were_in_sync() -> None:
    half, _ = joined(moved(placed(1, 2, 3), (4, 5, 3)), 4)
    back = moved(half, None)
    assert (set(nodes(back)), in_sync(back), back.adding, back.removing) == ({1, 2, 3}, {1, 2, 3}, (), ())
    assert (back.leader, back.leader_epoch) == (1, 6)


def test_cancelled_it_gives_up_an_added_leader() -> None:
    led = replace(moved(placed(1, 2), (4, 5)), leader=4, isr=(InSync(2, 1), InSync(4, 1)))
    back = moved(led, None)
    assert (back.leader, back.leader_epoch, in_sync(back)) == (2, 6, {2})


def test_an_added_leader_is_kept_while_the_others_in_sync_just_died() -> None:
    """Their deaths are in the image, and not yet in the partition's state."""
    led = replace(moved(placed(1, 2), (1, 4)), leader=4, isr=(InSync(1, 1), InSync(4, 1)))
    image = cluster(led, tuple(node for node in NODES if node.node_id not in (1, 2)), gone=(1, 2))
    (refused,) = ask(image, Reassignment("t", 0, None)).results
    assert "would require an unclean leader election" in (refused.message or "")
    ((_, _, other),) = ask(image, Reassignment("t", 0, (5, 6))).changed
    assert follows_the_table(led, other)
    assert (other.leader, in_sync(other)) == (4, {4})


def test_it_is_cancelled_at_a_loss_only_where_unclean_elections_are_allowed() -> None:
    only_added = replace(moved(placed(1), (4, 5)), leader=4, isr=(InSync(4, 1),))
    (refused,) = ask(cluster(only_added), Reassignment("t", 0, None)).results
    assert refused.error == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "would require an unclean leader election" in (refused.message or "")
    back = moved(only_added, None, unclean=True, ends={1: 3})
    assert (nodes(back), back.leader, back.leader_epoch, back.recovering) == ((1,), 1, 6, True)


def test_cancelled_at_a_loss_it_is_led_by_the_original_replica_whose_log_reaches_furthest() -> None:
    only_added = replace(moved(placed(1, 2, 3), (4, 5)), leader=4, isr=(InSync(4, 1),))
    back = moved(only_added, None, unclean=True, ends={1: 7, 2: 9, 3: 9, 4: 20})
    assert (set(nodes(back)), back.leader, in_sync(back), back.recovering) == ({1, 2, 3}, 2, {2}, True)
    (refused,) = ask(cluster(only_added), Reassignment("t", 0, None), unclean=True).results
    assert refused.error == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_another_target_drops_what_was_added_for_the_former_one() -> None:
    half, _ = joined(moved(placed(1, 2, 3), (4, 5, 3)), 4)
    other = moved(half, (6, 2, 3))
    assert (nodes(other), other.adding, other.removing) == ((6, 2, 3, 1), (6,), (1,))
    assert (in_sync(other), other.leader_epoch) == ({1, 2, 3}, 6)
    assert nodes(moved(other, None)) == (2, 3, 1)


def test_another_target_keeps_what_was_added_while_nobody_else_is_in_sync() -> None:
    only_added = replace(moved(placed(1), (4, 5)), leader=4, isr=(InSync(4, 1),))
    other = moved(only_added, (6,))
    assert (nodes(other), other.adding, other.leader, in_sync(other)) == ((6, 1, 4), (6,), 4, {4})
    assert set(other.removing) == {1, 4}


@pytest.mark.parametrize(
    ("reassignment", "error", "words"),
    [
        (Reassignment("x", 0, (1,)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find a topic named x."),
        (Reassignment("t", 7, (1,)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition t:7."),
        (Reassignment("t", -1, (1,)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition t:-1."),
        (Reassignment("t", 0, ()), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "an empty replica list."),
        (Reassignment("t", 0, (1, 99)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 99, but no such broker is registered."),
        (Reassignment("t", 0, (2, 1, 2)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the broker 2 more than once."),
        (Reassignment("t", 0, None), ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress."),
    ],
)
def test_a_reassignment_that_makes_no_sense_is_refused_with_kafkas_code_and_words(
    reassignment: Reassignment, error: ErrorCode, words: str
) -> None:
    decision = ask(cluster(placed(1, 2, 3)), reassignment, Reassignment("t", 0, (4, 2, 3)))
    assert decision.results[0].error == error
    assert words in (decision.results[0].message or "")
    assert decision.results[1].error == 0
    assert len(decision.changed) == 1


def test_another_factor_is_refused_where_the_request_does_not_allow_it() -> None:
    (refused,) = ask(cluster(placed(1, 2, 3)), Reassignment("t", 0, (1, 2)), allow=False).results
    assert refused.error == ErrorCode.INVALID_REPLICATION_FACTOR
    under_way = moved(placed(1, 2, 3), (4, 5, 6))
    assert ask(cluster(under_way), Reassignment("t", 0, (4, 2, 3)), allow=False).results[0].error == 0


def test_a_node_that_is_down_may_be_a_target_and_is_waited_for() -> None:
    image = cluster(placed(1), (storage(1),), gone=(2,))
    ((_, _, state),) = ask(image, Reassignment("t", 0, (2,))).changed
    assert (state.adding, state.leader, state.replicas[0]) == ((2,), 1, Replica(2, ""))


def test_an_added_replica_gets_a_directory_of_its_node() -> None:
    assert moved(placed(1), (1, 4)).replicas == (Replica(1, "d1"), Replica(4, "d4"))


def test_the_table_names_every_status_and_step() -> None:
    assert {status for status, _ in REASSIGNMENT_TRANSITIONS} | set(REASSIGNMENT_TRANSITIONS.values()) == set(ReassignmentStatus)
    assert {step for _, step in REASSIGNMENT_TRANSITIONS} == set(ReassignmentStep)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (replace(placed(1, 2), adding=(2,)), placed(1, 2, isr=(1,))),
        (replace(placed(2, 1), adding=(2,), removing=(1,)), placed(2)),
        (placed(1, 2, 3), placed(1, 2)),
        (placed(1, 2, isr=(1,)), placed(2, isr=(1,))),
    ],
    ids=[
        "done before all are in sync",
        "replicas dropped without a new epoch",
        "dropped at once without a new epoch",
        "moved at once to who is not in sync",
    ],
)
def test_a_state_change_outside_of_the_table_is_not_written(before: PartitionState, after: PartitionState) -> None:
    after = replace(after, partition_epoch=before.partition_epoch + 1)
    assert not follows_the_table(before, after)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_asked_and_whoever_comes_and_goes_it_ends_with_the_last_target_in_sync(seed: int) -> None:
    source = random.Random(seed)
    state = placed(1, 2, 3)
    target: tuple[int, ...] = (1, 2, 3)
    for _ in range(30):
        alive = tuple(member for member in NODES if source.random() < 0.8) or NODES
        live = live_nodes({member.node_id: member for member in alive})
        before, grown = state, state.isr
        if source.random() < 0.4:
            expected = tuple(source.sample(range(1, 7), source.randrange(1, 5)))
            decision = ask(cluster(state, alive, tuple(range(1, 7))), Reassignment("t", 0, expected))
            assert decision.results[0].error == 0
            target = expected
            state = decision.changed[0][2] if decision.changed else state
        else:
            joins = tuple(InSync(n, 1) for n in nodes(state) if n in live and source.random() < 0.5)
            grown = state.isr if state.leader < 0 else tuple(dict.fromkeys((*state.isr, *joins)))
            after = reconcile(replace(state, isr=grown), live)
            if after != state:
                state = replace(after, partition_epoch=state.partition_epoch + 1)
        assert state == before or follows_the_table(before, state)
        assert in_sync(state)
        assert in_sync(state) <= {member.node_id for member in grown} & set(nodes(state))
        assert state.leader < 0 or state.leader in in_sync(state)
    everyone = live_nodes({member.node_id: member for member in NODES})
    state = reconcile(state, everyone)
    state = reconcile(replace(state, isr=tuple(InSync(n, 1) for n in nodes(state))), everyone)
    assert nodes(state) == target
    assert reassignment_status(state) is ReassignmentStatus.NONE
