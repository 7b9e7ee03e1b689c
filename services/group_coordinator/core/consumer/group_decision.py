"""A decision about one consumer group in the making: its records, tried on a working copy, and its timers."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from libs.coordinator.core.decisions import Decision
from libs.coordinator.core.timers import TimerKey
from libs.wire.errors import ErrorCode
from libs.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from services.group_coordinator.core.consumer import changes
from services.group_coordinator.core.consumer.group import Group, Recorded
from services.group_coordinator.core.consumer.member import Member
from services.group_coordinator.core.consumer.states import State
from services.group_coordinator.core.consumer.topic_hashes import TopicHashes
from services.group_coordinator.core.model.consumer_settings import ConsumerSettings, session_timeout_ms
from services.group_coordinator.core.model.group_events import GroupEvent, RebalanceBegan, RebalanceEnded, fenced
from services.group_coordinator.core.model.group_kind import CONSUMER
from services.group_coordinator.core.model.records import ConsumerGroupChanged
from services.group_coordinator.core.model.topics_view import TopicsView

PART = "consumer"

Decided: TypeAlias = Decision[Any, Any]
"""A decision of this part. Other parts have their own replies and records."""


class Refused(NamedTuple):
    """A refusal with the error and message for the client. The request changes nothing."""

    error: ErrorCode
    message: str

    def decided(self, request: ConsumerGroupHeartbeatRequest) -> Decided:
        events = fenced(request.group_id, request.member_id, request.instance_id, self.error, self.message)
        return Decision(ConsumerGroupHeartbeatResponse(error_code=self.error, error_message=self.message), events=events)


def session_key(group: str, member_id: str) -> TimerKey:
    return PART, "session", group, member_id


def revocation_key(group: str, member_id: str) -> TimerKey:
    return PART, "revocation", group, member_id


def session_ms(member: Member, settings: ConsumerSettings, configs: Mapping[str, str]) -> int:
    """The member's session timeout. A classic member sets its own."""
    return session_timeout_ms(settings, configs) if member.classic is None else member.classic.session_timeout_ms


class GroupDecision:
    """A decision in the making. `group` is the group after the records so far."""

    def __init__(
        self,
        group: Group,
        now_ms: int,
        settings: ConsumerSettings,
        configs: Mapping[str, str],
        topics: TopicsView,
        hashes: TopicHashes,
    ) -> None:
        self.group = group
        self.name = group.name
        self.now_ms = now_ms
        self.settings = settings
        self.configs = configs
        self.topics = topics
        self.hashes = hashes
        self.describes: Callable[[str], bool] | None = None
        """Whether the client that asks may describe a topic. None: there is no authorizer, or no client."""
        self.records: list[Recorded] = []
        self.timers: dict[TimerKey, int | None] = {}
        self.events: list[GroupEvent] = []

    def decision(self, reply: object = None) -> Decided:
        if self.group.facts.rebalances_now and self.group.state in (State.STABLE, State.EMPTY):
            self.put(changes.RebalanceEnded(self.name, self.now_ms))
            self.events.append(RebalanceEnded(self.name, CONSUMER, len(self.group.members), self.group.facts.epoch))
        return Decision(reply, self.records, self.timers, events=self.events)

    def put(self, record: Recorded) -> None:
        self.records.append(record)
        self.group.apply(record)

    def put_assignment(self, before: Member, after: Member) -> None:
        """Changes a member's assignment, and nothing else about it."""
        self.records.append(after.assignment_record(self.name))
        self.group.set_assignment(before, after)

    def bump(self, reason: str) -> None:
        """Raises the group epoch. The next heartbeat, or this one, makes a new target assignment."""
        group, again = self.group, self.group.facts.rebalances_now
        self.put(ConsumerGroupChanged(self.name, group.facts.epoch + 1, self.hashes.of(group.subscriptions, self.topics)))
        self.checked()
        timeout_ms = max((member.rebalance_timeout_ms for member in group.members.values()), default=0)
        began = RebalanceBegan(self.name, CONSUMER, reason, len(group.members), group.facts.epoch, again, timeout_ms)
        self.events.append(began)
        self.put(changes.RebalanceBegun(self.name, reason, self.now_ms))

    def checked(self) -> None:
        by_name = self.topics.by_name
        seen = {name: by_name[name] for name in self.group.subscriptions if name in by_name}
        self.put(changes.TopicsChecked(self.name, self.topics.version, seen))

    # -- timers -------------------------------------------------------------------------------------------------------------

    def schedule_session_timeout(self, member_id: str) -> None:
        lasts_ms = session_ms(self.group.members[member_id], self.settings, self.configs)
        self.timers[session_key(self.name, member_id)] = self.now_ms + lasts_ms

    def schedule_rebalance_timeout(self, member: Member) -> None:
        self.timers[revocation_key(self.name, member.member_id)] = self.now_ms + member.rebalance_timeout_ms

    def cancel_rebalance_timeout(self, member_id: str) -> None:
        self.timers[revocation_key(self.name, member_id)] = None

    def cancel_timers(self, member_id: str) -> None:
        self.timers[session_key(self.name, member_id)] = None
        self.timers[revocation_key(self.name, member_id)] = None
