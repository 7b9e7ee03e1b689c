"""Groups of the consumer protocol in the answers of ConsumerGroupDescribe, DescribeGroups and ListGroups."""

from collections.abc import Iterable
from typing import Final

from libs.wire.consumer_protocol import PROTOCOL_TYPE
from libs.wire.errors import ErrorCode
from libs.wire.messages.consumer_group_describe import Assignment, DescribedGroup, TopicPartitions
from libs.wire.messages.consumer_group_describe import Member as DescribedMember
from libs.wire.messages.describe_groups import DescribedGroup as DescribedAsClassic
from libs.wire.messages.list_groups import ListedGroup
from services.group_coordinator.core.consumer import target
from services.group_coordinator.core.consumer.group import Group
from services.group_coordinator.core.consumer.partitions import Partitions
from services.group_coordinator.core.consumer.states import State
from services.group_coordinator.core.model.consumer_settings import ConsumerSettings
from services.group_coordinator.core.model.quoting import quoted
from services.group_coordinator.core.model.topics_view import TopicsView

KIND: Final = "consumer"
NOT_FOUND_FROM: Final = 6
"""Version of DescribeGroups from which a group of another kind is an error (KIP-1043). Before, it is Dead."""
MEMBER_TYPE_CLASSIC, MEMBER_TYPE_CONSUMER = 0, 1


def missing(name: str) -> DescribedGroup:
    return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {quoted(name)} not found.", name)


def describe(group: Group, settings: ConsumerSettings, topics: TopicsView) -> DescribedGroup:
    facts = group.facts
    return DescribedGroup(
        group_id=group.name,
        group_state=group.state.value,
        group_epoch=facts.epoch,
        assignment_epoch=facts.assignment_epoch,
        assignor_name=target.preferred(group, settings),
        members=[
            DescribedMember(
                member.member_id,
                member.instance_id,
                member.rack_id,
                member.epoch,
                member.client_id,
                member.client_host,
                list(member.topics),
                member.regex,
                _named(member.assigned, topics),
                _named(group.target(member.member_id), topics),
                MEMBER_TYPE_CONSUMER if member.classic is None else MEMBER_TYPE_CLASSIC,
            )
            for member in group.members.values()
        ],
    )


def describe_as_classic(name: str, version: int) -> DescribedAsClassic:
    """The group in DescribeGroups, for which only classic groups exist."""
    if version < NOT_FOUND_FROM:
        return DescribedAsClassic(group_id=name, group_state=State.DEAD.value)
    message = f"Group {quoted(name)} is not a classic group."
    return DescribedAsClassic(ErrorCode.GROUP_ID_NOT_FOUND, message, group_id=name, group_state=State.DEAD.value)


def listed(group: Group) -> ListedGroup:
    return ListedGroup(group.name, PROTOCOL_TYPE, group.state.value, KIND)


def list_where(groups: Iterable[Group], states: list[str], kinds: list[str]) -> list[ListedGroup]:
    """Groups that pass the filters. Empty filters pass all; case does not count."""
    if kinds and KIND not in {kind.lower() for kind in kinds}:
        return []
    accepted = {state.lower() for state in states}
    return [listed(group) for group in groups if not accepted or group.state.value.lower() in accepted]


def _named(partitions: Partitions, topics: TopicsView) -> Assignment:
    """The assignment with topic names. Deleted topics are omitted."""
    known = [topic_id for topic_id in partitions if topic_id in topics.by_id]
    return Assignment(
        [TopicPartitions(topic_id, topics.by_id[topic_id].name, sorted(partitions[topic_id])) for topic_id in sorted(known)]
    )
