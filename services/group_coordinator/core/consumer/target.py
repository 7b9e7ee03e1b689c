"""The target assignment: a server-side assignor makes it once for each group epoch."""

from services.group_coordinator.core.consumer import assignors, partitions
from services.group_coordinator.core.consumer.assignors.spec import GroupSpec, MemberSpec, TopicSpec
from services.group_coordinator.core.consumer.group import Group
from services.group_coordinator.core.consumer.group_decision import GroupDecision
from services.group_coordinator.core.consumer.member import Member
from services.group_coordinator.core.model.consumer_settings import ConsumerSettings
from services.group_coordinator.core.model.records import TargetAssignmentChanged, TargetEpochChanged
from services.group_coordinator.core.model.topics_view import TopicsView


def preferred(group: Group, settings: ConsumerSettings) -> str:
    """The assignor that most members prefer, of equals the first by name. Assignors that are not offered do not count."""
    preferences = [(-count, name) for name, count in group.assignors.items() if name in settings.assignors]
    return min(preferences)[1] if preferences else settings.assignors[0]


def make(group_decision: GroupDecision) -> None:
    group = group_decision.group
    made = assignors.assign(preferred(group, group_decision.settings), _spec(group, group_decision.topics))
    for member_id in sorted(group.members):
        has = partitions.of(made.get(member_id, {}))
        if group.targets.get(member_id) != has:
            group_decision.put(TargetAssignmentChanged(group_decision.name, member_id, partitions.written(has)))
    group_decision.put(TargetEpochChanged(group_decision.name, group.facts.epoch))


def _spec(group: Group, topics: TopicsView) -> GroupSpec:
    by_name, by_id = topics.by_name, topics.by_id
    by_subscription: dict[tuple[tuple[str, ...], str | None], frozenset[bytes]] = {}
    members: dict[str, MemberSpec] = {}

    def subscribed(member: Member) -> frozenset[bytes]:
        key = member.topics, member.regex
        topic_ids = by_subscription.get(key)
        if topic_ids is None:
            topic_ids = by_subscription[key] = frozenset(
                by_name[name].topic_id for name in group.topics_of(member) if name in by_name
            )
        return topic_ids

    for member_id, member in group.members.items():
        members[member_id] = MemberSpec(subscribed(member), group.target(member_id), member.instance_id, member.rack_id)
    subscribed_ids = frozenset[bytes]().union(*by_subscription.values())
    return GroupSpec(
        members, {topic_id: TopicSpec(by_id[topic_id].partitions, by_id[topic_id].racks) for topic_id in subscribed_ids}
    )
