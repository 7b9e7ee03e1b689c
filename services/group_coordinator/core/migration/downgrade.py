"""A group of the consumer protocol becomes classic when its last member that speaks it is gone (KIP-848).

A rebalance begins: the clients assign from here on. Until it has ended each member is assigned what it has, and not, as Kafka
writes it, what it was to have, which others may not have given up yet: if the next owner of the group, or the next change of its
protocol, took that for theirs, two would read it. Nobody leads such a group, which tells the next owner to begin the rebalance.

There is a rebalance also where a static member was restarted with the classic protocol, and everybody has what it is to have.
Kafka goes without: then no client knows that it leads, and nobody watches the topics.
"""

from collections.abc import Sequence
from typing import Final

from libs.runtime.shards.tables import Journal
from libs.runtime.shards.timers import TimerKey
from libs.wire.consumer_protocol import PROTOCOL_TYPE
from services.group_coordinator.core import records
from services.group_coordinator.core.classic import changes, rebalances
from services.group_coordinator.core.classic.draft import Draft as ClassicDraft
from services.group_coordinator.core.classic.group import Group as ClassicGroup
from services.group_coordinator.core.classic.member import Member as ClassicMember
from services.group_coordinator.core.classic.member import Offered
from services.group_coordinator.core.classic.settings import ClassicSettings
from services.group_coordinator.core.consumer import classic_members
from services.group_coordinator.core.consumer.group import Group
from services.group_coordinator.core.consumer.member import Member
from services.group_coordinator.core.consumer.partitions import Partitions, together
from services.group_coordinator.core.happened import Happened
from services.group_coordinator.core.settings import MigrationPolicy
from services.group_coordinator.core.topics_view import TopicsView

ALLOWED: Final = (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


def may_be_due(before: Group, decided: Sequence[object]) -> bool:
    """Whether a decision may leave only members of the classic protocol. It costs little to ask."""
    if before.all_classic:
        return False
    return any(
        type(record) is records.ConsumerMemberRemoved
        or (type(record) is records.ConsumerMemberChanged and record.classic is not None)
        for record in decided
    )


def classic_group(group: Group, epoch: int, topics: TopicsView, now_ms: int) -> records.ClassicGroupChanged | None:
    """None: its members have no protocol in common."""
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
    return together(member.assigned, member.pending)


def begin(
    record: records.ClassicGroupChanged, settings: ClassicSettings, now_ms: int
) -> tuple[list[object], dict[TimerKey, int | None], list[Happened]]:
    """What follows `record`: further records, timers, and what is told of it."""
    group = ClassicGroup.empty(Journal(), record.group, now_ms)
    group.load(record)
    draft = ClassicDraft(group, now_ms, settings)
    for member in group.members.values():
        draft.heard_of(member)
    rebalances.begin(draft, "the last member that speaks the consumer protocol is gone: the group is classic again")
    return list(draft.records), draft.timers, draft.happened
