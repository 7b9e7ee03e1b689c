"""Consumers of the classic protocol, and such that assign themselves what they read."""

from typing import Any

from libs.wire.consumer_protocol import read_subscription
from libs.wire.errors import ErrorCode
from libs.wire.messages.heartbeat import HeartbeatRequest
from libs.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from libs.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from libs.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.group_coordinator.conversion.clients import Partition, by_topic, each
from tests.group_coordinator.conversion.stage import assigned_in, assignment, subscription
from tests.simulation.groups.network import Call
from tests.simulation.groups.reading import GROUP, LOST, REBALANCE_MS, RETRY_MS, SESSION_MS, Client, World

REBALANCES, ID_REQUIRED = 27, 79
JOIN_MS_MAX = 12_000


class Classic(Client):
    """Eager: stops before it joins. Cooperative: goes on, and stops what is taken away."""

    kind = "classic"

    def __init__(self, world: World, number: int, instance: str | None = None, *, cooperative: bool = False) -> None:
        super().__init__(world, number, instance)
        self.cooperative = cooperative
        self.former: list[tuple[str, int]] = []
        self.assigned_partitions = 0
        """When it last assigned, in this life or a former one."""
        self.asks_anew = False
        """For a rebalance, whatever it is told. A static member that ends before it gave up what it had claimed comes back to an
        assignment in which nobody has that, and in Kafka neither does anything change until somebody joins again."""
        self.forget()

    def forget(self) -> None:
        super().forget()
        self.member_id, self.generation, self.in_it = "", -1, False
        self.owned_in = -1
        """The generation that gave it what it owns."""
        self.claimed: frozenset[Partition] = frozenset()
        """What it said that it owns when it joined."""
        self.leads_partitions = 0
        """It leads, and assigned so many; 0: it does not."""

    @property
    def membership(self) -> tuple[str, int]:
        return self.member_id, self.generation

    @property
    def is_idle(self) -> bool:
        return self.in_it and self.waits is None

    def lease_over(self) -> None:
        self.owned, self.owned_in, self.in_it = frozenset(), -1, False

    def beat(self) -> None:
        if self.waits is not None:
            return
        if not self.in_it or self.asks_anew or (self.leads_partitions and self.leads_partitions != self._partitions):
            self.asks_anew &= not self.in_it
            self._join()
        else:
            beat = HeartbeatRequest(GROUP, self.generation, self.member_id, self.instance)
            self.waits = self.ask(beat, 4, self._beaten)

    @property
    def _partitions(self) -> int:
        return self.world.topics.by_name["t"].partitions

    def _join(self) -> None:
        if self.waits is not None:
            return
        self.in_it, self.leads_partitions = False, 0
        if not self.cooperative:
            self.owned = frozenset()
        self.claimed = self.reads
        data = subscription("t", owned=by_topic(self.reads), generation=self.owned_in)
        protocol = JoinGroupRequestProtocol("cooperative-sticky" if self.cooperative else "range", data)
        join = JoinGroupRequest(GROUP, SESSION_MS, REBALANCE_MS, self.member_id, self.instance, "consumer", [protocol], None)
        self.waits = self.ask(join, 9 if self.number % 3 else 3 if self.instance is None else 5, self._joined, JOIN_MS_MAX)

    def _lose(self, error: int) -> None:
        if self.member_id:
            self.former.append((self.member_id, self.generation))
        self.own(frozenset())
        self.in_it, self.owned_in = False, -1
        if error != ErrorCode.ILLEGAL_GENERATION:
            self.member_id, self.generation = "", -1

    def _heard(self, call: Call, error: int) -> bool:
        """False: it is to do no more about it."""
        if self.waits is call:
            self.waits = None
        elif self.waits is not None or not error:
            return False  # of a connection that it gave up
        if error in LOST:
            self._lose(error)
            self._later(self.random.random() * 20, self.beat)
        elif error == REBALANCES:
            self._later(self.random.random() * 20, self._join)
        elif error:
            self._later(RETRY_MS, self.beat)
        return not error

    def _renewed(self, call: Call) -> None:
        self.lease_ms = call.sent_ms + SESSION_MS

    def _beaten(self, call: Call, error: int, reply: Any) -> None:
        if error == REBALANCES:
            self.in_it = False
            if not self.cooperative:
                self.own(frozenset())
        if self._heard(call, error):
            self._renewed(call)

    def _joined(self, call: Call, error: int, reply: Any) -> None:
        if error == ID_REQUIRED:
            self.member_id = reply.member_id
        if not self._heard(call, error):
            return
        if self.member_id and (self.member_id, self.generation) != (reply.member_id, reply.generation_id):
            self.former.append((self.member_id, self.generation))
        self.member_id, self.generation = reply.member_id, reply.generation_id
        given: dict[str, bytes] = {}
        if reply.leader == self.member_id:
            if not reply.skip_assignment:
                self.assigned_partitions = self._partitions
            self.leads_partitions = self.assigned_partitions
            if not reply.skip_assignment:
                given = self._assign(reply)
        if self.random.random() < 0.03:
            return  # it hangs, and joins again with the next tick
        sync = SyncGroupRequest(
            GROUP,
            self.generation,
            self.member_id,
            self.instance,
            reply.protocol_type,
            reply.protocol_name,
            [SyncGroupRequestAssignment(member_id, data) for member_id, data in given.items()],
        )
        self.waits = self.ask(sync, 5, self._synced, JOIN_MS_MAX)

    def _assign(self, reply: Any) -> dict[str, bytes]:
        """Assigns no partition to a second member before its owner gave it up. Of two claims, the newer generation's counts."""
        count = self.leads_partitions
        members = sorted(member.member_id for member in reply.members)
        taken: dict[Partition, tuple[int, str]] = {}
        for member in reply.members if self.cooperative else ():
            said = read_subscription(member.metadata)
            for one in said.owned_partitions:
                for number in one.partitions:
                    claim = said.generation_id, member.member_id
                    taken[one.topic, number] = max(taken.get((one.topic, number), claim), claim)
        due = {member_id: {("t", number) for number in range(at, count, len(members))} for at, member_id in enumerate(members)}
        return {
            member_id: assignment(**by_topic(one for one in due[member_id] if taken.get(one, (0, member_id))[1] == member_id))
            for member_id in members
        }

    def _synced(self, call: Call, error: int, reply: Any) -> None:
        if not self._heard(call, error):
            return
        self._renewed(call)
        got = frozenset(each(assigned_in(reply.assignment))) if reply.assignment else frozenset[Partition]()
        gives_up = (self.claimed | self.reads) - got  # what it lost meanwhile nobody was given, since it had said that it has it
        self.in_it, self.owned_in = True, self.generation
        self.own(got)
        if gives_up and self.cooperative:
            self._later(self.random.random() * 100, self._join_anew)

    def _join_anew(self) -> None:
        """What it gave up goes to another member then. A heartbeat that is under way delays this, and does not prevent it."""
        if self.in_it and self.waits is not None:
            self._later(RETRY_MS, self._join_anew)
        else:
            self._join()

    def leave(self) -> None:
        if self.member_id and self.instance is None:
            gone = [MemberIdentity(self.member_id, None, None)]
            self.ask(LeaveGroupRequest(GROUP, gone), 5, self._committed)
            self.former.append((self.member_id, self.generation))

    def crash(self) -> None:
        if self.member_id:
            self.former.append((self.member_id, self.generation))
        super().crash()


class SelfAssigned(Client):
    """Is in no group, and commits to one: let in while that is empty."""

    kind = "self-assigned"

    def beat(self) -> None:
        self.lease_ms = self.simulator.now_ms + SESSION_MS
        self.owned = frozenset({("u", 0), ("u", 1)})
        if self.random.random() < 0.2:
            self._fetch(self.owned)
