"""Members by the classic protocol: they let go of everything before each rebalance, or only of what is taken from them."""

from collections.abc import Iterable, Mapping

from libs.wire.api_keys import ApiKey
from libs.wire.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from libs.wire.errors import ErrorCode
from libs.wire.messages.heartbeat import HeartbeatRequest
from libs.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from libs.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from libs.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.system.storm.member import Member
from tests.system.storm.reading import Fenced

JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION, LEAVE_VERSION = 9, 5, 4, 5


class ClassicMember(Member):
    protocol = "classic"
    assignor = "range"

    def forgotten(self) -> None:
        self.member_id, self.epoch = "", -1

    async def belong(self) -> None:
        """One generation."""
        await self.before_joining()
        joined = await self._join()
        if joined is None:
            return
        assigned = await self._sync(joined)
        if assigned is None:
            return
        self.epoch = joined.generation_id
        if await self.become(assigned):
            return
        while not self.leaving.is_set():
            request = HeartbeatRequest(self.scene.group, self.epoch, self.member_id)
            answer = await self.ask(ApiKey.HEARTBEAT, HEARTBEAT_VERSION, request)
            if answer is not None and answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                return
            if answer is not None:
                await self.rest()

    async def before_joining(self) -> None:
        await self.reading.let_go(self.reading.owned)

    async def become(self, assigned: set[int]) -> bool:
        """Whether it has to join again at once."""
        self.reading.take(sorted(assigned), self.epoch)
        return False

    def shares(self, members: Mapping[str, ConsumerProtocolSubscription]) -> dict[str, list[int]]:
        """Partitions by member, as its leader deals them out: nobody is spared a move."""
        names = sorted(members)
        return {name: list(range(number, self.scene.partitions, len(names))) for number, name in enumerate(names)}

    async def _join(self) -> JoinGroupResponse | None:
        scene = self.scene
        owned = tuple(sorted(self.reading.owned))
        partitions = (TopicPartition(scene.topic, owned),) if owned else ()
        subscription = ConsumerProtocolSubscription((scene.topic,), owned_partitions=partitions, generation_id=self.epoch)
        protocol = JoinGroupRequestProtocol(self.assignor, write_subscription(subscription))
        while True:
            request = JoinGroupRequest(
                scene.group, scene.session_ms, scene.rebalance_ms, self.member_id, None, PROTOCOL_TYPE, [protocol]
            )
            joined: JoinGroupResponse | None = await self.ask(ApiKey.JOIN_GROUP, JOIN_VERSION, request)
            if joined is None or joined.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                return None
            self.member_id = joined.member_id
            if joined.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                return joined

    async def _sync(self, joined: JoinGroupResponse) -> set[int] | None:
        scene, assignments = self.scene, []
        if joined.leader == joined.member_id and joined.members:
            members = {member.member_id: read_subscription(member.metadata) for member in joined.members}
            assignments = [
                SyncGroupRequestAssignment(name, write_assignment(_assignment(scene.topic, share)))
                for name, share in self.shares(members).items()
            ]
        request = SyncGroupRequest(
            scene.group, joined.generation_id, self.member_id, None, PROTOCOL_TYPE, joined.protocol_name, assignments
        )
        answer = await self.ask(ApiKey.SYNC_GROUP, SYNC_VERSION, request)
        if answer is None or answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            return None
        if not len(answer.assignment):
            return set()
        return {index for topic in read_assignment(answer.assignment).assigned_partitions for index in topic.partitions}

    async def say_goodbye(self) -> None:
        try:
            while self.member_id:
                request = LeaveGroupRequest(self.scene.group, [MemberIdentity(self.member_id)])
                if await self.ask(ApiKey.LEAVE_GROUP, LEAVE_VERSION, request) is not None:
                    return
        except Fenced:
            return


class CooperativeMember(ClassicMember):
    """A member that assigns as Kafka's CooperativeStickyAssignor: a moving partition has no owner for one generation."""

    assignor = "cooperative-sticky"

    async def before_joining(self) -> None:
        return

    async def become(self, assigned: set[int]) -> bool:
        owned = self.reading.owned
        self.scene.ledger.goes_on(self.name, sorted(owned & assigned), self.epoch)
        gone = owned - assigned
        await self.reading.let_go(gone)
        self.reading.take(sorted(assigned - owned), self.epoch)
        return bool(gone)

    def shares(self, members: Mapping[str, ConsumerProtocolSubscription]) -> dict[str, list[int]]:
        owners = _claims(members, self.scene.partitions)
        most, spare = divmod(self.scene.partitions, len(members))
        held: dict[str, list[int]] = {name: [] for name in members}
        free = []
        for partition in range(self.scene.partitions):
            name = owners.get(partition)
            if name is None:
                free.append(partition)
            elif len(held[name]) < most or (len(held[name]) == most and spare > 0):
                spare -= len(held[name]) == most
                held[name].append(partition)
        for name in sorted(held, key=lambda name: len(held[name])):
            while free and len(held[name]) < most:
                held[name].append(free.pop())
        for name in held:
            if free and len(held[name]) == most and spare > 0:
                spare -= 1
                held[name].append(free.pop())
        return held


def _claims(members: Mapping[str, ConsumerProtocolSubscription], partitions: int) -> dict[int, str]:
    """The owner of each partition; of two claims the newer generation's counts."""
    claims: dict[int, tuple[int, str]] = {}
    for name, subscription in members.items():
        for partition in _indexes(subscription.owned_partitions):
            if partition < partitions:
                claims[partition] = max(claims.get(partition, (-2, "")), (subscription.generation_id, name))
    return {partition: name for partition, (_, name) in claims.items()}


def _indexes(owned: Iterable[TopicPartition]) -> list[int]:
    return [partition for topic in owned for partition in topic.partitions]


def _assignment(topic: str, partitions: list[int]) -> ConsumerProtocolAssignment:
    return ConsumerProtocolAssignment((TopicPartition(topic, tuple(partitions)),) if partitions else ())
