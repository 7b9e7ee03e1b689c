"""A decision about one classic group in the making: its records, tried on a working copy of the group, and their consequences."""

from typing import Any, TypeAlias

from libs.coordinator.core.decisions import Decision, ParkKey
from libs.coordinator.core.timers import TimerKey
from libs.wire.errors import ErrorCode
from libs.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from libs.wire.messages.sync_group import SyncGroupResponse
from services.group_coordinator.core.classic import changes
from services.group_coordinator.core.classic.group import Group
from services.group_coordinator.core.classic.member import Member
from services.group_coordinator.core.model.classic_settings import ClassicSettings
from services.group_coordinator.core.model.group_events import GroupEvent, MemberRemoved
from services.group_coordinator.core.model.records import ClassicGroupChanged, ClassicGroupRemoved
from services.group_coordinator.core.model.requests import Reply
from services.group_coordinator.core.model.topics_view import TopicsView

PART = "classic"
NAMED_NO_PROTOCOL_BELOW = 7  # JoinGroup: before this version, an empty name

Recorded: TypeAlias = changes.Change | ClassicGroupChanged | ClassicGroupRemoved
Decided: TypeAlias = Decision[Any, Any]
"""A decision of this part. Other parts have their own replies and records."""


def session_key(group: str, member_id: str) -> TimerKey:
    return PART, "session", group, member_id


def joins_key(group: str) -> TimerKey:
    return PART, "joins", group


def syncs_key(group: str) -> TimerKey:
    return PART, "syncs", group


def join_park(group: str, member_id: str) -> ParkKey:
    return PART, "join", group, member_id


def sync_park(group: str, member_id: str) -> ParkKey:
    return PART, "sync", group, member_id


def join_refused(error: int, member_id: str, version: int) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error, member_id=member_id, protocol_name="" if version < NAMED_NO_PROTOCOL_BELOW else None
    )


class GroupDecision:
    """A decision in the making. `group` is the group after the records so far."""

    def __init__(self, group: Group, now_ms: int, settings: ClassicSettings, topics: TopicsView, *, begins: bool = False) -> None:
        self.group = group
        self.name = group.name
        self.now_ms = now_ms
        self.settings = settings
        self.topics = topics
        self.records: list[Recorded] = [changes.GroupBegun(group.name, now_ms)] if begins else []
        self.timers: dict[TimerKey, int | None] = {}
        self.wakes: list[tuple[ParkKey, Reply]] = []
        self.events: list[GroupEvent] = []

    def decision(self, reply: Reply | None = None) -> Decided:
        if self.group.is_forgettable and self.records:
            self.records.append(changes.GroupForgotten(self.name))
        return Decision(reply, self.records, self.timers, None, self.wakes, events=self.events)

    def parked(self, key: ParkKey, to_former: Reply) -> Decided:
        """The decision that parks the caller, unless the same decision answers it. A caller already parked under that key is
        answered `to_former`."""
        at = next((at for at, (woken, _) in enumerate(self.wakes) if woken == key), None)
        reply = self.wakes.pop(at)[1] if at is not None else None
        self.wakes.insert(0, (key, to_former))
        parks_as = key if reply is None else None
        return Decision(reply, self.records, self.timers, parks_as, self.wakes, events=self.events)

    def put(self, change: changes.Change) -> None:
        self.records.append(change)
        self.group.apply(change)

    def log(self, record: ClassicGroupChanged) -> None:
        """Adds a record of the log. The group agrees with it from now on."""
        self.records.append(record)
        self.group.agree(record)

    # -- sessions -----------------------------------------------------------------------------------------------------------

    def schedule_session_timeout(self, member: Member) -> None:
        self.timers[session_key(self.name, member.member_id)] = self.now_ms + member.session_timeout_ms

    def cancel_timers(self, member_id: str) -> None:
        self.timers[session_key(self.name, member_id)] = None

    # -- replies ------------------------------------------------------------------------------------------------------------

    def joined_reply(self, member_id: str, *, everybody: bool | None = None, leader: str | None = None) -> JoinGroupResponse:
        """The answer to JoinGroup with the present generation. Only the member that assigns gets `everybody`."""
        group, facts = self.group, self.group.facts
        if everybody is None:
            everybody = facts.leader == member_id
        members = group.members.values() if everybody else ()
        return JoinGroupResponse(
            generation_id=facts.generation,
            protocol_type=facts.protocol_type,
            protocol_name=facts.protocol,
            leader=leader if leader is not None else facts.leader or "",
            member_id=member_id,
            members=[
                JoinGroupResponseMember(member.member_id, member.instance_id, member.metadata(facts.protocol))
                for member in members
            ],
        )

    def synced_reply(self, assignment: bytes) -> SyncGroupResponse:
        facts = self.group.facts
        return SyncGroupResponse(protocol_type=facts.protocol_type, protocol_name=facts.protocol, assignment=assignment)

    def wake_join(self, member_id: str, error: ErrorCode, shown_id: str) -> None:
        """Refuses the member's waiting JoinGroup, if there is one. `shown_id` is the member id in the reply."""
        waits = self.group.joining.get(member_id)
        if waits is not None:
            self.wakes.append((join_park(self.name, member_id), join_refused(error, shown_id, waits.version)))

    def wake_sync(self, member_id: str, error: ErrorCode) -> None:
        if member_id in self.group.syncing:
            self.wakes.append((sync_park(self.name, member_id), SyncGroupResponse(error_code=error)))

    def remove(self, member_id: str, why: str) -> None:
        """Removes a member, and refuses its waiting requests with UNKNOWN_MEMBER_ID, so that it joins anew."""
        self.events.append(MemberRemoved(self.name, member_id, self.group.members[member_id].instance_id, why))
        self.wake_join(member_id, ErrorCode.UNKNOWN_MEMBER_ID, "")
        self.wake_sync(member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        self.cancel_timers(member_id)
        self.put(changes.MemberRemoved(self.name, member_id))

    def remove_pending(self, member_id: str) -> None:
        self.cancel_timers(member_id)
        self.put(changes.PendingMemberRemoved(self.name, member_id))
