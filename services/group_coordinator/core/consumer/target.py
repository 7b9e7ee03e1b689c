"""The target assignment: what each member is to have, made once for each group epoch by a server-side assignor."""

from services.group_coordinator.core.consumer import assignors, partitions
from services.group_coordinator.core.consumer.assignors.spec import GroupSpec, MemberSpec, TopicSpec
from services.group_coordinator.core.consumer.draft import Draft
from services.group_coordinator.core.consumer.group import Group
from services.group_coordinator.core.consumer.member import Member
from services.group_coordinator.core.consumer.settings import ConsumerSettings
from services.group_coordinator.core.records import TargetAssignmentChanged, TargetEpochChanged
from services.group_coordinator.core.topics_view import TopicsView


def preferred(group: Group, settings: ConsumerSettings) -> str:
    """Most members ask for it; of equals the first by name. Those that are not offered (any more) do not count."""
    asked = [(-count, name) for name, count in group.assignors.items() if name in settings.assignors]
    return min(asked)[1] if asked else settings.assignors[0]


def make(draft: Draft) -> None:
    group = draft.group
    made = assignors.assign(preferred(group, draft.settings), _spec(group, draft.topics))
    for member_id in sorted(group.members):
        has = partitions.of(made.get(member_id, {}))
        if group.targets.get(member_id) != has:
            draft.put(TargetAssignmentChanged(draft.name, member_id, partitions.written(has)))
    draft.put(TargetEpochChanged(draft.name, group.facts.epoch))


def _spec(group: Group, topics: TopicsView) -> GroupSpec:
    by_name, by_id = topics.by_name, topics.by_id
    asked: dict[tuple[tuple[str, ...], str | None], frozenset[bytes]] = {}
    members: dict[str, MemberSpec] = {}

    def subscribed(member: Member) -> frozenset[bytes]:
        key = member.topics, member.regex
        found = asked.get(key)
        if found is None:
            found = asked[key] = frozenset(by_name[name].topic_id for name in group.topics_of(member) if name in by_name)
        return found

    for member_id, member in group.members.items():
        members[member_id] = MemberSpec(subscribed(member), group.target(member_id), member.instance_id, member.rack_id)
    wanted = frozenset[bytes]().union(*asked.values())
    return GroupSpec(members, {topic_id: TopicSpec(by_id[topic_id].partitions, by_id[topic_id].racks) for topic_id in wanted})
