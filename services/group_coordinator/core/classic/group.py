"""A classic group, and the effect of each record on it.

Each group has tables of its own, with a row for each member and each waiting request. So a join costs the same whatever the size
of the group. `scratch` is a copy for a decision, which tries its records on it one by one.
"""

from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import replace
from typing import Any, NamedTuple

from libs.coordinator.core.tables import Journal, Table, add_to_count
from libs.lean_dataclass import dataclass
from libs.wire.errors import ErrorCode
from services.group_coordinator.core.classic import changes
from services.group_coordinator.core.classic.member import Member, PendingMember, from_log
from services.group_coordinator.core.classic.states import TRANSITIONS, Event, State
from services.group_coordinator.core.model.group_tables import GroupTables
from services.group_coordinator.core.model.records import ClassicGroupChanged
from services.group_coordinator.core.model.working_copy import WorkingCopy


@dataclass(frozen=True, slots=True)
class Facts:
    state: State
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    """None while Empty, or after the leader left: the next generation elects one."""
    since_ms: int = -1
    """When the group entered this state."""
    logged: bool = False
    """Whether the log has a record of the group."""
    reason: str = ""
    """The reason of the last rebalance, in words."""
    begun_ms: int = -1
    """When the last rebalance began."""
    rebalances: int = 0
    """Number of rebalances begun at this owner."""
    rebalancing_ms: int = 0
    """Time spent in finished rebalances. `rebalanced_ms` adds the present one."""
    initial: bool = False
    """The rebalance began in an empty group, so it waits for the initial delay."""
    newcomers: bool = False
    """A new member joined during the initial delay."""
    join_due_ms: int = -1
    remaining_ms: int = 0
    sync_due_ms: int = -1

    @property
    def rebalances_now(self) -> bool:
        return self.state in (State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE)

    def rebalanced_ms(self, now_ms: int) -> int:
        if self.rebalances_now:
            return self.rebalancing_ms + max(now_ms - self.begun_ms, 0)
        return self.rebalancing_ms


class WaitingJoin(NamedTuple):
    version: int
    """The version of the request."""
    order: int
    """Number of members that joined before it."""


class Group(GroupTables[Facts, Member]):
    __slots__ = ("joining", "pending", "supporters", "syncing", "timeouts", "unsynced")

    def __init__(self, name: str, facts: Facts, tables: Callable[[], MutableMapping[Any, Any]]) -> None:
        super().__init__(name, facts, tables)
        self.joining: MutableMapping[str, WaitingJoin] = tables()
        """Members that wait for the others to join."""
        self.syncing: MutableMapping[str, bool] = tables()
        """Members that wait for the leader's assignment."""
        self.unsynced: MutableMapping[str, bool] = tables()
        """Members of this generation that have not sent SyncGroup yet."""
        self.pending: MutableMapping[str, PendingMember] = tables()
        """By their member ids."""
        self.supporters: MutableMapping[str, int] = tables()
        """Protocol → how many members offer it."""
        self.timeouts: MutableMapping[int, int] = tables()
        """Rebalance timeout → how many members ask for it."""

    @classmethod
    def empty(cls, journal: Journal, name: str, now_ms: int) -> "Group":
        return cls(name, Facts(State.EMPTY, since_ms=now_ms), lambda: Table(journal))

    def scratch(self) -> "Group":
        return _Scratch(self)

    @property
    def state(self) -> State:
        return self.facts.state

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of any member."""
        return max(self.timeouts, default=0)

    @property
    def all_joined(self) -> bool:
        return len(self.joining) == len(self.members) and not self.pending

    @property
    def is_forgettable(self) -> bool:
        """Whether the group can be forgotten: it is empty and not in the log."""
        return not (self.members or self.pending or self.facts.logged) and self.state is State.EMPTY

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether a member that offers these protocols could join."""
        if self.state is State.EMPTY:
            return bool(protocol_type) and any(True for _ in protocols)
        size = len(self.members)
        return protocol_type == self.facts.protocol_type and any(self.supporters.get(name, 0) == size for name in protocols)

    def fault(self, member_id: str, instance_id: str | None) -> ErrorCode | None:
        """None for a member. FENCED_INSTANCE_ID if another member has its instance id. Otherwise UNKNOWN_MEMBER_ID."""
        if instance_id is not None:
            holder = self.statics.get(instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return None if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    # -- changes ------------------------------------------------------------------------------------------------------------

    def apply(self, change: changes.Change) -> None:
        match change:
            case changes.MemberJoined():
                self._join(change)
            case changes.MemberSynced(_, member_id, waits):
                self.unsynced.pop(member_id, None)
                if waits:
                    self.syncing[member_id] = True
            case changes.MemberIdGiven(_, member_id, pending):
                self.pending[member_id] = pending
            case changes.PendingMemberRemoved(_, member_id):
                self.pending.pop(member_id, None)
            case changes.MemberRemoved(_, member_id):
                self._remove(member_id)
            case changes.StaticMemberReplaced(_, old_id, member):
                self._replace(old_id, member)
            case changes.RebalanceBegun(_, reason, now_ms, due_ms, remaining_ms):
                self.syncing.clear()
                self.unsynced.clear()
                facts = self.facts
                self._become(
                    Event.REBALANCES, now_ms, reason=reason, begun_ms=now_ms, initial=facts.state is State.EMPTY,
                    newcomers=False, join_due_ms=due_ms, remaining_ms=remaining_ms, rebalances=facts.rebalances + 1,
                    rebalancing_ms=facts.rebalanced_ms(now_ms),
                )  # fmt: skip
            case changes.JoinsExtended(_, due_ms, remaining_ms):
                self.facts = replace(self.facts, join_due_ms=due_ms, remaining_ms=remaining_ms, newcomers=False)
            case changes.GenerationBegun(_, generation, protocol, leader, now_ms, sync_due_ms):
                self.joining.clear()
                for member in list(self.members.values()):
                    self.unsynced[member.member_id] = True
                    if member.new:
                        self.members[member.member_id] = replace(member, new=False)
                self._become(
                    Event.JOINED, now_ms, generation=generation, protocol=protocol, leader=leader, sync_due_ms=sync_due_ms
                )  # fmt: skip

    def _join(self, change: changes.MemberJoined) -> None:
        member, facts = change.member, self.facts
        before = self.members.get(member.member_id)
        if before is None:
            if not self.members:
                self.facts = replace(facts, protocol_type=change.protocol_type)
            elif facts.initial and not facts.newcomers and facts.state is State.PREPARING_REBALANCE:
                self.facts = replace(facts, newcomers=True)
        waits = self.joining.get(member.member_id)
        self._put(member)
        self.joining[member.member_id] = WaitingJoin(change.version, len(self.joining) if waits is None else waits.order)

    def _put(self, member: Member) -> None:
        before = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if before is None or not before.offers_same(member):
            if before is not None:
                self._count(before, -1)
            self._count(member, 1)
        self.pending.pop(member.member_id, None)
        if member.instance_id is not None:
            self.statics[member.instance_id] = member.member_id

    def _remove(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        self._count(member, -1)
        for waiting in (self.joining, self.syncing, self.unsynced):
            waiting.pop(member_id, None)
        if member.instance_id is not None:
            del self.statics[member.instance_id]
        if self.facts.leader == member_id:
            self.facts = replace(self.facts, leader=None)

    def _replace(self, old_id: str, member: Member) -> None:
        led, unsynced = self.facts.leader == old_id, old_id in self.unsynced
        self._remove(old_id)
        self._put(member)
        if unsynced:
            self.unsynced[member.member_id] = True
        if led:
            self.facts = replace(self.facts, leader=member.member_id)

    def _count(self, member: Member, by: int) -> None:
        for name, _ in member.protocols:
            add_to_count(self.supporters, name, by)
        add_to_count(self.timeouts, member.rebalance_timeout_ms, by)

    def _become(self, fact: Event, now_ms: int, **also: Any) -> None:
        facts = self.facts
        self.facts = replace(facts, state=TRANSITIONS[facts.state, fact], since_ms=now_ms, **also)

    # -- the log ------------------------------------------------------------------------------------------------------------

    def agree(self, record: ClassicGroupChanged) -> None:
        """Applies the record that ends a decision, after its changes."""
        now_ms = record.state_changed_ms
        if not record.members:
            self._become(
                Event.NOBODY_LEFT, now_ms, generation=record.generation, protocol=None, leader=None, logged=True, initial=False,
                rebalancing_ms=self.facts.rebalanced_ms(now_ms),
            )  # fmt: skip
            return
        for logged in record.members:
            member = self.members[logged.member_id]
            if member.assignment != logged.assignment:
                self.members[logged.member_id] = replace(member, assignment=logged.assignment)
        if self.state is State.COMPLETING_REBALANCE:
            self.syncing.clear()
            self._become(Event.ASSIGNED, now_ms, logged=True, rebalancing_ms=self.facts.rebalanced_ms(now_ms))
        else:
            assert self.state is State.STABLE, self.state

    def load(self, record: ClassicGroupChanged) -> None:
        """Loads the group from its record, which replaces what was before. Protocols that the log does not hold are kept."""
        kept = {member.member_id: member for member in self.members.values()}
        kept_unsynced = set(self.unsynced) if self.facts.generation == record.generation else set()
        for table in (self.members, self.joining, self.syncing, self.unsynced, self.statics, self.supporters, self.timeouts):
            table.clear()
        for logged in record.members:
            member, before = from_log(logged, record.protocol), kept.get(logged.member_id)
            if before is not None and before.metadata(record.protocol) == member.metadata(record.protocol):
                member = replace(member, protocols=before.protocols)
            self._put(member)
            if logged.member_id in kept_unsynced and logged.member_id != record.leader:
                self.unsynced[logged.member_id] = True
        self.facts = Facts(
            State.STABLE if record.members else State.EMPTY,
            record.generation,
            record.protocol_type or None,
            record.protocol,
            record.leader,
            record.state_changed_ms,
            logged=True,
            reason=self.facts.reason,
            begun_ms=self.facts.begun_ms,
            rebalances=self.facts.rebalances,
            rebalancing_ms=self.facts.rebalancing_ms,
            sync_due_ms=self.facts.sync_due_ms,
        )


class _Scratch(WorkingCopy, Group):
    __slots__ = ("_now", "_under")
