"""Groups of the consumer protocol that become classic again (KIP-848)."""

import pytest

from libs.wire.errors import ErrorCode
from services.group_coordinator.core.model import records
from services.group_coordinator.core.model.settings import MigrationPolicy
from tests.group_coordinator.conversion.stage import Stage, assigned_in, assignment, offers
from tests.group_coordinator.named_topics import given


def mixed(policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL) -> tuple[Stage, str]:
    """One classic member and "new", both with what they are to have, at epoch 2."""
    stage = Stage(policy, t=2)
    (member_id,) = [stage.join(protocols=offers("t"), version=3).reply.member_id]
    stage.sync(member_id, 1, {member_id: assignment(t=[0, 1])})
    stage.change(consumer_migration_policy=MigrationPolicy.BIDIRECTIONAL)
    stage.beat("new", 0, "t")
    stage.join(member_id, protocols=offers("t"))
    stage.sync(member_id, 2)
    assert given(stage.beat("new", 2, owned={}).reply)
    assert stage.consumer().state.value == "Stable"
    stage.change(consumer_migration_policy=policy)
    return stage, member_id


def test_the_group_is_classic_again_when_the_last_member_of_the_consumer_protocol_leaves() -> None:
    stage, member_id = mixed()
    assert stage.beat("new", -1).error == 0
    assert stage.is_classic()
    assert stage.state() == "PreparingRebalance"
    assert stage.group().facts.generation == 2
    assert stage.group().facts.reason == "the last member that speaks the consumer protocol is gone: the group is classic again"
    assert stage.heartbeat(member_id, 2) == 27
    joined = stage.join(member_id, protocols=offers("t"))
    assert joined.error == 0
    assert (joined.reply.generation_id, joined.reply.leader) == (3, member_id)
    assert stage.sync(member_id, 3, {member_id: assignment(t=[0, 1])}).error == 0
    assert stage.state() == "Stable"


def test_the_log_says_so_and_the_next_owner_knows() -> None:
    stage, member_id = mixed()
    since = len(stage.log)
    stage.beat("new", -1)
    written = stage.written(since)
    assert [type(record).__name__ for record in written] == [
        "CurrentAssignmentRemoved",
        "CurrentAssignmentRemoved",
        "TargetAssignmentRemoved",
        "TargetAssignmentRemoved",
        "TargetEpochRemoved",
        "ConsumerMemberRemoved",
        "ConsumerMemberRemoved",
        "ConsumerTopicsRemoved",
        "ConsumerGroupRemoved",
        "ClassicGroupChanged",
    ]
    record = written[-1]
    assert isinstance(record, records.ClassicGroupChanged)
    assert (record.protocol_type, record.protocol, record.generation, record.leader) == ("consumer", "range", 2, None)
    (member,) = record.members
    assert member.member_id == member_id
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (10_000, 60_000)
    assert sum(map(len, assigned_in(member.assignment).values())) == 1
    stage.fail_over()
    assert stage.is_classic()
    assert stage.group().facts.generation == 2
    assert stage.state() == "PreparingRebalance"  # it was not assigned anew yet
    assert stage.heartbeat(member_id, 2) == 27


def test_a_partition_that_is_not_revoked_yet_is_not_assigned_to_another_member() -> None:
    stage = Stage(t=2)
    cooperative = ("cooperative-sticky",)
    assert given(stage.beat("new", 0, "u").reply) == {}
    item = stage.join(protocols=offers("t", protocols=cooperative), version=3).reply.member_id
    assert assigned_in(stage.sync(item, 2).reply.assignment) == {"t": [0, 1]}
    other = stage.join(protocols=offers("t", protocols=cooperative), version=3).reply.member_id
    assert assigned_in(stage.sync(other, 3).reply.assignment) == {}
    since = len(stage.log)
    stage.beat("new", -1)
    (record,) = [record for record in stage.written(since) if isinstance(record, records.ClassicGroupChanged)]
    assert {member.member_id: assigned_in(member.assignment) for member in record.members} == {item: {"t": [0, 1]}, other: {}}
    stage.beat("newer", 0, "t")
    stage.join(other, protocols=offers("t", protocols=cooperative))
    assert stage.consumer().members[other].assigned == {}


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.UPGRADE])
def test_no_group_is_downgraded_where_the_policy_forbids_it(policy: MigrationPolicy) -> None:
    stage, member_id = mixed(policy)
    assert stage.beat("new", -1).error == 0
    assert not stage.is_classic()
    assert set(stage.consumer().members) == {member_id}
    assert stage.heartbeat(member_id, 2) == 27
    joined = stage.join(member_id, protocols=offers("t"))
    assert assigned_in(stage.sync(member_id, joined.reply.generation_id).reply.assignment) == {"t": [0, 1]}


def test_a_group_that_a_classic_one_could_not_hold_stays() -> None:
    stage, _ = mixed()
    stage.join(protocols=offers("t"), version=3)
    stage.change(classic=stage.group_settings.classic.__class__(size_max=1))
    stage.beat("new", -1)
    assert not stage.is_classic()


def test_a_silent_member_of_the_consumer_protocol_leaves_a_classic_group_behind() -> None:
    stage, member_id = mixed()
    stage.wait_alive(46_000, (member_id, 2))
    assert stage.is_classic()
    assert stage.heartbeat(member_id, 2) == 27


def test_while_others_speak_the_consumer_protocol_the_group_stays() -> None:
    stage, _ = mixed()
    stage.beat("other", 0, "t")
    stage.beat("new", -1)
    assert not stage.is_classic()
    stage.beat("other", -1)
    assert stage.is_classic()


def test_when_the_last_classic_member_leaves_the_group_stays() -> None:
    stage, member_id = mixed()
    stage.leave(member_id)
    assert not stage.is_classic()
    stage.beat("new", -1)
    assert not stage.is_classic()
    assert stage.consumer().state.value == "Empty"


def test_a_static_member_that_goes_back_to_the_classic_protocol_takes_the_group_along() -> None:
    stage = Stage(t=2)
    stage.beat("new", 0, "t", instance="i")
    joined = stage.join(instance="i", protocols=offers("t"))
    assert joined.error == 0
    assert stage.is_classic()
    assert stage.state() == "PreparingRebalance"
    member_id = joined.reply.member_id
    assert stage.sync(member_id, 1, instance="i").error == ErrorCode.REBALANCE_IN_PROGRESS
    again = stage.join(member_id, instance="i", protocols=offers("t"))
    assert (again.reply.generation_id, again.reply.leader) == (2, member_id)  # so that a client watches the topics


def test_with_other_topics_it_takes_the_group_along_by_a_rebalance() -> None:
    stage = Stage(t=2, u=1)
    stage.beat("new", 0, "t", instance="i")
    joined = stage.join(instance="i", protocols=offers("u"))
    assert stage.is_classic()
    assert stage.state() == "PreparingRebalance"
    member_id = joined.reply.member_id
    assert stage.sync(member_id, joined.reply.generation_id, instance="i").error == ErrorCode.REBALANCE_IN_PROGRESS
    again = stage.join(member_id, instance="i", protocols=offers("u"))
    assert again.reply.leader == member_id


def test_a_static_member_that_is_away_for_a_while_is_still_there() -> None:
    stage, _ = mixed()
    stage.beat("static", 0, "t", instance="i")
    stage.beat("new", -1)
    assert stage.beat("static", -2, instance="i").error == 0
    assert not stage.is_classic()


def test_a_silent_classic_member_is_given_up_after_the_downgrade_too() -> None:
    stage, _ = mixed()
    stage.beat("new", -1)
    stage.wait(60_000)
    assert stage.state() == "Empty"


def test_a_downgrade_that_the_log_refuses_changes_nothing() -> None:
    stage, member_id = mixed()
    stage.holds = True
    left = stage.beat("new", -1)
    stage.refuse(19)
    assert left.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not stage.is_classic()
    assert set(stage.consumer().members) == {member_id, "new"}


def test_a_group_goes_there_and_back_as_often_as_its_clients_do() -> None:
    stage, member_id = mixed()
    for _ in range(3):
        stage.beat("new", -1)
        generation = stage.join(member_id, protocols=offers("t")).reply.generation_id
        stage.sync(member_id, generation, {member_id: assignment(t=[0, 1])})
        assert stage.heartbeat(member_id, generation) == 0
        stage.beat("new", 0, "t")
        assert stage.heartbeat(member_id, generation) == 27
        generation = stage.join(member_id, protocols=offers("t")).reply.generation_id
        assert stage.sync(member_id, generation).error == 0
        assert stage.beat("new", generation, owned={}).error == 0
        assert stage.consumer().state.value == "Stable"


def test_a_request_that_the_former_group_expected_is_not_expected_in_the_next_one() -> None:
    """A member that joined and never sent SyncGroup: that group is gone long before the deadline."""
    stage = Stage(t=2)
    stage.beat("new", 0, "t", instance="i")
    member_id = stage.join(instance="i", protocols=offers("t")).reply.member_id
    generation = stage.join(member_id, instance="i", protocols=offers("t")).reply.generation_id
    assert stage.sync(member_id, generation, {member_id: assignment(t=[0, 1])}, instance="i").error == 0
    stage.wait_alive(59_000, (member_id, generation))
    stage.beat("new", 0, "t")
    stage.wait(2_000)
    assert member_id in stage.consumer().members


LONG_NAMES = [f"company.department.team.topic-number-{number:04d}" for number in range(120)]
"""The metadata of a member that subscribes to these has about 5 KB."""


def too_large_to_be_classic(*, instance: str | None = None) -> tuple[Stage, list[str]]:
    """Twenty classic members, whose metadata together fit no batch, beside "new", which speaks the consumer protocol."""
    stage = Stage(t=40)
    stage.batch_bytes_max = 80_000
    stage.fail_over()
    assert stage.beat("new", 0, "t", instance=instance).error == 0
    members = [stage.join(protocols=offers("t", *LONG_NAMES), version=3).reply.member_id for _ in range(20)]
    return stage, members


def live(stage: Stage, members: list[str], ms: int) -> None:
    """The classic members go on, and all others are silent."""
    for _ in range(ms // 2_000):
        stage.wait(2_000)
        for member_id in members:
            if stage.heartbeat(member_id, stage.consumer().members[member_id].epoch) == ErrorCode.REBALANCE_IN_PROGRESS:
                stage.join(member_id, protocols=offers("t", *LONG_NAMES))
                stage.sync(member_id, stage.consumer().members[member_id].epoch)


def has_it_all(stage: Stage, members: list[str]) -> bool:
    group = stage.consumer()
    assert sorted(group.members) == sorted(members)
    return sum(len(numbers) for member in group.members.values() for numbers in member.assigned.values()) == 40


def test_a_group_that_is_too_large_to_be_classic_goes_on_without_its_dead_member() -> None:
    """The decision about the dead member fitted no batch, and was dropped every 500 ms without a word. The member kept its
    partitions for ever."""
    stage, members = too_large_to_be_classic()
    live(stage, members, 100_000)
    assert has_it_all(stage, members)
    assert [noted.replaced for noted in stage.shard.unwritable] == [True]
    stage.fail_over()
    assert has_it_all(stage, members)
    live(stage, members, 20_000)
    assert has_it_all(stage, members)


def test_the_last_member_of_the_consumer_protocol_may_leave_a_group_that_is_too_large_to_be_classic() -> None:
    stage, members = too_large_to_be_classic()
    assert stage.beat("new", -1).error == 0
    live(stage, members, 20_000)
    assert has_it_all(stage, members)


def test_an_operator_may_remove_it_from_there() -> None:
    stage, members = too_large_to_be_classic(instance="i")
    answer = stage.leave(("", "i"))
    assert [member.error_code for member in answer.members] == [0]
    live(stage, members, 20_000)
    assert has_it_all(stage, members)


def test_it_may_come_back_there_with_the_classic_protocol() -> None:
    stage, members = too_large_to_be_classic(instance="i")
    joined = stage.join(instance="i", protocols=offers("t", *LONG_NAMES))
    assert joined.error == 0
    members.append(joined.reply.member_id)
    assert stage.sync(members[-1], joined.reply.generation_id).error == 0
    live(stage, members, 100_000)
    assert has_it_all(stage, members)


def test_a_group_that_was_too_large_and_lost_all_members_may_be_classic() -> None:
    stage, members = too_large_to_be_classic()
    stage.beat("new", -1)
    stage.leave(*members)
    assert stage.join(protocols=offers("t"), version=3).error == 0
    assert stage.is_classic()
