"""Classic groups in the answers of DescribeGroups and ListGroups."""

from collections.abc import Iterable

from libs.wire.errors import ErrorCode
from libs.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from libs.wire.messages.list_groups import ListedGroup
from services.group_coordinator.core.classic.group import Group
from services.group_coordinator.core.classic.states import State
from services.group_coordinator.core.model.quoting import quoted

NOT_FOUND_FROM = 6
"""Version of DescribeGroups from which a missing group is an error (KIP-1043). Before, it is Dead."""
KIND = "classic"


def missing(name: str, version: int) -> DescribedGroup:
    if version < NOT_FOUND_FROM:
        return DescribedGroup(group_id=name, group_state=State.DEAD.value)
    message = f"Group {quoted(name)} not found."
    return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, message, group_id=name, group_state=State.DEAD.value)


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
    return ListedGroup(group.name, group.facts.protocol_type or "", group.state.value, KIND)


def list_where(groups: Iterable[Group], states: list[str], kinds: list[str]) -> list[ListedGroup]:
    """Groups that pass the filters. Empty filters pass all; case does not count."""
    if kinds and KIND not in {kind.lower() for kind in kinds}:
        return []
    accepted = {state.lower() for state in states}
    return [listed(group) for group in groups if not accepted or group.state.value.lower() in accepted]
