"""The reason, in words, for which a member joins again and so begins a rebalance. Clients name it from JoinGroup 8 on (KIP-800),
and not all of them do.

The coordinator sees more than they tell: the topics in the member's former and new subscription, and the partitions of the topics
that nobody has. A rebalance reads all members for this once, when it begins.
"""

from collections.abc import Sequence

from libs.wire.consumer_protocol import PROTOCOL_TYPE, ConsumerProtocolSubscription, read_assignment, read_subscription
from libs.wire.primitives import ProtocolError
from services.group_coordinator.core.classic.group import Group
from services.group_coordinator.core.classic.member import Member, Offered
from services.group_coordinator.core.model import reasons
from services.group_coordinator.core.model.quoting import listed, quoted
from services.group_coordinator.core.model.topics_view import TopicsView, TopicView


def reason(group: Group, topics: TopicsView, member: Member, protocols: Sequence[Offered], said: str | None) -> str:
    """`member` is as it was before. `said` is the reason that its client gives."""
    member_id = member.member_id
    who = f"leader {member_id}" if group.facts.leader == member_id else f"member {member_id}"
    names, before_names = [offered.name for offered in protocols], [offered.name for offered in member.protocols]
    if names != before_names:
        return reasons.joined_again(who, f"it offers the protocols {listed([quoted(name) for name in names])}", said)
    if group.facts.protocol_type != PROTOCOL_TYPE:
        return reasons.joined_again(who, "" if member.protocols == tuple(protocols) else "its metadata changed", said)
    try:
        before, after = (read_subscription(offered[0].metadata, up_to=1) for offered in (member.protocols, protocols))
        if set(before.topics) != set(after.topics):
            return reasons.subscription_changed(member_id, before.topics, after.topics, said)
        return reasons.joined_again(who, _topic_changes(group, topics) or _ownership(before, after), said)
    except ProtocolError:
        return reasons.joined_again(who, "", said)


def _ownership(before: ConsumerProtocolSubscription, after: ConsumerProtocolSubscription) -> str:
    """What a cooperative member says: that it gave up partitions, for others to get them."""
    return "" if _owned(before) == _owned(after) else "it owns other partitions than before"


def _owned(subscription: ConsumerProtocolSubscription) -> set[tuple[str, int]]:
    return {(owned.topic, number) for owned in subscription.owned_partitions for number in owned.partitions}


def _topic_changes(group: Group, topics: TopicsView) -> str:
    """How the topics differ from what was assigned. Raises ProtocolError.

    In a cooperative rebalance, partitions that change hands are assigned to nobody; a member reported that it owned them. New
    partitions come at the end. An assignor that leaves out others does so on purpose.
    """
    subscribed: set[str] = set()
    owned: dict[str, set[int]] = {}
    for member in group.members.values():
        subscription = read_subscription(member.metadata(group.facts.protocol), up_to=1)
        subscribed.update(subscription.topics)
        assigned = read_assignment(member.assignment).assigned_partitions if member.assignment else ()
        for each in (*subscription.owned_partitions, *assigned):
            owned.setdefault(each.topic, set()).update(each.partitions)
    changes = [_topic_change(name, owned.get(name, set()), topics.by_name.get(name)) for name in sorted(subscribed)]
    return listed([change for change in changes if change])


def _topic_change(name: str, owned: set[int], topic: TopicView | None) -> str:
    if topic is None:
        return reasons.topic_vanished(name) if owned else ""
    if not owned:
        return reasons.topic_appeared(name)
    had = len(owned)
    return reasons.partitions_gained(name, had, topic.partitions) if had < topic.partitions and max(owned) == had - 1 else ""
