"""A consumer group, and the effect of each record on it.

Each group has tables of its own, with a row for each member and each partition that is held. `scratch` is a copy for a decision,
which tries its records on it one by one.
"""

from collections.abc import Callable, MutableMapping
from dataclasses import field, replace
from typing import Any, NamedTuple, TypeAlias

from libs.coordinator.core.tables import Journal, Table, add_to_count
from libs.lean_dataclass import dataclass
from services.group_coordinator.core.consumer import changes, partitions
from services.group_coordinator.core.consumer.member import LEAVE_GROUP_MEMBER_EPOCH, Member
from services.group_coordinator.core.consumer.partitions import NONE, Partition, Partitions
from services.group_coordinator.core.consumer.states import State
from services.group_coordinator.core.model import records
from services.group_coordinator.core.model.group_tables import GroupTables
from services.group_coordinator.core.model.topics_view import TopicView
from services.group_coordinator.core.model.working_copy import WorkingCopy

Recorded: TypeAlias = (
    changes.Change
    | records.ConsumerGroupChanged
    | records.ConsumerTopicsSeen
    | records.ConsumerTopicsRemoved
    | records.ConsumerMemberChanged
    | records.ConsumerMemberRemoved
    | records.TargetEpochChanged
    | records.TargetEpochRemoved
    | records.TargetAssignmentChanged
    | records.TargetAssignmentRemoved
    | records.CurrentAssignmentChanged
    | records.CurrentAssignmentRemoved
    | records.RegularExpressionResolved
    | records.RegularExpressionRemoved
)
"""Records about one group that do not end it."""


@dataclass(frozen=True, slots=True)
class Facts:
    epoch: int = 0
    metadata_hash: int = 0
    assignment_epoch: int = 0
    """The group epoch for which the target assignment was made."""
    topics_seen: bool = False
    """The log has a record of topics, which Kafka stopped writing in 4.1."""

    # Facts that this owner knows and the log does not.
    topics_version: int = -1
    topics: "dict[str, TopicView]" = field(default_factory=dict)
    regexes_version: int = -1
    regexes_ms: int = -1
    reason: str = ""
    """The reason of the last rebalance, in words."""
    begun_ms: int = -1
    """When the last rebalance began."""
    ended_ms: int = -1
    """When it ended; -1 while it goes on."""
    rebalances: int = 0
    """Number of rebalances begun at this owner."""
    rebalancing_ms: int = 0
    """Time spent in finished rebalances. `rebalanced_ms` adds the present one."""

    @property
    def rebalances_now(self) -> bool:
        return self.begun_ms >= 0 and self.ended_ms < 0

    def rebalanced_ms(self, now_ms: int) -> int:
        return self.rebalancing_ms + (max(now_ms - self.begun_ms, 0) if self.rebalances_now else 0)


class Resolved(NamedTuple):
    topics: tuple[str, ...]
    version: int
    resolved_ms: int


class Group(GroupTables[Facts, Member]):
    __slots__ = ("assignors", "classics", "holders", "regex_members", "regexes", "subscriptions", "targets", "unreconciled")

    def __init__(self, name: str, facts: Facts, tables: Callable[[], MutableMapping[Any, Any]]) -> None:
        super().__init__(name, facts, tables)
        self.targets: MutableMapping[str, Partitions] = tables()
        """Member id → target assignment."""
        self.holders: MutableMapping[Partition, str] = tables()
        """Partition → the member that has it, or has not revoked it yet."""
        self.subscriptions: MutableMapping[str, int] = tables()
        """Topic → number of members that name it and of regular expressions that match it."""
        self.regexes: MutableMapping[str, Resolved] = tables()
        self.regex_members: MutableMapping[str, int] = tables()
        """Regular expression → number of members that use it."""
        self.assignors: MutableMapping[str, int] = tables()
        """Server-side assignor → number of members that prefer it."""
        self.classics: MutableMapping[str | None, int] = tables()
        """Protocol → number of classic members that offer it. None → number of classic members."""
        self.unreconciled: MutableMapping[str, bool] = tables()
        """Members that do not have their target assignment yet."""

    @classmethod
    def empty(cls, journal: Journal, name: str) -> "Group":
        return cls(name, Facts(), lambda: Table(journal))

    def scratch(self) -> "Group":
        return _Scratch(self)

    @property
    def state(self) -> State:
        if not self.members:
            return State.EMPTY
        facts = self.facts
        if facts.epoch > facts.assignment_epoch:
            return State.ASSIGNING
        return State.RECONCILING if self.unreconciled else State.STABLE

    @property
    def all_classic(self) -> bool:
        """Whether all members speak the classic protocol, and there are some."""
        return 0 < len(self.members) == self.classics.get(None, 0)

    def target(self, member_id: str) -> Partitions:
        return self.targets.get(member_id, NONE)

    def topics_of(self, member: Member) -> frozenset[str]:
        """Subscribed topic names, also of missing topics."""
        resolved = self.regexes.get(member.regex) if member.regex else None
        return frozenset(member.topics) if resolved is None else frozenset(member.topics).union(resolved.topics)

    # -- records ------------------------------------------------------------------------------------------------------------

    def apply(self, record: Recorded) -> None:
        match record:
            case records.ConsumerMemberChanged(_, member_id):
                self._put(self._member(member_id).with_metadata(record))
            case records.CurrentAssignmentChanged():
                self._apply_assignment(record)
            case records.CurrentAssignmentRemoved(_, member_id):
                if member_id in self.members:
                    self._put(
                        replace(
                            self.members[member_id],
                            epoch=LEAVE_GROUP_MEMBER_EPOCH,
                            previous_epoch=LEAVE_GROUP_MEMBER_EPOCH,
                            assigned=NONE,
                            pending=NONE,
                        )
                    )
            case records.ConsumerMemberRemoved(_, member_id):
                self._remove(member_id)
            case records.TargetAssignmentChanged(_, member_id, assigned):
                self.targets[member_id] = partitions.read(assigned)
            case records.TargetAssignmentRemoved(_, member_id):
                self.targets.pop(member_id, None)
            case records.ConsumerGroupChanged(_, epoch, metadata_hash):
                self.facts = replace(self.facts, epoch=epoch, metadata_hash=metadata_hash)
            case records.TargetEpochChanged(_, assignment_epoch):
                self._assign(assignment_epoch)
            case records.TargetEpochRemoved():
                self._assign(0)
            case records.RegularExpressionResolved(_, regex, topics, version, resolved_ms):
                self._resolve(regex, Resolved(topics, version, resolved_ms))
            case records.RegularExpressionRemoved(_, regex):
                self._resolve(regex, None)
            case records.ConsumerTopicsSeen() | records.ConsumerTopicsRemoved():
                self.facts = replace(self.facts, topics_seen=isinstance(record, records.ConsumerTopicsSeen))
            case changes.RebalanceBegun(_, reason, now_ms):
                facts = self.facts
                self.facts = replace(
                    facts, reason=reason, begun_ms=now_ms, ended_ms=-1, rebalances=facts.rebalances + 1,
                    rebalancing_ms=facts.rebalanced_ms(now_ms),
                )  # fmt: skip
            case changes.RebalanceEnded(_, now_ms):
                self.facts = replace(self.facts, ended_ms=now_ms, rebalancing_ms=self.facts.rebalanced_ms(now_ms))
            case changes.TopicsChecked(_, version, seen):
                self.facts = replace(self.facts, topics_version=version, topics=dict(seen))
            case changes.RegexesChecked(_, version, now_ms):
                self.facts = replace(self.facts, regexes_version=version, regexes_ms=now_ms)

    def _member(self, member_id: str) -> Member:
        """The member, or a new one: in a compacted log its assignment may come before its metadata."""
        return self.members.get(member_id) or Member(member_id)

    def _put(self, member: Member) -> None:
        member_id = member.member_id
        before = self.members.get(member_id)
        self.members[member_id] = member
        self._count(before, member)
        self._hold(before, member)
        if before is not None and before.instance_id != member.instance_id:
            self._release_instance(before)
        if member.instance_id is not None and self.statics.get(member.instance_id) != member_id:
            self.statics[member.instance_id] = member_id
        self._note_reconciled(member)

    def _apply_assignment(self, record: records.CurrentAssignmentChanged) -> None:
        """Applies an assignment record. It is the most frequent record, and leaves the member's metadata as it is."""
        member_id = record.member_id
        before = self.members.get(member_id)
        if before is None:
            self._put(Member(member_id).with_assignment(record))
            return
        self.set_assignment(before, before.with_assignment(record))

    def set_assignment(self, before: Member, after: Member) -> None:
        """Sets a member's assignment, as `apply` of its record does."""
        self.members[after.member_id] = after
        self._hold(before, after)
        self._note_reconciled(after)

    def _remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._count(member, None)
        self._hold(member, None)
        self._release_instance(member)
        self.unreconciled.pop(member_id, None)

    def _release_instance(self, member: Member) -> None:
        if member.instance_id is not None and self.statics.get(member.instance_id) == member.member_id:
            del self.statics[member.instance_id]

    def _hold(self, before: Member | None, after: Member | None) -> None:
        if before is not None and after is not None and before.assigned is after.assigned and before.pending is after.pending:
            return
        member_id = (after or before).member_id  # type: ignore[union-attr]
        had = _held(before)
        has = _held(after)
        for partition in had - has:
            if self.holders.get(partition) == member_id:
                del self.holders[partition]
        for partition in has - had:
            self.holders[partition] = member_id

    def _count(self, before: Member | None, after: Member | None) -> None:
        if before is not None and after is not None and before.topics == after.topics:
            pass
        else:
            for topic in before.topics if before is not None else ():
                add_to_count(self.subscriptions, topic, -1)
            for topic in after.topics if after is not None else ():
                add_to_count(self.subscriptions, topic, 1)
        for table, was, is_now in (
            (self.regex_members, before and before.regex, after and after.regex),
            (self.assignors, before and before.assignor, after and after.assignor),
        ):
            if was != is_now:
                if was:
                    add_to_count(table, was, -1)
                if is_now:
                    add_to_count(table, is_now, 1)
        for member, by in ((before, -1), (after, 1)):
            if member is not None and member.classic is not None:
                for name in {None, *(protocol.name for protocol in member.classic.protocols)}:
                    add_to_count(self.classics, name, by)

    def _resolve(self, regex: str, resolved: Resolved | None) -> None:
        before = self.regexes.get(regex)
        for topic in before.topics if before is not None else ():
            add_to_count(self.subscriptions, topic, -1)
        if resolved is None:
            self.regexes.pop(regex, None)
            return
        for topic in resolved.topics:
            add_to_count(self.subscriptions, topic, 1)
        self.regexes[regex] = resolved

    def _assign(self, assignment_epoch: int) -> None:
        self.facts = replace(self.facts, assignment_epoch=assignment_epoch)
        for member in self.members.values():
            self._note_reconciled(member)

    def _note_reconciled(self, member: Member) -> None:
        is_reconciled = member.is_reconciled_to(self.facts.assignment_epoch)
        if is_reconciled == (member.member_id in self.unreconciled):
            if is_reconciled:
                del self.unreconciled[member.member_id]
            else:
                self.unreconciled[member.member_id] = True


class _Scratch(WorkingCopy, Group):
    __slots__ = ("_now", "_under")


def _held(member: Member | None) -> set[Partition]:
    return set() if member is None else {*partitions.each(member.assigned), *partitions.each(member.pending)}
