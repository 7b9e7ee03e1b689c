"""Requests of both protocols to groups of either: to whom they go, and when a group changes from one to the other.

`group.consumer.migration.policy` says which way groups with members may go. A group that nobody is in goes either way.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from libs.runtime.shards.decisions import Decision
from libs.runtime.shards.tables import Journal, Table
from libs.runtime.shards.timers import TimerKey
from libs.wire.errors import ErrorCode
from libs.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from libs.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from libs.wire.messages.join_group import JoinGroupRequest
from libs.wire.messages.leave_group import LeaveGroupRequest, MemberResponse
from libs.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from services.group_coordinator.core import records
from services.group_coordinator.core.asked import Asked
from services.group_coordinator.core.classic import leaves as classic_leaves
from services.group_coordinator.core.classic.draft import join_refused
from services.group_coordinator.core.classic.group import Group as ClassicGroup
from services.group_coordinator.core.classic.joins import Join
from services.group_coordinator.core.classic.part import Classic
from services.group_coordinator.core.classic.states import State
from services.group_coordinator.core.consumer import classic_members, downgrade, heartbeats, leaves, upgrade
from services.group_coordinator.core.consumer.awaited import Awaited, MemberAwaited, MemberCame
from services.group_coordinator.core.consumer.classic_members import RefusedJoin
from services.group_coordinator.core.consumer.draft import Decided, Refused, revocation_key, session_key
from services.group_coordinator.core.consumer.group import Group
from services.group_coordinator.core.consumer.member import JOINS, Member
from services.group_coordinator.core.consumer.part import Consumer
from services.group_coordinator.core.happened import CLASSIC, CONSUMER, TOO_SLOW, MemberRemoved, ProtocolChanged, fenced
from services.group_coordinator.core.quoted import quoted
from services.group_coordinator.core.settings import GroupSettings
from services.group_coordinator.core.topics_view import TopicsView

SYNC_NAMES_PROTOCOL_FROM: Final = 5
"""Version of SyncGroup from which protocol type and name may be null on the wire, and not in fact."""


class Mixed:
    def __init__(
        self,
        journal: Journal,
        classic: Classic,
        consumer: Consumer,
        settings: Callable[[], GroupSettings],
        topics: Callable[[], TopicsView],
    ) -> None:
        self._classic = classic
        self._consumer = consumer
        self._settings = settings
        self._topics = topics
        self._awaited: Table[Awaited, int] = Table(journal)
        """Until when."""

    # -- requests of the consumer protocol ----------------------------------------------------------------------------------

    def decide_consumer_heartbeat(self, asked: Asked, request: ConsumerGroupHeartbeatRequest, now_ms: int) -> Decided:
        name = request.group_id
        if name in self._classic.groups:
            return self._decide_upgrade(asked, request, now_ms)
        return self._downgraded(name, self._consumer.decide_heartbeat(asked, request, now_ms), now_ms)

    def _decide_upgrade(self, asked: Asked, request: ConsumerGroupHeartbeatRequest, now_ms: int) -> Decided:
        refused = self._consumer.refusal(asked, request)
        if refused is not None:
            return refused.decided(request)
        group = self._classic.groups[request.group_id]
        if request.member_epoch != JOINS:
            return Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {quoted(group.name)} is not a consumer group.").decided(request)
        if group.state is State.EMPTY:
            decision = self._consumer.decide_heartbeat(asked, request, now_ms)
        else:
            settings = self._settings()
            cannot = upgrade.fault(group, settings.consumer_migration_policy, settings.consumer_size_max)
            decision = cannot.decided(request) if cannot is not None else self._upgraded(group, asked, request, now_ms)
        if not decision.records:  # refused
            return decision
        return decision._replace(
            records=[*upgrade.removal(group), *decision.records],
            timers={**upgrade.timers(group), **decision.timers},
            wakes=upgrade.wakes(group),
            happened=[ProtocolChanged(group.name, CLASSIC, CONSUMER, len(group.members)), *decision.happened],
        )

    def _upgraded(
        self, group: ClassicGroup, asked: Asked, request: ConsumerGroupHeartbeatRequest, now_ms: int, reason: str = ""
    ) -> Decided:
        draft = self._consumer.draft(group.name, now_ms)
        cannot = upgrade.convert(group, draft)
        if cannot is not None:
            return cannot.decided(request)
        if reason:
            draft.bump(reason)
        decision = heartbeats.decide_heartbeat(draft, asked, request)
        if decision.records and draft.group.facts.epoch == group.facts.generation:
            # Who came asks for nothing else than was asked for: a static member that was restarted with this protocol. Kafka
            # leaves it at what the last leader assigned, be it half of a cooperative rebalance.
            return self._upgraded(group, asked, request, now_ms, f"member {request.member_id} brought the consumer protocol")
        return decision

    # -- requests of the classic protocol -----------------------------------------------------------------------------------

    def decide_join(self, asked: Asked, request: JoinGroupRequest, now_ms: int) -> Decided:
        group = self._consumer.groups.get(request.group_id)
        if group is None:
            return self._classic.decide_join(asked, request, now_ms)
        if not group.members:
            decision = self._classic.decide_join(asked, request, now_ms)
            if not decision.records:
                return decision
            changed = ProtocolChanged(group.name, CONSUMER, CLASSIC, 0)
            kept = [*self._consumer.removal(group.name), *decision.records]
            return decision._replace(records=kept, happened=[changed, *decision.happened])
        error = self._classic.join_error(request)
        if error:
            return Decision(join_refused(error, request.member_id, asked.version))
        draft = self._consumer.draft(group.name, now_ms)
        try:
            member = classic_members.join(draft, Join.of(asked, request))
        except RefusedJoin as refused:
            happened = fenced(group.name, request.member_id, request.group_instance_id, refused.error)
            return Decision(join_refused(refused.error, refused.member_id, asked.version), happened=happened)
        decision = draft.decision(classic_members.joined_reply(member))
        decision = self._came(decision, Awaited(group.name, member.member_id, True))
        decision = self._awaits(decision, Awaited(group.name, member.member_id, False), now_ms + member.rebalance_timeout_ms)
        return self._downgraded(group.name, decision, now_ms)

    def decide_sync(self, asked: Asked, request: SyncGroupRequest, now_ms: int) -> Decided:
        if asked.version >= SYNC_NAMES_PROTOCOL_FROM and None in (request.protocol_type, request.protocol_name):
            return Decision(SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        group = self._consumer.groups.get(request.group_id)
        if group is None:
            return self._classic.decide_sync(asked, request, now_ms)
        member = classic_members.found(group, request.member_id, request.group_instance_id)
        if isinstance(member, ErrorCode):
            happened = fenced(group.name, request.member_id, request.group_instance_id, member)
            return Decision(SyncGroupResponse(error_code=member), happened=happened)
        error = classic_members.sync_error(group, member, request)
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            return self._told_to_join(Decision(SyncGroupResponse(error_code=error)), group, member, now_ms)
        if error:
            return Decision(SyncGroupResponse(error_code=error))
        given = classic_members.assignment(member.assigned, self._topics(), classic_members.protocol_of(member).metadata)
        reply = SyncGroupResponse(0, 0, request.protocol_type, request.protocol_name, given)
        decision: Decided = Decision(reply, timers=self._consumer.heard_of(group.name, member, now_ms))
        return self._came(decision, Awaited(group.name, member.member_id, False))

    def decide_heartbeat(self, asked: Asked, request: HeartbeatRequest, now_ms: int) -> Decided:
        group = self._consumer.groups.get(request.group_id)
        if group is None:
            return self._classic.decide_heartbeat(asked, request, now_ms)
        member = classic_members.found(group, request.member_id, request.group_instance_id)
        if isinstance(member, ErrorCode):
            happened = fenced(group.name, request.member_id, request.group_instance_id, member)
            return Decision(HeartbeatResponse(error_code=member), happened=happened)
        if request.generation_id != member.epoch:
            return Decision(HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION))
        timers = self._consumer.heard_of(group.name, member, now_ms)
        if not classic_members.is_to_join(group, member):
            return Decision(HeartbeatResponse(), timers=timers)
        again = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        return self._told_to_join(Decision(again, timers=timers), group, member, now_ms)

    def decide_leave(self, asked: Asked, request: LeaveGroupRequest, now_ms: int) -> Decided:
        group = self._consumer.groups.get(request.group_id)
        if group is None:
            return self._classic.decide_leave(asked, request, now_ms)
        leaving = classic_leaves.leaving(request, asked.version)
        draft = self._consumer.draft(group.name, now_ms)
        errors = classic_members.leave(draft, leaving)
        answers = [
            MemberResponse(who.member_id, who.group_instance_id, error) for who, error in zip(leaving, errors, strict=True)
        ]
        decision = draft.decision(classic_leaves.left_reply(answers, asked.version))
        return self._downgraded(group.name, decision, now_ms)

    # -- who is waited for --------------------------------------------------------------------------------------------------

    def _told_to_join(self, decision: Decided, group: Group, member: Member, now_ms: int) -> Decided:
        awaited = Awaited(group.name, member.member_id, True)
        if awaited in self._awaited:  # it was told before: the time is not extended
            return decision
        return self._awaits(decision, awaited, now_ms + member.rebalance_timeout_ms)

    def _awaits(self, decision: Decided, awaited: Awaited, due_ms: int) -> Decided:
        return decision._replace(
            records=[*decision.records, MemberAwaited(awaited, due_ms)],
            timers={**decision.timers, awaited.timer: due_ms},
        )

    def _came(self, decision: Decided, awaited: Awaited) -> Decided:
        if awaited not in self._awaited:
            return decision
        return decision._replace(
            records=[*decision.records, MemberCame(awaited)], timers={**decision.timers, awaited.timer: None}
        )

    # -- back to classic ----------------------------------------------------------------------------------------------------

    def _downgraded(self, name: str, decision: Decided, now_ms: int) -> Decided:
        """The decision, and what follows if it leaves only members of the classic protocol."""
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
        # Where members only left, what the decision says of the group is not needed: it is gone.
        epoch = after.facts.epoch if replaced else group.facts.epoch
        record = downgrade.classic_group(after, epoch, self._topics(), now_ms)
        if record is None:
            return decision
        followed, timers, begun = downgrade.begin(record, settings.classic, now_ms)
        kept: Sequence[object] = decision.records if replaced else ()
        gone = [each for each in decision.happened if replaced or isinstance(each, MemberRemoved)]
        members = {*group.members, *after.members}
        ended: dict[TimerKey, int | None] = {
            key(name, member_id): None for member_id in members for key in (session_key, revocation_key)
        }
        awaited = [Awaited(name, member_id, joins) for member_id in sorted(members) for joins in (True, False)]
        ended |= {one.timer: None for one in awaited}  # else a later group of this name would lose a member for what it owed here
        came = [MemberCame(one) for one in awaited]
        return decision._replace(
            records=[*kept, *came, *self._consumer.removal(name, after if replaced else group), record, *followed],
            timers={**decision.timers, **ended, **timers},
            happened=[*gone, ProtocolChanged(name, CONSUMER, CLASSIC, len(after.members)), *begun],
        )

    # -- timers, records ----------------------------------------------------------------------------------------------------

    def expired_consumer(self, key: TimerKey, now_ms: int) -> Decided:
        """Of the consumer protocol's own timers."""
        decision = self._consumer.expired(key, now_ms)
        match key:
            case (_, _, str(name), _):
                return self._downgraded(name, decision, now_ms)
        return decision

    def expired(self, key: TimerKey, now_ms: int) -> Decided:
        match key:
            case (_, what, str(name), str(member_id)):
                return self._waited_long(Awaited(name, member_id, what == "join"), now_ms)
        return Decision()

    def _waited_long(self, awaited: Awaited, now_ms: int) -> Decided:
        due_ms = self._awaited.get(awaited)
        if due_ms is None:
            return Decision()
        if due_ms > now_ms:
            return Decision(timers={awaited.timer: due_ms})
        group = self._consumer.groups.get(awaited.group)
        member = group.members.get(awaited.member_id) if group is not None else None
        if member is None or member.classic is None:
            return Decision(records=[MemberCame(awaited)])
        draft = self._consumer.draft(awaited.group, now_ms)
        late = "join again" if awaited.joins else "ask for its assignment"
        leaves.fence(draft, member, TOO_SLOW, f"member {member.member_id} did not {late} within {member.rebalance_timeout_ms} ms")
        decision = draft.decision()
        return decision._replace(records=[*decision.records, MemberCame(awaited)])

    def timers(self, now_ms: int) -> Iterator[tuple[TimerKey, int]]:
        for awaited, due_ms in self._awaited.items():
            group = self._consumer.groups.get(awaited.group)
            member = group.members.get(awaited.member_id) if group is not None else None
            whole_ms = member.rebalance_timeout_ms if member is not None else 0  # nobody could come while the log was away
            yield awaited.timer, max(due_ms, now_ms + whole_ms)

    def replay(self, record: object) -> bool:
        match record:
            case MemberAwaited(awaited, due_ms):
                self._awaited[awaited] = due_ms
            case MemberCame(awaited):
                self._awaited.pop(awaited, None)
            case _:
                return False
        return True
