"""Classic groups that become groups of the consumer protocol (KIP-848). Codes and messages are Kafka 4.2's."""

import pytest

from libs.wire.errors import ErrorCode
from services.group_coordinator.core.model import records
from services.group_coordinator.core.model.consumer_settings import ConsumerSettings
from services.group_coordinator.core.model.settings import MigrationPolicy
from tests.group_coordinator.conversion.stage import Stage, assigned_in, assignment, offers, subscription
from tests.group_coordinator.named_topics import given, topic_id

ALL = {"t": [0, 1, 2, 3]}
COOPERATIVE = ("cooperative-sticky",)


def test_a_consumer_heartbeat_turns_a_classic_group_of_consumers_into_a_consumer_group() -> None:
    stage = Stage(t=4)
    first, second = stage.classic_group("t")
    joined = stage.beat("new", 0, "t")
    assert joined.error == 0
    assert joined.reply.member_epoch == 2
    assert given(joined.reply) == {}  # all is held by others yet
    group = stage.consumer()
    assert set(group.members) == {first, second, "new"}
    assert group.facts.epoch == 2
    assert {id_: member.epoch for id_, member in group.members.items()} == {first: 1, second: 1, "new": 2}
    assert group.members[first].assigned == {topic_id("t"): {0, 2}}
    assert group.members[second].assigned == {topic_id("t"): {1, 3}}


def test_the_log_says_it_as_kafkas_does() -> None:
    stage = Stage(t=2)
    (only,) = stage.classic_group("t", members=1)
    since = len(stage.log)
    stage.beat("new", 0, "t")
    kinds = [(type(record).__name__, getattr(record, "member_id", "")) for record in stage.written(since)]
    assert kinds == [
        ("ClassicGroupRemoved", ""),
        ("ConsumerMemberChanged", only),
        ("ConsumerGroupChanged", ""),
        ("TargetAssignmentChanged", only),
        ("TargetEpochChanged", ""),
        ("CurrentAssignmentChanged", only),
        ("ConsumerMemberChanged", "new"),
        ("ConsumerGroupChanged", ""),
        ("TargetAssignmentChanged", only),
        ("TargetAssignmentChanged", "new"),
        ("TargetEpochChanged", ""),
        ("CurrentAssignmentChanged", "new"),
    ]
    classic = stage.written(since)[1]
    assert isinstance(classic, records.ConsumerMemberChanged)
    assert classic.classic == records.ClassicMemberMetadata(10_000, (records.ClassicProtocol("range", subscription("t")),))
    assert classic.subscribed_topics == ("t",)
    before = stage.consumer()
    stage.fail_over()
    after = stage.consumer()
    assert dict(after.members) == dict(before.members)
    assert dict(after.targets) == dict(before.targets)


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
def test_no_group_is_upgraded_where_the_policy_forbids_it(policy: MigrationPolicy) -> None:
    stage = Stage(policy, t=4)
    stage.classic_group("t")
    since = len(stage.log)
    refused = stage.beat("new", 0, "t")
    assert refused.error == ErrorCode.GROUP_ID_NOT_FOUND
    assert refused.reply.error_message == "Cannot upgrade classic group g to consumer group because online upgrade is disabled."
    assert stage.is_classic()
    assert stage.state() == "Stable"
    assert not stage.written(since)


def test_a_group_of_something_else_is_not_upgraded() -> None:
    stage = Stage(t=4)
    stage.stable(2, kind="connect")
    refused = stage.beat("new", 0, "t")
    assert refused.error == ErrorCode.GROUP_ID_NOT_FOUND
    assert "does not use the consumer embedded protocol" in refused.reply.error_message
    assert stage.is_classic()


def test_a_group_with_malformed_subscriptions_is_not_upgraded() -> None:
    stage = Stage(t=4)
    stage.stable(1, protocols=(("range", b"\x00"),))
    refused = stage.beat("new", 0, "t")
    assert refused.error == ErrorCode.GROUP_ID_NOT_FOUND
    assert "embedded consumer protocol is malformed" in refused.reply.error_message


def test_a_group_whose_assignor_says_more_than_partitions_is_not_upgraded() -> None:
    stage = Stage(t=1)
    member_id, joined = stage.come(protocols=offers("t"))
    stage.sync(member_id, joined.reply.generation_id, {member_id: assignment(t=[0])[:-4] + b"\x00\x00\x00\x01x"})
    refused = stage.beat("new", 0, "t")
    assert refused.error == ErrorCode.GROUP_ID_NOT_FOUND
    assert "unsupported custom assignor" in refused.reply.error_message


def test_a_group_that_is_too_large_is_not_upgraded() -> None:
    stage = Stage(t=4)
    stage.classic_group("t", members=3)
    stage.change(consumer=ConsumerSettings(size_max=2))
    refused = stage.beat("new", 0, "t")
    assert refused.error == ErrorCode.GROUP_ID_NOT_FOUND
    assert "exceeds the consumer group maximum size" in refused.reply.error_message
    stage.change(consumer=ConsumerSettings(size_max=3))
    assert stage.beat("new", 0, "t").error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert stage.is_classic()


@pytest.mark.parametrize("epoch", [1, -1])
def test_only_a_join_upgrades_a_group(epoch: int) -> None:
    stage = Stage(t=4)
    stage.classic_group("t")
    refused = stage.beat("new", epoch)
    assert refused.error == ErrorCode.GROUP_ID_NOT_FOUND
    assert refused.reply.error_message == "Group g is not a consumer group."
    assert stage.is_classic()


@pytest.mark.parametrize("policy", MigrationPolicy)
def test_a_classic_group_that_nobody_is_in_goes_either_way_under_any_policy(policy: MigrationPolicy) -> None:
    stage = Stage(policy, t=4)
    stage.leave(*stage.classic_group("t"))
    stage.wait(0)
    assert stage.state() == "Empty"
    joined = stage.beat("new", 0, "t")
    assert joined.error == 0
    assert given(joined.reply) == ALL
    assert joined.reply.member_epoch == 1
    assert stage.beat("new", -1).error == 0
    member_id, classic = stage.come(protocols=offers("t"))
    assert classic.error == 0
    assert classic.reply.leader == member_id
    assert stage.is_classic()
    stage.sync(member_id, classic.reply.generation_id, {member_id: assignment(t=[0])})
    stage.fail_over()
    assert stage.is_classic()


def test_members_that_wait_for_others_join_again_when_the_group_is_upgraded() -> None:
    stage = Stage(t=4)
    _, second = stage.classic_group("t")
    waiting = stage.join(second, protocols=offers("t", "u"))
    assert waiting.waits
    assert stage.beat("new", 0, "t").error == 0
    assert waiting.error == ErrorCode.REBALANCE_IN_PROGRESS
    again = stage.join(second, protocols=offers("t", "u"))
    assert again.error == 0
    assert again.reply.generation_id == 2
    assert not stage.shard.pending.parked


def test_members_that_wait_for_the_leader_join_again_when_the_group_is_upgraded() -> None:
    stage = Stage(t=4)
    stage.stopped = True
    ids = [stage.join(protocols=offers("t")).reply.member_id for _ in range(2)]
    joins = [stage.join(member_id, protocols=offers("t")) for member_id in ids]
    stage.stopped = False
    stage.settle()
    follower = next(member_id for member_id in ids if member_id != joins[0].reply.leader)
    waiting = stage.sync(follower, 1)
    assert waiting.waits
    assert stage.beat("new", 0, "t").error == 0
    assert waiting.error == ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.sync(joins[0].reply.leader, 1, {}).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert not stage.shard.pending.parked


def test_a_member_whose_id_was_given_by_the_classic_group_may_still_join() -> None:
    stage = Stage(t=4)
    stage.classic_group("t")
    member_id = stage.join(protocols=offers("t")).reply.member_id
    assert stage.beat("new", 0, "t").error == 0
    assert stage.join(member_id, protocols=offers("t")).reply.generation_id == 3
    assert member_id in stage.consumer().members


def test_partitions_that_a_member_may_still_own_are_held_for_it() -> None:
    """A cooperative member without its new assignment owns the partitions that it had when it joined. One with it reports so."""
    stage = Stage(t=4)
    first, second = stage.classic_group("t", cooperative=True)
    third = stage.join(protocols=offers("t", protocols=COOPERATIVE)).reply.member_id
    owned = {first: {"t": [0, 2]}, second: {"t": [1, 3]}, third: {}}
    joins = [stage.join(each, protocols=offers("t", owned=has, protocols=COOPERATIVE)) for each, has in owned.items()]
    generation = joins[0].reply.generation_id
    assigned = {first: assignment(t=[0]), second: assignment(t=[1]), third: assignment(t=[])}
    assert stage.sync(first, generation, assigned).error == 0
    epoch = stage.beat("new", 0, "t").reply.member_epoch
    members = stage.consumer().members
    assert members[first].assigned == {topic_id("t"): {0, 2}}
    assert members[second].assigned == {topic_id("t"): {1, 3}}
    assert stage.consumer().targets["new"] == {topic_id("t"): {3}}
    assert members["new"].assigned == {}
    again = stage.join(second, protocols=offers("t", owned={"t": [1, 3]}, protocols=COOPERATIVE))
    assert again.reply.generation_id == generation
    kept = assigned_in(stage.sync(second, generation).reply.assignment)
    assert kept == {"t": [1]}
    stage.join(second, protocols=offers("t", owned=kept, protocols=COOPERATIVE))
    assert given(stage.beat("new", epoch).reply) == {"t": [3]}


def test_a_static_member_goes_over_to_the_consumer_protocol_and_keeps_what_it_has() -> None:
    stage = Stage(t=4)
    joined = stage.join(instance="i", protocols=offers("t"))
    old = joined.reply.member_id
    stage.sync(old, joined.reply.generation_id, {old: assignment(t=[0, 1, 2, 3])}, instance="i")
    new = stage.beat("new", 0, "t", instance="i")
    assert new.error == 0
    assert given(new.reply) == ALL
    assert set(stage.consumer().members) == {"new"}
    assert stage.heartbeat(old, 1, instance="i") == 82


def test_a_silent_classic_member_is_given_up_after_the_session_that_it_asked_for() -> None:
    stage = Stage(t=4)
    first, _ = stage.classic_group("t")
    stage.beat("new", 0, "t")
    stage.wait(9_000)
    assert stage.heartbeat(first, 1) == 27
    stage.wait(1_000)
    assert set(stage.consumer().members) == {first, "new"}


def test_a_new_owner_knows_the_sessions_of_classic_members() -> None:
    stage = Stage(t=4)
    stage.classic_group("t")
    stage.beat("new", 0, "t")
    stage.fail_over()
    stage.wait(10_000)
    assert set(stage.consumer().members) == {"new"}


def test_an_upgrade_that_the_log_refuses_changes_nothing() -> None:
    stage = Stage(t=4)
    first, second = stage.classic_group("t")
    waiting = stage.join(second, protocols=offers("t", "u"))
    stage.holds = True
    request = stage.beat("new", 0, "t")
    stage.refuse(19)
    assert request.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert waiting.waits
    assert stage.is_classic()
    assert stage.state() == "PreparingRebalance"
    assert stage.join(first, protocols=offers("t", "u")).error == 0
    assert waiting.error == 0
