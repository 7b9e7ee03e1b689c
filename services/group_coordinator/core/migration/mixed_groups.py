"""Requests of both protocols to groups of either: their routing, and the conversion of groups.

`group.consumer.migration.policy` says which conversions are allowed for groups with members. An empty group may always be
converted.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from libs.coordinator.core.decisions import Decision
from libs.coordinator.core.tables import Journal, Table
from libs.coordinator.core.timers import TimerKey
from libs.wire.errors import ErrorCode
from libs.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from libs.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from libs.wire.messages.join_group import JoinGroupRequest
from libs.wire.messages.leave_group import LeaveGroupRequest, MemberResponse
from libs.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from services.group_coordinator.core.classic import leaves as classic_leaves
from services.group_coordinator.core.classic.classic_groups import ClassicGroups
from services.group_coordinator.core.classic.group import Group as ClassicGroup
from services.group_coordinator.core.classic.group_decision import join_refused
from services.group_coordinator.core.classic.joins import Join
from services.group_coordinator.core.classic.states import State
from services.group_coordinator.core.consumer import heartbeats, leaves
from services.group_coordinator.core.consumer.consumer_groups import ConsumerGroups
from services.group_coordinator.core.consumer.group import Group
from services.group_coordinator.core.consumer.group_decision import Decided, Refused, revocation_key, session_key
from services.group_coordinator.core.consumer.member import JOIN_GROUP_MEMBER_EPOCH, Member
from services.group_coordinator.core.migration import classic_members, downgrade, upgrade
from services.group_coordinator.core.migration.classic_members import RefusedJoin
from services.group_coordinator.core.migration.expected_requests import ExpectedRequest, RequestArrived, RequestExpected
from services.group_coordinator.core.model import records
from services.group_coordinator.core.model.group_events import TOO_SLOW, MemberRemoved, ProtocolChanged, fenced
from services.group_coordinator.core.model.group_kind import CLASSIC, CONSUMER
from services.group_coordinator.core.model.quoting import quoted
from services.group_coordinator.core.model.requests import RequestEvent
from services.group_coordinator.core.model.settings import GroupSettings
from services.group_coordinator.core.model.topics_view import TopicsView

SYNC_NAMES_PROTOCOL_FROM: Final = 5
"""Version of SyncGroup whose schema allows null for protocol type and name, although they are required."""


class MixedGroups:
    def __init__(
        self,
        journal: Journal,
        classic: ClassicGroups,
        consumer: ConsumerGroups,
        settings: Callable[[], GroupSettings],
        topics: Callable[[], TopicsView],
    ) -> None:
        self._classic = classic
        self._consumer = consumer
        self._settings = settings
        self._topics = topics
        self.expected_requests: Table[ExpectedRequest, int] = Table(journal)
        """Expected request → deadline."""

    # -- requests of the consumer protocol ----------------------------------------------------------------------------------

    def decide_consumer_heartbeat(
        self, event: RequestEvent, request: ConsumerGroupHeartbeatRequest, now_ms: int, *, downgrades: bool = True
    ) -> Decided:
        """`downgrades`: whether the group may become classic. As a classic group it may be too large for a batch."""
        name = request.group_id
        if name in self._classic.groups:
            return self._decide_upgrade(event, request, now_ms)
        decision = self._consumer.decide_heartbeat(event, request, now_ms)
        return self._downgraded(name, decision, now_ms) if downgrades else decision

    def _decide_upgrade(self, event: RequestEvent, request: ConsumerGroupHeartbeatRequest, now_ms: int) -> Decided:
        refused = self._consumer.refusal(event, request)
        if refused is not None:
            return refused.decided(request)
        group = self._classic.groups[request.group_id]
        if request.member_epoch != JOIN_GROUP_MEMBER_EPOCH:
            return Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {quoted(group.name)} is not a consumer group.").decided(request)
        if group.state is State.EMPTY:
            decision = self._consumer.decide_heartbeat(event, request, now_ms)
        else:
            settings = self._settings()
            refused = upgrade.fault(group, settings.consumer_migration_policy, settings.consumer_size_max)
            decision = refused.decided(request) if refused is not None else self._upgraded(group, event, request, now_ms)
        if not decision.records:  # a refusal
            return decision
        return decision._replace(
            records=[*upgrade.tombstones(group), *decision.records],
            timers={**upgrade.timers(group), **decision.timers},
            wakes=upgrade.wakes(group),
            events=[ProtocolChanged(group.name, CLASSIC, CONSUMER, len(group.members)), *decision.events],
        )

    def _upgraded(
        self, group: ClassicGroup, event: RequestEvent, request: ConsumerGroupHeartbeatRequest, now_ms: int, reason: str = ""
    ) -> Decided:
        group_decision = self._consumer.group_decision(group.name, now_ms)
        refused = upgrade.convert(group, group_decision)
        if refused is not None:
            return refused.decided(request)
        if reason:
            group_decision.bump(reason)
        decision = heartbeats.decide_heartbeat(group_decision, event, request)
        if decision.records and group_decision.group.facts.epoch == group.facts.generation:
            # The new member changes no subscription: it is a static member that restarted with this protocol. Kafka keeps the
            # last leader's assignment, even in the middle of a cooperative rebalance.
            return self._upgraded(group, event, request, now_ms, f"member {request.member_id} brought the consumer protocol")
        return decision

    # -- requests of the classic protocol -----------------------------------------------------------------------------------

    def decide_join(self, event: RequestEvent, request: JoinGroupRequest, now_ms: int, *, downgrades: bool = True) -> Decided:
        group = self._consumer.groups.get(request.group_id)
        if group is None:
            return self._classic.decide_join(event, request, now_ms)
        if not group.members:
            decision = self._classic.decide_join(event, request, now_ms)
            if not decision.records:
                return decision
            changed = ProtocolChanged(group.name, CONSUMER, CLASSIC, 0)
            kept = [*self._consumer.tombstones(group.name), *decision.records]
            return decision._replace(records=kept, events=[changed, *decision.events])
        error = self._classic.join_error(request)
        if error:
            return Decision(join_refused(error, request.member_id, event.version))
        group_decision = self._consumer.group_decision(group.name, now_ms)
        try:
            member = classic_members.join(group_decision, Join.of(event, request))
        except RefusedJoin as refused:
            events = fenced(group.name, request.member_id, request.group_instance_id, refused.error)
            return Decision(join_refused(refused.error, refused.member_id, event.version), events=events)
        decision = group_decision.decision(classic_members.joined_reply(member))
        decision = self._arrived(decision, ExpectedRequest(group.name, member.member_id, True))
        decision = self._expect(
            decision, ExpectedRequest(group.name, member.member_id, False), now_ms + member.rebalance_timeout_ms
        )
        return self._downgraded(group.name, decision, now_ms) if downgrades else decision

    def decide_sync(self, event: RequestEvent, request: SyncGroupRequest, now_ms: int) -> Decided:
        if event.version >= SYNC_NAMES_PROTOCOL_FROM and None in (request.protocol_type, request.protocol_name):
            return Decision(SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        group = self._consumer.groups.get(request.group_id)
        if group is None:
            return self._classic.decide_sync(event, request, now_ms)
        member = classic_members.find_classic_member(group, request.member_id, request.group_instance_id)
        if isinstance(member, ErrorCode):
            events = fenced(group.name, request.member_id, request.group_instance_id, member)
            return Decision(SyncGroupResponse(error_code=member), events=events)
        error = classic_members.sync_error(group, member, request)
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            return self._expect_rejoin(Decision(SyncGroupResponse(error_code=error)), group, member, now_ms)
        if error:
            return Decision(SyncGroupResponse(error_code=error))
        given = classic_members.assignment(member.assigned, self._topics(), classic_members.protocol_of(member).metadata)
        reply = SyncGroupResponse(0, 0, request.protocol_type, request.protocol_name, given)
        decision: Decided = Decision(reply, timers=self._consumer.session_timers(group.name, member, now_ms))
        return self._arrived(decision, ExpectedRequest(group.name, member.member_id, False))

    def decide_heartbeat(self, event: RequestEvent, request: HeartbeatRequest, now_ms: int) -> Decided:
        group = self._consumer.groups.get(request.group_id)
        if group is None:
            return self._classic.decide_heartbeat(event, request, now_ms)
        member = classic_members.find_classic_member(group, request.member_id, request.group_instance_id)
        if isinstance(member, ErrorCode):
            events = fenced(group.name, request.member_id, request.group_instance_id, member)
            return Decision(HeartbeatResponse(error_code=member), events=events)
        if request.generation_id != member.epoch:
            return Decision(HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION))
        timers = self._consumer.session_timers(group.name, member, now_ms)
        if not classic_members.is_to_join(group, member):
            return Decision(HeartbeatResponse(), timers=timers)
        again = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        return self._expect_rejoin(Decision(again, timers=timers), group, member, now_ms)

    def decide_leave(self, event: RequestEvent, request: LeaveGroupRequest, now_ms: int, *, downgrades: bool = True) -> Decided:
        group = self._consumer.groups.get(request.group_id)
        if group is None:
            return self._classic.decide_leave(event, request, now_ms)
        leaving = classic_leaves.leaving(request, event.version)
        group_decision = self._consumer.group_decision(group.name, now_ms)
        errors = classic_members.leave(group_decision, leaving)
        answers = [
            MemberResponse(identity.member_id, identity.group_instance_id, error)
            for identity, error in zip(leaving, errors, strict=True)
        ]
        decision = group_decision.decision(classic_leaves.left_reply(answers, event.version))
        return self._downgraded(group.name, decision, now_ms) if downgrades else decision

    # -- expected requests --------------------------------------------------------------------------------------------------

    def _expect_rejoin(self, decision: Decided, group: Group, member: Member, now_ms: int) -> Decided:
        expected = ExpectedRequest(group.name, member.member_id, True)
        if expected in self.expected_requests:  # the member heard it before, and its deadline stays
            return decision
        return self._expect(decision, expected, now_ms + member.rebalance_timeout_ms)

    def _expect(self, decision: Decided, expected: ExpectedRequest, due_ms: int) -> Decided:
        return decision._replace(
            records=[*decision.records, RequestExpected(expected, due_ms)],
            timers={**decision.timers, expected.timer: due_ms},
        )

    def _arrived(self, decision: Decided, expected: ExpectedRequest) -> Decided:
        if expected not in self.expected_requests:
            return decision
        return decision._replace(
            records=[*decision.records, RequestArrived(expected)], timers={**decision.timers, expected.timer: None}
        )

    # -- back to classic ----------------------------------------------------------------------------------------------------

    def _downgraded(self, name: str, decision: Decided, now_ms: int) -> Decided:
        """The decision, with a downgrade if it leaves only classic members."""
        group, settings = self._consumer.groups.get(name), self._settings()
        if group is None or settings.consumer_migration_policy not in downgrade.ALLOWED:
            return decision
        if not downgrade.may_be_due(group, decision.records):
            return decision
        after = group.scratch()
        for record in decision.records:
            after.apply(record)
        if not after.all_classic or len(after.members) > settings.classic.size_max:
            return decision
        replaced = any(isinstance(record, records.ConsumerMemberChanged) for record in decision.records)
        # If members only left, the decision's own records about the group are not needed: it is gone.
        epoch = after.facts.epoch if replaced else group.facts.epoch
        record = downgrade.classic_group(after, epoch, self._topics(), now_ms)
        if record is None:
            return decision
        followed, timers, begun = downgrade.first_rebalance(record, settings.classic, self._topics(), now_ms)
        kept: Sequence[object] = decision.records if replaced else ()
        kept_events = [each for each in decision.events if replaced or isinstance(each, MemberRemoved)]
        members = {*group.members, *after.members}
        ended: dict[TimerKey, int | None] = {
            key(name, member_id): None for member_id in members for key in (session_key, revocation_key)
        }
        expected = [ExpectedRequest(name, member_id, joins) for member_id in sorted(members) for joins in (True, False)]
        ended |= {
            request.timer: None for request in expected
        }  # otherwise a later group of this name would lose a member for a request that is owed here
        arrived = [RequestArrived(request) for request in expected]
        return decision._replace(
            records=[*kept, *arrived, *self._consumer.tombstones(name, after if replaced else group), record, *followed],
            timers={**decision.timers, **ended, **timers},
            events=[*kept_events, ProtocolChanged(name, CONSUMER, CLASSIC, len(after.members)), *begun],
        )

    # -- timers, records ----------------------------------------------------------------------------------------------------

    def expired_consumer(self, key: TimerKey, now_ms: int, *, downgrades: bool = True) -> Decided:
        """The decision about a timer of the consumer protocol."""
        decision = self._consumer.expired(key, now_ms)
        match key:
            case (_, _, str(name), _) if downgrades:
                return self._downgraded(name, decision, now_ms)
        return decision

    def expired(self, key: TimerKey, now_ms: int) -> Decided:
        match key:
            case (_, what, str(name), str(member_id)):
                return self._on_request_timeout(ExpectedRequest(name, member_id, what == "join"), now_ms)
        return Decision()

    def _on_request_timeout(self, expected: ExpectedRequest, now_ms: int) -> Decided:
        due_ms = self.expected_requests.get(expected)
        if due_ms is None:
            return Decision()
        if due_ms > now_ms:
            return Decision(timers={expected.timer: due_ms})
        group = self._consumer.groups.get(expected.group)
        member = group.members.get(expected.member_id) if group is not None else None
        if member is None or member.classic is None:
            return Decision(records=[RequestArrived(expected)])
        group_decision = self._consumer.group_decision(expected.group, now_ms)
        late = "join again" if expected.joins else "ask for its assignment"
        leaves.fence(
            group_decision, member, TOO_SLOW, f"member {member.member_id} did not {late} within {member.rebalance_timeout_ms} ms"
        )
        decision = group_decision.decision()
        return decision._replace(records=[*decision.records, RequestArrived(expected)])

    def timers(self, now_ms: int) -> Iterator[tuple[TimerKey, int]]:
        for expected, due_ms in self.expected_requests.items():
            group = self._consumer.groups.get(expected.group)
            member = group.members.get(expected.member_id) if group is not None else None
            whole_ms = member.rebalance_timeout_ms if member is not None else 0  # no request could arrive while the log was away
            yield expected.timer, max(due_ms, now_ms + whole_ms)

    def replay(self, record: object) -> bool:
        match record:
            case RequestExpected(expected, due_ms):
                self.expected_requests[expected] = due_ms
            case RequestArrived(expected):
                self.expected_requests.pop(expected, None)
            case _:
                return False
        return True
