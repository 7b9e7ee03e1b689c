"""A coordinator of one shard with groups of the consumer protocol alone, on a log in memory, and clients that ask it."""

from collections.abc import Iterable
from typing import Any

from libs.coordinator.core.decisions import Decision, Expired, KeyValue
from libs.coordinator.core.tables import Journal
from libs.coordinator.core.timers import TimerKey
from libs.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from libs.wire.record_batches.keyed_batches import TransactionalBatch
from services.group_coordinator.core.consumer.consumer_groups import ConsumerGroups
from services.group_coordinator.core.consumer.group import Group
from services.group_coordinator.core.model.consumer_settings import ConsumerSettings
from services.group_coordinator.core.model.requests import RequestEvent
from services.group_coordinator.core.model.topics_view import TopicsView
from services.group_coordinator.core.record_formats import record_codec
from tests.group_coordinator.named_topics import Owned, given, topic_id, topic_name, view_of
from tests.group_coordinator.one_shard import CoordinatorRequest, OneShard


class ConsumerMachine:
    def __init__(self, journal: Journal, stage: "Stage") -> None:
        self.consumer = ConsumerGroups(
            journal, lambda: stage.settings, lambda name: stage.configs.get(name, {}), lambda: stage.topics
        )

    def decide(self, event: RequestEvent | Expired, now_ms: int) -> Decision[Any, Any]:
        if isinstance(event, Expired):
            return self.consumer.expired(event.key, now_ms)
        assert isinstance(event.request, ConsumerGroupHeartbeatRequest)
        return self.consumer.decide_heartbeat(event, event.request, now_ms)

    def decide_smaller(self, event: RequestEvent | Expired, now_ms: int) -> Decision[Any, Any] | None:
        return None

    def replay(self, record: Any) -> None:
        assert self.consumer.replay(record)

    def encode(self, record: Any) -> KeyValue | None:
        return record_codec.encode(record)

    def decode(self, key: bytes, value: bytes | None, transaction: TransactionalBatch | None) -> Any:
        return record_codec.decode(key, value)

    def timers(self, now_ms: int) -> Iterable[tuple[TimerKey, int]]:
        return self.consumer.timers(now_ms)


class Heartbeat(CoordinatorRequest):
    @property
    def epoch(self) -> int:
        assert self.error == 0, (self.error, self.reply)
        return int(self.reply.member_epoch)

    @property
    def assigned(self) -> dict[str, list[int]] | None:
        """None: as before."""
        assert self.error == 0, (self.error, self.reply)
        return given(self.reply)


class Stage(OneShard):
    def __init__(self, **topics: int) -> None:
        """Topics, each with its number of partitions. Two, "t" and "u", if none are named."""
        self.settings = ConsumerSettings()
        self.configs: dict[str, dict[str, str]] = {}
        self.topics = TopicsView()
        self.set_topics(**(topics or {"t": 2, "u": 2}))
        super().__init__()

    def make(self, journal: Journal) -> Any:
        return ConsumerMachine(journal, self)

    def set_topics(self, **topics: int) -> None:
        """All that there are from now on."""
        self.topics = view_of(topics, self.topics.version + 1)

    # -- clients ------------------------------------------------------------------------------------------------------------

    def ask(
        self, request: ConsumerGroupHeartbeatRequest, version: int = 1, client_id: str = "c", host: str = "/127.0.0.1"
    ) -> Heartbeat:
        heartbeat = Heartbeat(request)
        self.submit(heartbeat, version, client_id, host)
        return heartbeat

    def join(
        self,
        member_id: str,
        *topics: str,
        group: str = "g",
        instance: str | None = None,
        rack: str | None = None,
        regex: str | None = None,
        assignor: str | None = None,
        rebalance_ms: int = 60_000,
        version: int = 1,
    ) -> Heartbeat:
        names = list(topics) if topics or regex is None else None
        return self.ask(
            ConsumerGroupHeartbeatRequest(group, member_id, 0, instance, rack, rebalance_ms, names, regex, assignor, []), version
        )

    def beat(
        self,
        member_id: str,
        epoch: int,
        owned: Owned | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
        topics: list[str] | None = None,
        regex: str | None = None,
        rebalance_ms: int = -1,
        assignor: str | None = None,
    ) -> Heartbeat:
        reported = None if owned is None else [TopicPartitions(topic_id(name), list(numbers)) for name, numbers in owned.items()]
        return self.ask(
            ConsumerGroupHeartbeatRequest(
                group, member_id, epoch, instance, None, rebalance_ms, topics, regex, assignor, reported
            )
        )

    def leave(self, member_id: str, *, group: str = "g", instance: str | None = None, epoch: int = -1) -> Heartbeat:
        return self.beat(member_id, epoch, group=group, instance=instance)

    # -- scenes -------------------------------------------------------------------------------------------------------------

    @property
    def consumer(self) -> ConsumerGroups:
        machine = self.shard.machine
        assert isinstance(machine, ConsumerMachine)
        return machine.consumer

    @property
    def groups(self) -> dict[str, Group]:
        return self.consumer.groups

    def group(self, name: str = "g") -> Group:
        return self.groups[name]

    def state(self, name: str = "g") -> str:
        return self.group(name).state.value

    def assignment_record(self, member_id: str, name: str = "g") -> dict[str, list[int]]:
        assigned = self.group(name).members[member_id].assigned
        return {topic_name(result): sorted(assigned[result]) for result in sorted(assigned)}
