"""The downgrade: a consumer group becomes classic when its last member that speaks the consumer protocol is gone (KIP-848).

A rebalance begins, since the clients assign from now on. Until it ends, each member's assignment is what it has. Kafka writes the
target assignment instead, whose partitions other members may not have revoked yet. If the next owner, or the next change of
protocol, trusted that, two members would read one partition. The group has no leader, which tells the next owner to begin the
rebalance.

A group whose record as a classic group fits no batch, or not its format, stays in the consumer protocol: its classic members go
on there (`GroupMachine.decide_smaller`). Kafka's dead member would keep its partitions.

A rebalance also begins if a static member restarted with the classic protocol and all members have their targets. Kafka omits it.
Then no client knows that it leads, and none watches the topics.
"""

from collections.abc import Sequence
from typing import Final

from libs.coordinator.core.tables import Journal
from libs.coordinator.core.timers import TimerKey
from libs.wire.consumer_protocol import PROTOCOL_TYPE
from services.group_coordinator.core.classic import changes, rebalances
from services.group_coordinator.core.classic.group import Group as ClassicGroup
from services.group_coordinator.core.classic.group_decision import GroupDecision as ClassicGroupDecision
from services.group_coordinator.core.classic.member import Member as ClassicMember
from services.group_coordinator.core.classic.member import Offered
from services.group_coordinator.core.consumer.group import Group
from services.group_coordinator.core.consumer.member import Member
from services.group_coordinator.core.consumer.partitions import Partitions, union
from services.group_coordinator.core.migration import classic_members
from services.group_coordinator.core.model import records
from services.group_coordinator.core.model.classic_settings import ClassicSettings
from services.group_coordinator.core.model.group_events import GroupEvent
from services.group_coordinator.core.model.settings import MigrationPolicy
from services.group_coordinator.core.model.topics_view import TopicsView

ALLOWED: Final = (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


def may_be_due(before: Group, decided: Sequence[object]) -> bool:
    """Whether a decision may leave only classic members. A cheap check."""
    if before.all_classic:
        return False
    return any(
        type(record) is records.ConsumerMemberRemoved
        or (type(record) is records.ConsumerMemberChanged and record.classic is not None)
        for record in decided
    )


def classic_group(group: Group, epoch: int, topics: TopicsView, now_ms: int) -> records.ClassicGroupChanged | None:
    """The classic group's record; None if its members have no protocol in common."""
    members = {member_id: _converted(group.members[member_id]) for member_id in sorted(group.members)}
    voters = ClassicGroup.empty(Journal(), group.name, now_ms)
    for member in members.values():
        voters.apply(changes.MemberJoined(group.name, member, PROTOCOL_TYPE, 0))
    if len(members) not in voters.supporters.values():
        return None
    protocol = rebalances.select_protocol(voters)

    def logged(member: ClassicMember) -> records.ClassicMember:
        held = _held(group.members[member.member_id])
        return member.logged(protocol, classic_members.assignment(held, topics, member.metadata(protocol)))

    return records.ClassicGroupChanged(
        group.name,
        PROTOCOL_TYPE,
        epoch,
        protocol,
        None,
        now_ms,
        tuple([logged(member) for member in members.values()]),
    )


def _converted(member: Member) -> ClassicMember:
    classic = member.classic
    assert classic is not None
    return ClassicMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        classic.session_timeout_ms,
        tuple([Offered(name, metadata) for name, metadata in classic.protocols]),
    )


def _held(member: Member) -> Partitions:
    return union(member.assigned, member.pending)


def first_rebalance(
    record: records.ClassicGroupChanged, settings: ClassicSettings, topics: TopicsView, now_ms: int
) -> tuple[list[object], dict[TimerKey, int | None], list[GroupEvent]]:
    """The rebalance after `record`: further records, timers and events."""
    group = ClassicGroup.empty(Journal(), record.group, now_ms)
    group.load(record)
    group_decision = ClassicGroupDecision(group, now_ms, settings, topics)
    for member in group.members.values():
        group_decision.schedule_session_timeout(member)
    rebalances.prepare_rebalance(
        group_decision, "the last member that speaks the consumer protocol is gone: the group is classic again"
    )
    return list(group_decision.records), group_decision.timers, group_decision.events
