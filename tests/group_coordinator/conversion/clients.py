"""Clients of both protocols that do with each answer what real ones do, one step at a time.

`owned` is what a client would read from at this moment: whoever got it has it until it hears that it has to stop.
"""

from collections.abc import Iterable
from typing import Any

from libs.wire.consumer_protocol import read_subscription
from libs.wire.errors import ErrorCode
from libs.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from libs.wire.messages.heartbeat import HeartbeatRequest
from libs.wire.messages.join_group import JoinGroupRequest
from tests.group_coordinator.conversion.stage import Stage, assigned_in, assignment, offers
from tests.group_coordinator.named_topics import topic_id
from tests.group_coordinator.one_shard import CoordinatorRequest

Partition = tuple[str, int]
LOST = (
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
)
"""Errors after which a client owns nothing."""


def by_topic(owned: Iterable[Partition]) -> dict[str, list[int]]:
    by_topic_name: dict[str, list[int]] = {}
    for topic, number in sorted(owned):
        by_topic_name.setdefault(topic, []).append(number)
    return by_topic_name


def each(by_topic_name: dict[str, list[int]]) -> set[Partition]:
    return {(topic, number) for topic, numbers in by_topic_name.items() for number in numbers}


def claimed(subscription: bytes) -> set[Partition]:
    return {(item.topic, number) for item in read_subscription(subscription).owned_partitions for number in item.partitions}


class Client:
    def __init__(self, stage: Stage, number: int, instance: str | None = None) -> None:
        self.stage = stage
        self.number = number
        self.instance = instance
        self.topics: tuple[str, ...] = ("t",)
        self.owned: set[Partition] = set()
        self.request: CoordinatorRequest | None = None
        self.busy = True
        """There is more for it to do."""

    def step(self) -> None:
        """Handles the answer that it waits for, or sends the next request."""
        if self.request is not None and not self.request.answered:
            return
        pending, self.request = self.request, None
        self.busy = pending is not None
        if pending is not None:
            self.hears(pending)
        else:
            self.metadata_record()

    def metadata_record(self) -> None: ...

    def hears(self, pending: CoordinatorRequest) -> None: ...

    def stop(self) -> None:
        """As it should."""

    def crash(self) -> None:
        """The client restarts without its state, and without leaving."""
        self.owned, self.request = set(), None


class Classic(Client):
    """Eager: stops before it joins. Cooperative: goes on, and stops what is taken away."""

    def __init__(self, stage: Stage, number: int, instance: str | None = None, *, cooperative: bool = False) -> None:
        super().__init__(stage, number, instance)
        self.cooperative = cooperative
        self.member_id = ""
        self.generation = -1
        self.in_it = False
        self.leads: int | None = None
        """It watches the topics: how many partitions there were when it assigned."""

    @property
    def _count(self) -> int:
        return self.stage.topics.by_name["t"].partitions

    @property
    def protocol(self) -> str:
        return "cooperative-sticky" if self.cooperative else "range"

    def metadata_record(self) -> None:
        if not self.in_it or self.leads not in (None, self._count):
            self._join()
        else:
            self.request = self.stage.ask(HeartbeatRequest("g", self.generation, self.member_id, self.instance), 4)

    def _join(self) -> None:
        self.in_it, self.busy = False, True
        if not self.cooperative:
            self.owned = set()
        protocols = offers(*self.topics, owned=by_topic(self.owned), protocols=(self.protocol,))
        self.request = self.stage.join(
            self.member_id, instance=self.instance, protocols=protocols, version=9 if self.number % 3 else 3
        )

    def _lose(self, error: int) -> None:
        self.owned, self.in_it, self.busy = set(), False, True
        if error != ErrorCode.ILLEGAL_GENERATION:
            self.member_id = ""

    def hears(self, pending: CoordinatorRequest) -> None:
        error = pending.error
        if isinstance(pending.request, HeartbeatRequest):
            self.busy = False
            if error == ErrorCode.REBALANCE_IN_PROGRESS:
                self._join()
            elif error in LOST:
                self._lose(error)
        elif isinstance(pending.request, JoinGroupRequest):
            self._hears_of_join(pending)
        elif error in LOST:
            self._lose(error)
        elif not error:
            data = pending.reply.assignment
            got = each(assigned_in(data)) if data else set()
            gives_up = self.owned - got
            self.owned, self.in_it = got, True
            if gives_up:
                self._join()

    def _hears_of_join(self, pending: CoordinatorRequest) -> None:
        error = pending.error
        if error:
            if error == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = pending.reply.member_id
            elif error in LOST or error in (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.GROUP_MAX_SIZE_REACHED):
                self._lose(error)
            return
        reply, self.leads = pending.reply, None
        self.member_id, self.generation = reply.member_id, reply.generation_id
        given = self._assign(reply) if reply.leader == self.member_id and not reply.skip_assignment else {}
        self.request = self.stage.sync(self.member_id, self.generation, given, instance=self.instance)

    def _assign(self, reply: Any) -> dict[str, bytes]:
        """A partition of one client goes to no other before it is revoked."""
        count = self.leads = self._count
        members = sorted(member.member_id for member in reply.members)
        has = {
            member.member_id: each(
                {item.topic: list(item.partitions) for item in read_subscription(member.metadata).owned_partitions}
            )
            for member in reply.members
        }
        due = {member_id: {("t", number) for number in range(at, count, len(members))} for at, member_id in enumerate(members)}
        taken = {partition: member_id for member_id, those in has.items() for partition in those}
        return {
            member_id: assignment(**by_topic(item for item in due[member_id] if taken.get(item, member_id) == member_id))
            for member_id in members
        }

    def stop(self) -> None:
        if self.member_id and self.instance is None:
            self.stage.leave(self.member_id)
        self.crash()

    def crash(self) -> None:
        super().crash()
        self.member_id, self.generation, self.in_it = "", -1, False


class Consumer(Client):
    """Says what it owns in each heartbeat. It takes a step to stop what is taken away, and to begin what it gets."""

    def __init__(self, stage: Stage, number: int, instance: str | None = None) -> None:
        super().__init__(stage, number, instance)
        self.lives = 0
        self.epoch = 0
        self.target: set[Partition] | None = None
        self.unheard = False
        """An answer was lost: the next heartbeat is a full one, and so is its answer."""

    @property
    def member_id(self) -> str:
        return f"consumer-{self.number}-{self.lives}"

    def metadata_record(self) -> None:
        if self.target is not None:
            self.owned, self.target, self.busy = self.target, None, True
        self.request = self._beat(self.epoch)

    def _beat(self, epoch: int) -> CoordinatorRequest:
        owned = [TopicPartitions(topic_id(topic), numbers) for topic, numbers in by_topic(self.owned).items()]
        says_all = epoch == 0 or self.unheard
        request = ConsumerGroupHeartbeatRequest(
            "g", self.member_id, epoch, self.instance, None, 60_000 if says_all else -1, list(self.topics), None, None, owned
        )
        return self.stage.ask(request, 1)

    def hears(self, pending: CoordinatorRequest) -> None:
        self.busy = self.unheard = pending.failure != 0
        if self.unheard:
            return
        if pending.error:
            self.busy = True
            if pending.error in LOST or pending.error == ErrorCode.GROUP_ID_NOT_FOUND:
                self.owned, self.target, self.epoch = set(), None, 0
            if pending.error in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID):
                self.lives += 1
        else:
            reply = pending.reply
            if reply.member_epoch < 0:
                return
            self.busy = reply.member_epoch != self.epoch
            self.epoch = reply.member_epoch
            if reply.assignment is not None:
                got = {
                    (item.topic_id.rstrip(b".").decode(), number)
                    for item in reply.assignment.topic_partitions
                    for number in item.partitions
                }
                if got != self.owned:
                    self.target, self.busy = got, True

    def stop(self) -> None:
        if self.epoch > 0:
            self._beat(-2 if self.instance is not None else -1)
        self.crash()

    def crash(self) -> None:
        super().crash()
        self.lives += 1
        self.epoch, self.target = 0, None
