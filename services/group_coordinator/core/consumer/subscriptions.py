"""Subscribed topics of a group: names, and regular expressions resolved against the topics that exist."""

from collections.abc import Mapping
from typing import Final

from libs.wire.errors import ErrorCode
from services.group_coordinator.core.consumer import changes
from services.group_coordinator.core.consumer.group import Group
from services.group_coordinator.core.consumer.group_decision import GroupDecision, Refused
from services.group_coordinator.core.consumer.member import Member
from services.group_coordinator.core.consumer.regex import InvalidRegularExpression, matching_topics
from services.group_coordinator.core.model import reasons
from services.group_coordinator.core.model.consumer_settings import ConsumerSettings
from services.group_coordinator.core.model.quoting import listed
from services.group_coordinator.core.model.records import (
    ConsumerTopicsRemoved,
    RegularExpressionRemoved,
    RegularExpressionResolved,
)
from services.group_coordinator.core.model.topics_view import TopicsView, TopicView

REFRESH_MS_MIN: Final = 10_000
"""Topics are often created in large numbers. A group resolves its expressions against them no more often than this,
as in Kafka."""


def is_current(group: Group, topics: TopicsView, now_ms: int, settings: ConsumerSettings) -> bool:
    """Whether the group's view of the topics is current."""
    facts = group.facts
    if facts.topics_version != topics.version or facts.topics_seen:
        return False
    return not _is_refresh_due(group, topics, now_ms, settings)


def _is_refresh_due(group: Group, topics: TopicsView, now_ms: int, settings: ConsumerSettings) -> bool:
    facts = group.facts
    if not group.regex_members or now_ms < facts.regexes_ms + REFRESH_MS_MIN:
        return False
    return facts.regexes_version != topics.version or now_ms >= facts.regexes_ms + settings.regex_refresh_ms


def topic_ids(group: Group, member: Member, topics: TopicsView) -> frozenset[bytes]:
    by_name = topics.by_name
    return frozenset(by_name[name].topic_id for name in group.topics_of(member) if name in by_name)


def change_regex(group_decision: GroupDecision, before: str | None, after: str | None) -> Refused | None:
    """Resolves a member's new regular expression. The group has the member with it already."""
    group = group_decision.group
    if before and before not in group.regex_members and before in group.regexes:
        group_decision.put(RegularExpressionRemoved(group_decision.name, before))
    if after and after not in group.regexes:
        try:
            _resolve(group_decision, after)
        except InvalidRegularExpression as error:
            return Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error))
    return None


def change_in_words(before: Member, after: Member, said: str | None = None) -> str:
    """What is new about a member's subscription, in words; "" if nothing is. `said`: the reason that its client gives."""
    if before.topics == after.topics and (before.regex or "") == (after.regex or ""):
        return ""
    return reasons.subscription_changed(after.member_id, _subscribed(before), _subscribed(after), said)


def _subscribed(member: Member) -> list[str]:
    return [*member.topics, *([f"regular expression {member.regex}"] if member.regex else [])]


def refresh(group_decision: GroupDecision) -> str:
    """Brings the group's view of the topics up to date. Returns in words why the target assignment has to change; "" if it need
    not."""
    group, topics = group_decision.group, group_decision.topics
    facts = group.facts
    if _is_refresh_due(group, topics, group_decision.now_ms, group_decision.settings):
        for pattern in sorted(group.regex_members):
            try:
                _resolve(group_decision, pattern)
            except InvalidRegularExpression:
                continue  # from a record of Kafka, whose syntax is a little wider
        group_decision.put(changes.RegexesChecked(group_decision.name, topics.version, group_decision.now_ms))
    if facts.topics_seen:
        group_decision.put(ConsumerTopicsRemoved(group_decision.name))
    if group_decision.hashes.of(group.subscriptions, topics) == facts.metadata_hash:
        if facts.topics_version != topics.version:
            group_decision.checked()
        return ""
    return topic_changes(facts.topics, {name: topics.by_name[name] for name in group.subscriptions if name in topics.by_name})


def without(group_decision: GroupDecision, gone: Member) -> None:
    """Removes the regular expression of a member that is gone, unless another member uses it."""
    if gone.regex and gone.regex not in group_decision.group.regex_members and gone.regex in group_decision.group.regexes:
        group_decision.put(RegularExpressionRemoved(group_decision.name, gone.regex))


def _resolve(group_decision: GroupDecision, pattern: str) -> None:
    """As in Kafka (KAFKA-19147), a topic does not match that the member whose request resolves the pattern may not describe."""
    matches, describes = matching_topics(pattern, group_decision.topics.by_name), group_decision.describes
    if describes is not None:
        matches = tuple([name for name in matches if describes(name)])
    known = group_decision.group.regexes.get(pattern)
    if known is None or known.topics != matches:
        group_decision.put(
            RegularExpressionResolved(group_decision.name, pattern, matches, group_decision.topics.version, group_decision.now_ms)
        )


def topic_changes(before: Mapping[str, TopicView], after: Mapping[str, TopicView]) -> str:
    found: list[str] = []
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if old is None:
            found.append(reasons.topic_appeared(name))
        elif new is None:
            found.append(reasons.topic_vanished(name))
        elif old.topic_id != new.topic_id:
            found.append(f"topic {name} was created anew")
        elif old.partitions != new.partitions:
            found.append(reasons.partitions_gained(name, old.partitions, new.partitions))
        elif old.racks != new.racks:
            found.append(f"replicas of topic {name} moved")
    return listed(found) or "topics changed"
