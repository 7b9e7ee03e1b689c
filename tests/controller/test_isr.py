"""ISR proposals of leaders, and replicas that their nodes withdraw."""

from dataclasses import replace

import pytest

from libs.cluster.image import ClusterImage
from libs.cluster.records import InSync, Member, PartitionState, Replica
from libs.rpc.contracts.controller import AlterPartitions, NewIsr, Withdraw
from libs.wire.errors import ErrorCode
from services.controller.core.model.refusal import Refused
from services.controller.core.model.replica_health import live_nodes
from services.controller.core.partitions.isr_changes import IsrDecision, alter_partitions, withdraw
from services.controller.core.partitions.partition_reconciler import reconcile
from tests.controller.images import image_of, storage, topic_id


def three(leader: int = 1, isr: tuple[int, ...] = (1, 2, 3), leader_epoch: int = 5, partition_epoch: int = 8) -> PartitionState:
    replicas = tuple(Replica(n, f"d{n}") for n in (1, 2, 3))
    return PartitionState(replicas, leader, 1, leader_epoch, partition_epoch, tuple(InSync(n, 1) for n in isr))


def cluster(state: PartitionState, *members: Member) -> ClusterImage:
    return image_of(*(members or (storage(1), storage(2), storage(3))), topics={"t": [state]})


def proposed(*isr: tuple[int, int], leader_epoch: int = 5, partition_epoch: int = 8, partition: int = 0) -> NewIsr:
    return NewIsr(topic_id(1), partition, leader_epoch, partition_epoch, isr)


def ask(image: ClusterImage, *proposals: NewIsr, node_id: int = 1, incarnation: int = 1) -> IsrDecision:
    request = AlterPartitions(node_id, incarnation, proposals)
    return alter_partitions(image, request, live_nodes(image.members("storage")), lambda _: True)


def test_a_shrunk_isr_is_accepted_without_a_new_leader_epoch() -> None:
    decision = ask(cluster(three()), proposed((1, 1), (3, 1)))
    ((found_id, index, state),) = decision.changed
    assert (found_id, index, state.isr) == (topic_id(1), 0, (InSync(1, 1), InSync(3, 1)))
    assert (state.leader_epoch, state.partition_epoch) == (5, 9)
    (result,) = decision.results
    assert (result.error, result.leader, result.leader_epoch, result.partition_epoch) == (0, 1, 5, 9)
    assert result.isr == ((1, 1), (3, 1))


def test_a_follower_that_caught_up_joins_and_a_recovery_is_over() -> None:
    decision = ask(cluster(replace(three(isr=(1,)), recovering=True)), proposed((1, 1), (2, 1)))
    assert decision.changed[0][2].isr == (InSync(1, 1), InSync(2, 1))
    assert not decision.changed[0][2].recovering


def test_a_proposal_whose_answer_was_lost_is_answered_as_applied() -> None:
    decision = ask(cluster(three(isr=(1, 3), partition_epoch=9)), proposed((3, 1), (1, 1), partition_epoch=8))
    assert decision.changed == []
    assert (decision.results[0].error, decision.results[0].partition_epoch) == (0, 9)


@pytest.mark.parametrize(
    ("proposal", "error"),
    [
        (proposed((1, 1), partition=1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (NewIsr(topic_id(7), 0, 5, 8, ((1, 1),)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (proposed((1, 1), leader_epoch=6), ErrorCode.NOT_CONTROLLER),
        (proposed((1, 1), partition_epoch=9), ErrorCode.NOT_CONTROLLER),
        (proposed((1, 1), leader_epoch=4, partition_epoch=9), ErrorCode.NOT_CONTROLLER),
        (proposed((1, 1), leader_epoch=4, partition_epoch=7), ErrorCode.FENCED_LEADER_EPOCH),
        (proposed((1, 1), partition_epoch=7), ErrorCode.INVALID_UPDATE_VERSION),
        (proposed((2, 1), (3, 1)), ErrorCode.INVALID_REQUEST),
        (proposed(), ErrorCode.INVALID_REQUEST),
        (proposed((1, 2)), ErrorCode.INVALID_REQUEST),
        (proposed((1, 1), (9, 1)), ErrorCode.INVALID_REQUEST),
        (proposed((1, 1), (2, 1), (2, 1)), ErrorCode.INVALID_REQUEST),
        (proposed((1, 1), (2, 7)), ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_a_wrong_proposal_is_refused_with_kafkas_code_and_what_holds_now(proposal: NewIsr, error: ErrorCode) -> None:
    decision = ask(cluster(three()), proposal)
    assert decision.changed == []
    assert decision.results[0].error == error
    if error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        assert (decision.results[0].leader_epoch, decision.results[0].partition_epoch) == (5, 8)


def test_only_the_leader_proposes() -> None:
    assert ask(cluster(three()), proposed((2, 1)), node_id=2).results[0].error == ErrorCode.INVALID_REQUEST


def test_a_former_life_of_the_leader_is_refused_as_a_whole() -> None:
    with pytest.raises(Refused) as refused:
        ask(cluster(three(), storage(1, 2), storage(2)), proposed((1, 1)))
    assert refused.value.error == ErrorCode.STALE_BROKER_EPOCH
    with pytest.raises(Refused):
        ask(cluster(three(), storage(2)), proposed((1, 1)))


@pytest.mark.parametrize(
    "follower", [None, storage(2, 2), replace(storage(2), stopping=True), storage(2, log_dirs=("other",))], ids=str
)
def test_no_replica_joins_that_is_dead_restarted_stopping_or_without_its_directory(follower: Member | None) -> None:
    members = [storage(1), *([follower] if follower else [])]
    image = cluster(three(isr=(1,)), *members)
    assert ask(image, proposed((1, 1), (2, 1))).results[0].error == ErrorCode.INELIGIBLE_REPLICA


def test_a_member_that_died_meanwhile_does_not_stay_with_the_proposal() -> None:
    decision = ask(cluster(three(), storage(1), storage(2)), proposed((1, 1), (3, 1)))
    assert decision.changed[0][2].isr == (InSync(1, 1),)
    assert decision.results[0].isr == ((1, 1),)


def test_a_stopping_leader_that_gets_a_follower_into_the_isr_hands_over_at_once() -> None:
    image = cluster(three(isr=(1,)), replace(storage(1), stopping=True), storage(2), storage(3))
    decision = ask(image, proposed((1, 1), (2, 1)))
    (result,) = decision.results
    assert (result.error, result.leader, result.leader_epoch, result.isr) == (ErrorCode.NEW_LEADER_ELECTED, 2, 6, ((2, 1),))
    assert decision.changed[0][2].partition_epoch == 9


def test_two_proposals_for_one_partition_in_one_request_are_taken_one_after_the_other() -> None:
    decision = ask(cluster(three()), proposed((1, 1), (2, 1)), proposed((1, 1), partition_epoch=9))
    assert [result.error for result in decision.results] == [0, 0]
    ((_, _, state),) = decision.changed
    assert (state.isr, state.partition_epoch) == ((InSync(1, 1),), 10)


def test_a_proposal_that_may_have_been_accepted_before_is_refused_for_good() -> None:
    """A leader counts on a replica no longer once it is refused: the write that was to let it in must not be applied later."""
    image = cluster(three(isr=(1, 2)), storage(1), storage(2))
    request = AlterPartitions(1, 1, (proposed((1, 1), (2, 1), (3, 1)),))
    decision = alter_partitions(image, request, live_nodes(image.members("storage")), lambda _: True, {(topic_id(1), 0)})
    ((_, _, state),) = decision.changed
    assert (state.isr, state.leader_epoch, state.partition_epoch) == ((InSync(1, 1), InSync(2, 1)), 5, 9)
    (result,) = decision.results
    assert (result.error, result.partition_epoch, result.isr) == (ErrorCode.INELIGIBLE_REPLICA, 9, ((1, 1), (2, 1)))


def drawn_back(image: ClusterImage, node_id: int, incarnation: int = 1) -> list[PartitionState]:
    request = Withdraw(node_id, incarnation, ((topic_id(1), 0), (topic_id(1), 0), (topic_id(1), 5), (topic_id(9), 0)))
    return [state for _, _, state in withdraw(image, request, live_nodes(image.members("storage")), lambda _: True)]


def test_a_damaged_leader_leaves_the_isr_and_another_leads() -> None:
    (state,) = drawn_back(cluster(three()), 1)
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (2, 6, 9)
    assert state.isr == (InSync(2, 1), InSync(3, 1))
    assert state.withdrawn == ()


def test_a_damaged_last_member_stays_in_the_isr_and_does_not_lead_in_this_life() -> None:
    image = cluster(three(isr=(1,)))
    (state,) = drawn_back(image, 1)
    assert (state.leader, state.isr, state.withdrawn) == (-1, (InSync(1, 1),), (InSync(1, 1),))
    assert drawn_back(cluster(state), 1) == []


def test_a_damaged_replica_outside_the_isr_changes_nothing() -> None:
    assert drawn_back(cluster(three(isr=(1, 2))), 3) == []


def test_a_former_life_withdraws_nothing() -> None:
    with pytest.raises(Refused):
        drawn_back(cluster(three(), storage(1, 2)), 1)


def test_a_replica_whose_disk_hangs_leaves_to_others_and_stays_where_there_are_none() -> None:
    """The others may have gone before its request came. Taken for damaged it would not have led again in this life."""
    request = Withdraw(1, 1, (), (), ((topic_id(1), 0),))
    for isr, changes in ((1, 2), [(InSync(2, 1),)]), ((1,), []):
        image = cluster(three(isr=isr))
        matches = withdraw(image, request, live_nodes(image.members("storage")), lambda _: True)
        assert [(state.isr, state.withdrawn) for _, _, state in matches] == [(one, ()) for one in changes]


def test_a_replica_whose_disk_hangs_stays_where_the_others_are_dead_or_may_be() -> None:
    request = Withdraw(1, 1, (), (), ((topic_id(1), 0),))
    for members, suspected in (((storage(1),), ()), ((storage(1), storage(2)), (2,))):
        image = cluster(three(isr=(1, 2)), *members)
        assert withdraw(image, request, live_nodes(image.members("storage")), lambda _: True, suspected) == []


@pytest.mark.parametrize(("isr", "refused"), [((1,), True), ((1, 2), True), ((1, 3), False)])
def test_an_isr_does_not_shrink_to_nodes_of_which_nobody_may_live(isr: tuple[int, ...], refused: bool) -> None:
    image = cluster(three())
    request = AlterPartitions(1, 1, (proposed(*[(node_id, 1) for node_id in isr]),))
    decision = alter_partitions(image, request, live_nodes(image.members("storage")), lambda _: True, suspected={1, 2})
    assert (decision.changed == []) is refused
    assert decision.results[0].error == (ErrorCode.INELIGIBLE_REPLICA if refused else 0)


def test_a_damaged_replica_leaves_to_the_dead_before_its_node_registers() -> None:
    """All stopped at once. Registered, it would be elected alone, and those that lost nothing would be in the ISR no more."""
    down = replace(three(), leader=-1, leader_incarnation=0)
    (state,) = drawn_back(image_of(topics={"t": [down]}), 1, incarnation=2)
    assert (state.leader, state.isr) == (-1, (InSync(2, 1), InSync(3, 1)))
    back = live_nodes(cluster(state, storage(1, 2), storage(3, 2)).members("storage"))
    assert (reconcile(state, back).leader, reconcile(state, back).isr) == (3, (InSync(3, 2),))


def test_a_last_member_tells_of_its_damage_before_it_registers_once_its_former_life_is_gone() -> None:
    alone = three(isr=(1,))
    assert drawn_back(cluster(alone, storage(1, 1)), 1, incarnation=2) == []
    (state,) = drawn_back(image_of(storage(2), topics={"t": [replace(alone, leader=-1)]}), 1, incarnation=2)
    assert (state.isr, state.withdrawn) == ((InSync(1, 1),), (InSync(1, 2),))
    assert reconcile(state, live_nodes(cluster(state, storage(1, 2)).members("storage"))).leader == -1


def test_a_replica_that_is_served_again_after_an_operator_accepted_the_loss_leads_again() -> None:
    (state,) = drawn_back(cluster(three(isr=(1,))), 1)
    image = cluster(state)
    request = Withdraw(1, 1, (), restored=((topic_id(1), 0), (topic_id(9), 0)))
    ((_, _, restored),) = withdraw(image, request, live_nodes(image.members("storage")), lambda _: True)
    assert (restored.leader, restored.leader_epoch, restored.withdrawn) == (1, state.leader_epoch + 1, ())
    again = cluster(restored)
    assert withdraw(again, request, live_nodes(again.members("storage")), lambda _: True) == []


@pytest.mark.parametrize(("durable", "synced", "is_lax"), [(True, True, False), (False, True, True), (True, False, True)])
def test_acknowledged_is_on_disks_once_the_leader_says_so_of_a_synced_topic(durable: bool, synced: bool, is_lax: bool) -> None:
    image = cluster(replace(three(), lax=True))
    expected = replace(proposed((1, 1), (2, 1), (3, 1)), durable=durable)
    decision = alter_partitions(image, AlterPartitions(1, 1, (expected,)), live_nodes(image.members("storage")), lambda _: synced)
    assert [state.lax for _, _, state in decision.changed] == ([] if is_lax else [False])
    assert decision.results[0].error == (0 if synced else ErrorCode.INELIGIBLE_REPLICA)
