"""The checks after all faults: all partitions are owned, all clients agree on it, and so does the log."""

from typing import Any

from libs.coordinator.core.tables import Journal
from libs.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from libs.wire.messages.describe_groups import DescribeGroupsRequest
from libs.wire.messages.list_groups import ListGroupsRequest
from libs.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from services.group_coordinator.core.group_machine import GroupMachine
from services.group_coordinator.core.model.requests import RequestEvent
from tests.group_coordinator.conversion.clients import Partition, each
from tests.group_coordinator.conversion.stage import assigned_in
from tests.simulation.groups.checks import topic_name
from tests.simulation.groups.classic_clients import Classic
from tests.simulation.groups.consumer_clients import Consumer
from tests.simulation.groups.group_world import GroupWorld
from tests.simulation.groups.reading import GROUP

AGREED = ("Stable", "Empty")
"""A classic group's states of which the log has all there is."""


class Convergence:
    def __init__(self, world: GroupWorld) -> None:
        self.world = world

    @property
    def machine(self) -> GroupMachine:
        machine = self.world.owner.shard.machine
        assert isinstance(machine, GroupMachine)
        return machine

    @property
    def _members(self) -> list[Classic | Consumer]:
        return [client for client in self.world.clients if isinstance(client, Classic | Consumer)]

    def is_idle(self) -> str:
        """The reason why the group is not idle."""
        world = self.world
        if not world.owner.serves:
            return f"{world.owner} is {world.owner.shard.state.value}"
        if world.owner.shard.pending.groups:
            return "something is not committed"
        if not self._members:
            return ""
        there = {("t", number) for number in range(world.topics.by_name["t"].partitions)}
        owned = set().union(*(client.reads for client in self._members))
        if owned != there:
            return f"nobody reads {sorted(there - owned)}"
        state, members = self._described(self.machine)
        if state != "Stable":
            return f"the group is {state}"
        busy = [str(client) for client in self._members if not client.is_idle and not isinstance(client, Classic)]
        busy += [str(client) for client in self._members if isinstance(client, Classic) and not client.in_it]
        if busy:
            return f"busy: {', '.join(busy)}"
        known = {client.member_id for client in self._members}
        return "" if known == members.keys() else f"members {sorted(members)}, clients {sorted(known)}"

    def check(self) -> None:
        fail = self.world.simulator.fail
        machine = self.machine
        _, members = self._described(machine)
        for client in self._members:
            if members[client.member_id] != client.owned:
                fail(f"{client} owns {sorted(client.owned)}, and is described with {sorted(members[client.member_id])}")
        offsets = self._offsets(machine)
        if offsets != self.world.checks.present:
            fail(f"offsets are {offsets}, and were committed as {self.world.checks.present}")
        self.reload()

    def reload(self) -> None:
        """Checks that a fresh reader of the log has the same state."""
        partition = self.world.partition
        now = self._all(self.machine)
        for cleaned, tombstones in ((False, True), (True, True), (True, False)):
            journal = Journal()
            journal.recording = False
            other = self.world.make(journal)
            for _, kept in partition.compacted(0, partition.committed, cleaned=cleaned, tombstones=tombstones):
                record = other.decode(*kept, None)
                if record is not None:
                    other.replay(record)
            found = self._all(other)
            if found != now:
                how = f"compacted: {cleaned}, with tombstones: {tombstones}"
                self.world.simulator.fail(f"the log ({how}) says {found}, its owner {now}")

    def is_over(self) -> str:
        """All clients are gone."""
        if not self.world.owner.serves:
            return "it is not served"
        state, members = self._described(self.machine)
        if members or state not in ("Empty", "Dead"):
            return f"{sorted(members)} are in a group that is {state}"
        waiting = self.world.owner.shard.pending.parked
        return f"waits for ever: {list(waiting)}" if waiting else ""

    # -- what the machine says ----------------------------------------------------------------------------------------------

    def _ask(self, machine: GroupMachine, request: Any, version: int) -> Any:
        return machine.decide(RequestEvent(request, version, "rest", "/127.0.0.1", "id"), self.world.owner.now_ms).reply

    def _described(self, machine: GroupMachine) -> tuple[str, dict[str, frozenset[Partition]]]:
        (group,) = self._ask(machine, ConsumerGroupDescribeRequest([GROUP]), 1).groups
        if not group.error_code:
            return group.group_state, {
                member.member_id: frozenset(
                    (topic_name(one.topic_id), number) for one in member.assignment.topic_partitions for number in one.partitions
                )
                for member in group.members
            }
        (classic,) = self._ask(machine, DescribeGroupsRequest([GROUP], False), 6).groups
        return classic.group_state, {
            member.member_id: frozenset(each(assigned_in(member.member_assignment)) if member.member_assignment else ())
            for member in classic.members
        }

    def _offsets(self, machine: GroupMachine) -> dict[Partition, int]:
        (group,) = self._ask(machine, OffsetFetchRequest([OffsetFetchRequestGroup(GROUP, None, -1, None)]), 9).groups
        return {(topic.name, one.partition_index): one.committed_offset for topic in group.topics for one in topic.partitions}

    def _all(self, machine: GroupMachine) -> object:
        (consumer,) = self._ask(machine, ConsumerGroupDescribeRequest([GROUP]), 1).groups
        (classic,) = self._ask(machine, DescribeGroupsRequest([GROUP], False), 6).groups
        listed = self._ask(machine, ListGroupsRequest([], []), 5).groups
        agreed = consumer.error_code == 0 or classic.group_state in AGREED
        consumer.members.sort(key=lambda member: member.member_id)
        classic.members.sort(key=lambda member: member.member_id)
        return self._offsets(machine), consumer, (classic, listed) if agreed else None
