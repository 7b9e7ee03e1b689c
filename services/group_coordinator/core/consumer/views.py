"""Groups of the consumer protocol in the answers of ConsumerGroupDescribe, DescribeGroups and ListGroups."""

from libs.wire.consumer_protocol import PROTOCOL_TYPE
from libs.wire.messages.consumer_group_describe import Assignment, DescribedGroup, TopicPartitions
from libs.wire.messages.consumer_group_describe import Member as DescribedMember
from libs.wire.messages.list_groups import ListedGroup
from services.group_coordinator.core.consumer import target
from services.group_coordinator.core.consumer.group import Group
from services.group_coordinator.core.consumer.partitions import Partitions
from services.group_coordinator.core.model.consumer_settings import ConsumerSettings
from services.group_coordinator.core.model.group_kind import CONSUMER
from services.group_coordinator.core.model.topics_view import TopicsView

MEMBER_TYPE_CLASSIC, MEMBER_TYPE_CONSUMER = 0, 1


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


def listed(group: Group) -> ListedGroup:
    return ListedGroup(group.name, PROTOCOL_TYPE, group.state.value, CONSUMER)


def _named(partitions: Partitions, topics: TopicsView) -> Assignment:
    """The assignment with topic names. Deleted topics are omitted."""
    known = [topic_id for topic_id in partitions if topic_id in topics.by_id]
    return Assignment(
        [TopicPartitions(topic_id, topics.by_id[topic_id].name, sorted(partitions[topic_id])) for topic_id in sorted(known)]
    )
