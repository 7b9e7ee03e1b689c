"""Which topics a group reads: names, regular expressions resolved against the topics there are, and what became of them."""

from collections.abc import Mapping
from typing import Final

from libs.wire.errors import ErrorCode
from services.group_coordinator.core.consumer import changes
from services.group_coordinator.core.consumer.draft import Draft, Refused
from services.group_coordinator.core.consumer.group import Group
from services.group_coordinator.core.consumer.member import Member
from services.group_coordinator.core.consumer.regex import InvalidRegularExpression, matching_topics
from services.group_coordinator.core.consumer.settings import ConsumerSettings
from services.group_coordinator.core.quoted import listed
from services.group_coordinator.core.records import (
    ConsumerTopicsRemoved,
    RegularExpressionRemoved,
    RegularExpressionResolved,
)
from services.group_coordinator.core.topics_view import TopicsView, TopicView

REFRESH_MS_MIN: Final = 10_000
"""Topics come in swarms: a group looks at them with its expressions no more often. As in Kafka."""


def is_current(group: Group, topics: TopicsView, now_ms: int, settings: ConsumerSettings) -> bool:
    """Nothing is to be learned from the topics."""
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


def change_regex(draft: Draft, before: str | None, after: str | None) -> Refused | None:
    """The member is in the group with its new one already."""
    group = draft.group
    if before and before not in group.regex_members and before in group.regexes:
        draft.put(RegularExpressionRemoved(draft.name, before))
    if after and after not in group.regexes:
        try:
            _resolve(draft, after)
        except InvalidRegularExpression as error:
            return Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error))
    return None


def refresh(draft: Draft) -> str:
    """Returns in words why the target assignment is to be made anew; "" if it is not."""
    group, topics = draft.group, draft.topics
    facts = group.facts
    if _is_refresh_due(group, topics, draft.now_ms, draft.settings):
        for pattern in sorted(group.regex_members):
            try:
                _resolve(draft, pattern)
            except InvalidRegularExpression:
                continue  # a record that Kafka wrote, whose syntax is a little wider
        draft.put(changes.RegexesChecked(draft.name, topics.version, draft.now_ms))
    if facts.topics_seen:
        draft.put(ConsumerTopicsRemoved(draft.name))
    if draft.hashes.of(group.subscriptions, topics) == facts.metadata_hash:
        if facts.topics_version != topics.version:
            draft.checked()
        return ""
    return what_changed(facts.topics, {name: topics.by_name[name] for name in group.subscriptions if name in topics.by_name})


def without(draft: Draft, gone: Member) -> None:
    """Its regular expression, if nobody else asks for it."""
    if gone.regex and gone.regex not in draft.group.regex_members and gone.regex in draft.group.regexes:
        draft.put(RegularExpressionRemoved(draft.name, gone.regex))


def _resolve(draft: Draft, pattern: str) -> None:
    found = matching_topics(pattern, draft.topics.by_name)
    known = draft.group.regexes.get(pattern)
    if known is None or known.topics != found:
        draft.put(RegularExpressionResolved(draft.name, pattern, found, draft.topics.version, draft.now_ms))


def what_changed(before: Mapping[str, TopicView], after: Mapping[str, TopicView]) -> str:
    found: list[str] = []
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if old is None:
            found.append(f"topic {name} is there")
        elif new is None:
            found.append(f"topic {name} is gone")
        elif old.topic_id != new.topic_id:
            found.append(f"topic {name} was created anew")
        elif old.partitions != new.partitions:
            found.append(f"topic {name} gained partitions: {old.partitions}, now {new.partitions}")
        elif old.racks != new.racks:
            found.append(f"replicas of topic {name} moved")
    return listed(found) or "topics changed"
