"""Members of the consumer protocol (KIP-848): heartbeats say what they have, and hear what they are to have."""

from libs.wire.errors import ErrorCode
from libs.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.simulation.cluster.group_members import FENCED, HEARTBEAT_S, NOWHERE, Member
from tests.simulation.cluster.group_promises import Holding
from tests.simulation.cluster.kafka_client import Disconnected, Partition

REBALANCE_S = 30.0
JOINS, LEAVES, LEAVES_FOR_A_WHILE = 0, -1, -2
GIVES_UP_S_MAX = 2.0
"""So long an application may take to let go of what it is told to, and its client goes on with heartbeats."""


class ConsumerMember(Member):
    topic_ids: dict[str, bytes]
    """Set before it runs."""
    _lives = 0
    _beat_at = _gives_up_at = 0.0
    holding: Holding | None = None

    @property
    def joining(self) -> bool:
        return self.holding is not None and (self.generation <= 0 or bool(self._to_give_up()))

    def _begin(self) -> None:
        self._lives += 1
        self.member_id, self.generation = f"{self.name}-life-{self._lives}", JOINS
        self._says_all, self._target = True, set[Partition]()
        self._beat_at = 0.0
        self._hold()

    def _hold(self) -> None:
        self.holding = Holding(self.member_id)
        self.promises.holdings.append(self.holding)

    def _drop(self) -> None:
        super()._drop()
        self._target = set()
        if self.holding is not None:
            self.promises.holdings.remove(self.holding)
            self.holding = None

    def _to_give_up(self) -> set[Partition]:
        return self.holding.partitions - self._target if self.holding is not None else set()

    async def _step(self) -> None:
        error = 0
        if self.now >= self._beat_at:
            error = await self._beat()
        if not error and self.generation > 0:
            # STALE_MEMBER_EPOCH: the next heartbeat tells the newer one.
            error = await self._find_positions(sorted(self._target), self.member_id, self.generation)
        if not error and self.positions:
            await self._read()
            error = await self._commit_when_due()
        if not error and self._to_give_up() and self.now >= self._gives_up_at:
            await self._give_up()
        if error in (ErrorCode.STALE_MEMBER_EPOCH, *NOWHERE, -1):
            self._beat_at = 0.0
            await self._pause(error)
        elif error in FENCED:
            self._fenced()
        elif error:
            self.world.violation(f"7: group {self.group.name}: {self.name} is told {ErrorCode(error).name}")
        await self._think()

    async def _give_up(self) -> None:
        """Gives partitions up. Their positions are committed before; the next heartbeat reports it."""
        await self._commit_all()
        for partition in self._to_give_up():
            self.positions.pop(partition, None)
            self._committed.pop(partition, None)
        assert self.holding is not None
        self.holding.partitions &= self._target
        self._beat_at, self._changed = 0.0, True

    _changed = False

    async def _beat(self) -> int:
        """The error; -1 if nobody answered."""
        holding = self.holding
        assert holding is not None
        self._beat_at = self.now + HEARTBEAT_S
        begun, alone, newest = self.now, self.group.alone(), self.promises.newest
        epoch, said = self.generation, self._request()
        changed, self._changed = self._changed, False
        try:
            answer: ConsumerGroupHeartbeatResponse = await self._ask(said)
        except Disconnected:
            self._says_all = True  # nobody knows what the coordinator heard, and what it said
            await self._pause()
            return -1
        if answer.error_code:
            self._changed = self._changed or changed
            self._says_all = True  # as Java's clients do: the answer before may be lost with whoever owned the shard
            if answer.error_code == ErrorCode.UNRELEASED_INSTANCE_ID:
                await self._pause()  # the former life is still a member
                return 0
            return answer.error_code
        if alone:
            holding.heard_s = begun
        self.promises.epoch_received(holding, answer.member_epoch, newest=(newest if alone else 0) if epoch == JOINS else None)
        self.generation, self._says_all = answer.member_epoch, False
        if answer.assignment is not None:
            self._target = {
                (self._topic(topic.topic_id), index) for topic in answer.assignment.topic_partitions for index in topic.partitions
            }
            self.promises.given(holding, self._target - holding.partitions)
            self._gives_up_at = self.now + self._random.uniform(0.0, GIVES_UP_S_MAX)
            # It says what it has, also where it never took what it is to give up: the answer that gave it that was lost.
            self._changed, self._beat_at = True, 0.0
        return 0

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(self.group.name, self.member_id, self.generation)
        if self.generation == JOINS or self._says_all:
            request.instance_id = self.instance_id
            request.rebalance_timeout_ms = int(REBALANCE_S * 1000)
            request.subscribed_topic_names = self.group.topics
        if self.generation == JOINS or self._says_all or self._changed:
            request.topic_partitions = self._owned() if self.generation != JOINS else []
        if self.instance_id is not None:
            request.instance_id = self.instance_id
        return request

    def _owned(self) -> list[TopicPartitions]:
        assert self.holding is not None
        by_topic: dict[str, list[int]] = {}
        for topic, index in sorted(self.holding.partitions):
            by_topic.setdefault(topic, []).append(index)
        return [TopicPartitions(self.topic_ids[topic], indexes) for topic, indexes in by_topic.items()]

    def _topic(self, topic_id: bytes) -> str:
        return next(name for name, known in self.topic_ids.items() if known == topic_id)

    def _fenced(self) -> None:
        self._sometimes("a member that lives was fenced")
        self._drop()
        self._hold()
        self.generation, self._says_all, self._beat_at = JOINS, True, 0.0

    async def _leave(self) -> None:
        if self.generation <= 0:
            return
        self._beat_at = 0.0
        epoch = LEAVES_FOR_A_WHILE if self.instance_id is not None and not self.stopping else LEAVES
        request = ConsumerGroupHeartbeatRequest(self.group.name, self.member_id, epoch, self.instance_id)
        self._drop()
        try:
            answer = await self._ask(request)
        except Disconnected:
            return
        self._sometimes("a static member left for a while", epoch == LEAVES_FOR_A_WHILE and not answer.error_code)
