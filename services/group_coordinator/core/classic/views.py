"""Classic groups in the answers of DescribeGroups and ListGroups."""

from libs.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from libs.wire.messages.list_groups import ListedGroup
from services.group_coordinator.core.classic.group import Group
from services.group_coordinator.core.classic.states import State
from services.group_coordinator.core.model.group_kind import CLASSIC


def describe(group: Group) -> DescribedGroup:
    """A group in DescribeGroups. Only a stable group shows subscriptions and a protocol. Assignments are the latest."""
    facts = group.facts
    stable = facts.state is State.STABLE
    return DescribedGroup(
        group_id=group.name,
        group_state=facts.state.value,
        protocol_type=facts.protocol_type or "",
        protocol_data=facts.protocol or "" if stable else "",
        members=[
            DescribedGroupMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.metadata(facts.protocol) if stable else b"",
                member.assignment,
            )
            for member in group.members.values()
        ],
    )


def listed(group: Group) -> ListedGroup:
    return ListedGroup(group.name, group.facts.protocol_type or "", group.state.value, CLASSIC)
