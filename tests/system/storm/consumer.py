"""A member by KIP-848: the coordinator says what it owns, and waits until it has let go of what it does not."""

import uuid

from libs.wire.api_keys import ApiKey
from libs.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.system.storm.member import Member
from tests.system.storm.reading import Fenced, Scene

VERSION = 1


class ConsumerMember(Member):
    protocol = "consumer"

    def __init__(self, scene: Scene, name: str) -> None:
        super().__init__(scene, name)
        self.member_id, self.epoch = str(uuid.uuid4()), 0
        self.reading.asks_as_member = True
        self._reported: set[int] | None = None
        """What the coordinator knows that it owns."""
        self._topic_id = b""
        self._life = -1

    def forgotten(self) -> None:
        self.epoch, self._reported = 0, None

    async def belong(self) -> None:
        whole = self.epoch == 0 or self.connection.lives != self._life
        owned = self.reading.owned
        request = ConsumerGroupHeartbeatRequest(self.scene.group, self.member_id, self.epoch)
        if whole:
            request.subscribed_topic_names = [self.scene.topic]
            request.rebalance_timeout_ms = self.scene.rebalance_ms
        if whole or owned != self._reported:
            request.topic_partitions = [TopicPartitions(self._topic_id, sorted(owned))] if owned else []
        answer = await self.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, VERSION, request)
        if answer is None:
            return
        self._life, self._reported = self.connection.lives, owned
        self.epoch = answer.member_epoch
        self.scene.ledger.goes_on(self.name, sorted(owned), self.epoch)
        if answer.assignment is not None:
            self._topic_id = next((topic.topic_id for topic in answer.assignment.topic_partitions), self._topic_id)
            await self._become({index for topic in answer.assignment.topic_partitions for index in topic.partitions})
        if self.reading.owned == self._reported:
            await self.rest()

    async def _become(self, assigned: set[int]) -> None:
        if gone := self.reading.owned - assigned:
            await self.reading.let_go(gone)
        self.reading.take(sorted(assigned - self.reading.owned), self.epoch)

    async def say_goodbye(self) -> None:
        try:
            while self.epoch > 0:
                request = ConsumerGroupHeartbeatRequest(self.scene.group, self.member_id, -1)
                if await self.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, VERSION, request) is not None:
                    return
        except Fenced:
            return
