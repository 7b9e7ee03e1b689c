"""The checks of commits and answers, by a reader of the log that shares no code with the coordinator's tables.

7: generations and epochs rise; one leader and one assignment in each; no partition is owned twice. 8: no commit of who is not in
the group, or of another generation, is let in; what is answered is committed; a fetch answers what was committed last.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from libs.coordinator.core.decisions import KeyValue
from libs.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from libs.wire.messages.delete_groups import DeleteGroupsResponse
from libs.wire.messages.join_group import JoinGroupResponse
from libs.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from libs.wire.messages.offset_delete import OffsetDeleteResponse
from libs.wire.messages.offset_fetch import OffsetFetchResponse
from libs.wire.messages.sync_group import SyncGroupResponse
from services.group_coordinator.core.model.records import (
    ClassicGroupChanged,
    ClassicGroupRemoved,
    ConsumerGroupChanged,
    ConsumerGroupRemoved,
    ConsumerMemberChanged,
    ConsumerMemberRemoved,
    CurrentAssignmentChanged,
    CurrentAssignmentRemoved,
    OffsetCommitted,
    OffsetRemoved,
    TopicPartitions,
)
from services.group_coordinator.core.record_formats import record_codec
from tests.group_coordinator.conversion.clients import Partition, each
from tests.group_coordinator.conversion.stage import assigned_in
from tests.simulation.groups.network import Call
from tests.simulation.groups.shard_owner import Owner
from tests.simulation.groups.simulator import Simulator

NOTHING = -1
SKIPS_ASSIGNMENT_FROM = 9
Held = frozenset[tuple[bytes, int]]


def topic_name(topic_id: bytes) -> str:
    return topic_id.rstrip(b".").decode()


def _flat(assigned: "tuple[TopicPartitions, ...]") -> Held:
    return frozenset((topic_id, number) for topic_id, numbers in assigned for number in numbers)


@dataclass(slots=True)
class Logged:
    """The group, as a reader of all that is committed knows it."""

    classic: ClassicGroupChanged | None = None
    consumer_epoch: int | None = None
    epochs: dict[str, int] = field(default_factory=dict)
    """Of members of the consumer protocol's groups."""
    held: dict[str, Held] = field(default_factory=dict)
    subscribers: set[str] = field(default_factory=set)
    stood_empty: bool = True
    """When its generation was written last."""

    @property
    def generation(self) -> int | None:
        """None: there is no group."""
        if self.consumer_epoch is not None:
            return self.consumer_epoch
        return self.classic.generation if self.classic is not None else None

    def refuses(self, member_id: str, generation: int) -> str:
        """Why somebody may not commit; "" if it may."""
        if self.consumer_epoch is not None:
            if generation < 0:
                return "members are there" if self.subscribers else ""
            found = self.epochs.get(member_id)
            return "" if found == generation else f"its epoch is {found}"
        if self.classic is None or generation > self.classic.generation:
            return ""  # of one that was not agreed on yet
        members = [member.member_id for member in self.classic.members]
        if generation < 0:
            return "members are there" if members else ""
        if member_id not in members:
            return "it is not in the group"
        return "" if generation == self.classic.generation else f"the generation is {self.classic.generation}"


class Checks:
    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator
        self.logged = Logged()
        self.offsets: dict[Partition, list[tuple[int, int]]] = {}
        """(How many records were committed then, offset or NOTHING), oldest first."""
        self.records = 0
        self.commits: dict[int, tuple[Call, str, int]] = {}
        """By offset: who asked, as which member, of which generation."""
        self.seen_offsets: set[tuple[str, int, int]] = set()
        self.synced: set[tuple[int, str, bytes]] = set()
        self.epochs: set[tuple[str, int]] = set()
        self.given: set[tuple[str, int, Held]] = set()
        self.assignments: dict[int, dict[str, bytes]] = {}
        """By generation: what each member, or instance, was assigned."""
        self.leaders: dict[tuple[int, int, int], str] = {}
        self.instances: dict[str, str] = {}
        """By member id, of static members that the log has, or had."""
        self._begins_anew = False
        """A group that was empty is removed by what is read now: whatever comes next begins with generation 1."""
        self.generations = 0
        self.acknowledged = 0
        self.fetched = 0
        self.converted = 0

    # -- the log ----------------------------------------------------------------------------------------------------------

    def committed(self, batch: list[KeyValue]) -> None:
        before, was_classic = self.logged.generation, self.logged.classic is not None
        self._begins_anew = False
        for kept in batch:
            self.records += 1
            self._read(record_codec.decode(*kept))
        after = self.logged.generation
        if before is not None and after is not None:
            if after < before and not self._begins_anew:
                self.simulator.fail(f"the generation falls from {before} to {after}")
            self.converted += was_classic != (self.logged.classic is not None)
        if after is None:
            self.assignments.clear()
        self.generations += after != before
        owners: dict[tuple[bytes, int], str] = {}
        for member_id, held in self.logged.held.items():
            for partition in held:
                if partition in owners:
                    self.simulator.fail(f"{partition} is held by {member_id} and {owners[partition]}, says the log")
                owners[partition] = member_id

    def _read(self, record: Any) -> None:
        logged = self.logged
        match record:
            case OffsetCommitted(_, topic, partition, offset):
                self._read_commit(record)
                self.offsets.setdefault((topic, partition), []).append((self.records, offset))
                self.seen_offsets.add((topic, partition, offset))
            case OffsetRemoved(_, topic, partition):
                self.offsets.setdefault((topic, partition), []).append((self.records, NOTHING))
            case ClassicGroupChanged():
                logged.classic, logged.stood_empty = record, not record.members
                self.instances |= {one.member_id: one.instance_id for one in record.members if one.instance_id}
                self._read_generation(record)
            case ClassicGroupRemoved():
                self._removed(is_there=logged.classic is not None)
                logged.classic = None
            case ConsumerGroupChanged(_, epoch):
                logged.consumer_epoch, logged.stood_empty = epoch, not logged.subscribers
            case ConsumerGroupRemoved():
                self._removed(is_there=logged.consumer_epoch is not None)
                logged.consumer_epoch = None
            case ConsumerMemberChanged(_, member_id, instance_id):
                logged.subscribers.add(member_id)
                if instance_id:
                    self.instances[member_id] = instance_id
            case ConsumerMemberRemoved(_, member_id):
                logged.subscribers.discard(member_id)
            case CurrentAssignmentChanged(_, member_id, epoch):
                assigned = _flat(record.assigned)
                logged.epochs[member_id] = epoch
                logged.held[member_id] = assigned | _flat(record.pending_revocation)
                self.epochs.add((member_id, epoch))
                self.given.add((member_id, epoch, assigned))
            case CurrentAssignmentRemoved(_, member_id):
                logged.epochs.pop(member_id, None)
                logged.held.pop(member_id, None)

    def _removed(self, *, is_there: bool) -> None:
        """Nothing of it is left, unless its members go on in one of the other protocol."""
        if is_there and self.logged.stood_empty:
            self._begins_anew = True
            self.leaders.clear()
            self.assignments.clear()

    def _read_commit(self, record: OffsetCommitted) -> None:
        call, member_id, generation = self.commits[record.offset]
        wrong = self.logged.refuses(member_id, generation)
        if wrong:
            self.simulator.fail(f"{call} in generation {generation} as {member_id!r} is let in, and {wrong}")

    def _read_generation(self, record: ClassicGroupChanged) -> None:
        owners: dict[Partition, str] = {}
        assigned: dict[str, bytes] = {}
        for member in record.members:
            self.synced.add((record.generation, member.member_id, member.assignment))
            assigned[member.instance_id or member.member_id] = member.assignment
            for partition in each(assigned_in(member.assignment)) if member.assignment else ():
                if partition in owners:
                    self.simulator.fail(f"{partition} is assigned to {member.member_id} and {owners[partition]}")
                owners[partition] = member.member_id
        known = self.assignments.setdefault(record.generation, assigned)
        if known != assigned and any(assigned.values()) and any(known.values()):
            self.simulator.fail(f"generation {record.generation} has two assignments")
        if any(assigned.values()):
            self.assignments[record.generation] = assigned

    # -- answers ----------------------------------------------------------------------------------------------------------

    def asked(self, call: Call) -> None:
        if call.about is None:
            call.about = self.records
        request = call.request
        if isinstance(request, OffsetCommitRequest):
            for topic in request.topics:
                for one in topic.partitions:
                    self.commits[one.committed_offset] = call, request.member_id, request.generation_id_or_member_epoch

    def answered(self, owner: Owner, call: Call, error: int, reply: Any) -> None:
        if error or getattr(reply, "error_code", 0):
            return
        match reply:
            case OffsetCommitResponse():
                self._check_commit(call, reply)
            case OffsetFetchResponse():
                self._check_offsets(call, reply)
            case OffsetDeleteResponse():
                errors = [(topic.name, one.partition_index, one.error_code) for topic in reply.topics for one in topic.partitions]
                self._check_deletion(call, [(topic, number) for topic, number, refused in errors if not refused])
            case DeleteGroupsResponse() if not any(result.error_code for result in reply.results):
                self._check_deletion(call, list(self.offsets))
            case JoinGroupResponse():
                self._check_leader((owner.epoch, owner.loads, reply.generation_id), reply.leader or "", call.version)
            case SyncGroupResponse() if self.logged.consumer_epoch is None:
                said = call.request.generation_id, call.request.member_id, reply.assignment
                if said not in self.synced and reply.assignment:
                    self.simulator.fail(f"{call} of {said[1]} in generation {said[0]} is told what is not committed")
            case ConsumerGroupHeartbeatResponse() if reply.member_epoch > 0:
                self._check_epoch(call, reply)

    def _check_leader(self, key: tuple[int, int, int], leader: str, version: int) -> None:
        """Checks that a generation has one leader per owner. A static member that comes back has another id."""
        if leader.startswith("i"):
            leader = leader.split("-")[0]
        leader = self.instances.get(leader, leader)
        if leader and version >= SKIPS_ASSIGNMENT_FROM and self.leaders.setdefault(key, leader) != leader:
            self.simulator.fail(f"generation {key[-1]} is led by {self.leaders[key]} and {leader}")

    def _check_commit(self, call: Call, reply: OffsetCommitResponse) -> None:
        asked = {
            (topic.name or topic_name(topic.topic_id), one.partition_index): one.committed_offset
            for topic in call.request.topics
            for one in topic.partitions
        }
        for topic in reply.topics:
            for one in topic.partitions:
                partition = topic.name or topic_name(topic.topic_id), one.partition_index
                if not one.error_code:
                    self.acknowledged += 1
                    if (*partition, asked[partition]) not in self.seen_offsets:
                        self.simulator.fail(f"{call}: {asked[partition]} of {partition} is acknowledged and not committed")

    def _check_epoch(self, call: Call, reply: ConsumerGroupHeartbeatResponse) -> None:
        if (reply.member_id, reply.member_epoch) not in self.epochs:
            self.simulator.fail(f"{call}: {reply.member_id} is told of epoch {reply.member_epoch}, which is not committed")
        if reply.assignment is not None:
            has = frozenset((one.topic_id, number) for one in reply.assignment.topic_partitions for number in one.partitions)
            if (reply.member_id, reply.member_epoch, has) not in self.given:
                self.simulator.fail(f"{call}: {reply.member_id} is told to have what is not committed")

    def _check_offsets(self, call: Call, reply: OffsetFetchResponse) -> None:
        for group in reply.groups:
            if group.error_code:
                continue
            named: set[Partition] = set()
            for topic in group.topics:
                for one in topic.partitions:
                    named.add((topic.name, one.partition_index))
                    self._is_current(call, (topic.name, one.partition_index), one.committed_offset)
            if call.request.groups[0].topics is None:
                for partition in self.offsets.keys() - named:
                    self._is_current(call, partition, NOTHING)
            self.fetched += 1

    def _check_deletion(self, call: Call, which: Iterable[Partition]) -> None:
        for partition in which:
            if NOTHING not in self._was(call, partition):
                self.simulator.fail(f"{call}: {partition} is deleted, and it is not")

    def _is_current(self, call: Call, partition: Partition, offset: int) -> None:
        allowed = self._was(call, partition)
        if offset not in allowed:
            self.simulator.fail(f"{call} hears that {partition} is at {offset}, and it was at {sorted(allowed)}")

    def _was(self, call: Call, partition: Partition) -> set[int]:
        """The states at any time between request and answer."""
        then, since = NOTHING, set[int]()
        for at, offset in self.offsets.get(partition, ()):
            if at <= call.about:
                then = offset
            else:
                since.add(offset)
        return {then, *since}

    @property
    def present(self) -> dict[Partition, int]:
        """All offsets that are committed."""
        return {key: history[-1][1] for key, history in self.offsets.items() if history[-1][1] != NOTHING}
