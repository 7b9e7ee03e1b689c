"""A coordinator of one shard with groups of both protocols, on a log in memory, and clients of both that ask it."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from libs.coordinator.core.decisions import KeyValue
from libs.coordinator.core.tables import Journal
from libs.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    read_assignment,
    write_assignment,
    write_subscription,
)
from libs.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from services.group_coordinator.core.consumer.group import Group as ConsumerGroup
from services.group_coordinator.core.group_machine import GroupMachine
from services.group_coordinator.core.model.classic_settings import ClassicSettings
from services.group_coordinator.core.model.records import ClassicGroupChanged
from services.group_coordinator.core.model.settings import GroupSettings, MigrationPolicy
from services.group_coordinator.core.model.topics_view import TopicsView
from tests.group_coordinator.classic.stage import Stage as ClassicStage
from tests.group_coordinator.named_topics import Owned, topic_id, view_of
from tests.group_coordinator.one_shard import CoordinatorRequest


def subscription(
    *topics: str, owned: Owned | None = None, generation: int = -1, rack: str | None = None, version: int = 3
) -> bytes:
    has = tuple(TopicPartition(name, tuple(numbers)) for name, numbers in (owned or {}).items())
    return write_subscription(ConsumerProtocolSubscription(topics, None, has, generation, rack), version)


def offers(*topics: str, owned: Owned | None = None, protocols: tuple[str, ...] = ("range",)) -> tuple[tuple[str, bytes], ...]:
    return tuple((name, subscription(*topics, owned=owned)) for name in protocols)


def assigned_in(data: bytes) -> dict[str, list[int]]:
    """An assignment, as a client reads it."""
    return {item.topic: list(item.partitions) for item in read_assignment(data).assigned_partitions}


class Machine(GroupMachine):
    """A machine with a limit of members that a group may have when it becomes classic: more do not fit the log."""

    classic_members_max = 1_000

    def encode(self, record: Any) -> KeyValue | None:
        if isinstance(record, ClassicGroupChanged) and record.leader is None and len(record.members) > self.classic_members_max:
            raise ValueError(f"a group of {len(record.members)} members does not fit")
        return super().encode(record)


class Stage(ClassicStage):
    classic_members_max = 1_000
    """It counts for the next owner."""

    def __init__(self, policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL, **topics: int) -> None:
        self.group_settings = GroupSettings(ClassicSettings(initial_delay_ms=0), consumer_migration_policy=policy)
        self.topics = TopicsView()
        self.set_topics(**(topics or {"t": 4}))
        super().__init__()

    def change(self, **settings: Any) -> None:
        self.group_settings = replace(self.group_settings, **settings)

    def set_topics(self, **topics: int) -> None:
        self.topics = view_of(topics, self.topics.version + 1)

    def make(self, journal: Journal) -> Any:
        machine = Machine(journal, lambda: self.group_settings, lambda _: {}, lambda: self.topics)
        machine.classic_members_max = self.classic_members_max
        return machine

    # -- clients ------------------------------------------------------------------------------------------------------------

    def beat(
        self,
        member_id: str,
        epoch: int,
        *topics: str,
        owned: Owned | None = None,
        instance: str | None = None,
        name: str = "g",
        regex: str | None = None,
        rebalance_ms: int = 60_000,
    ) -> CoordinatorRequest:
        """A ConsumerGroupHeartbeat. With epoch 0: it joins."""
        reported = [TopicPartitions(topic_id(item), list(numbers)) for item, numbers in (owned or {}).items()]
        joins = epoch == 0
        return self.ask(
            ConsumerGroupHeartbeatRequest(
                name,
                member_id,
                epoch,
                instance,
                None,
                rebalance_ms if joins else -1,
                list(topics) if topics else None,
                regex,
                None,
                reported if joins or owned is not None else None,
            ),
            1,
        )

    def classic_group(self, *topics: str, members: int = 2, cooperative: bool = False, name: str = "g") -> list[str]:
        """A stable one; partitions of the first topic are dealt in turn. Returns member ids, the leader's first."""
        protocols = offers(*topics, protocols=("cooperative-sticky",) if cooperative else ("range",))
        self.stopped = True
        ids = [self.join(name=name, protocols=protocols).reply.member_id for _ in range(members)]
        joins = [self.join(member_id, name=name, protocols=protocols) for member_id in ids]
        self.stopped = False
        self.settle()
        leader, generation = joins[0].reply.leader, joins[0].reply.generation_id
        ids.sort(key=lambda member_id: member_id != leader)
        count = self.topics.by_name[topics[0]].partitions
        assigned = {member_id: assignment(**{topics[0]: range(at, count, members)}) for at, member_id in enumerate(ids)}
        syncs = [self.sync(member_id, generation, assigned if member_id == leader else {}, name=name) for member_id in ids[::-1]]
        assert all(sync.error == 0 for sync in syncs)
        return ids

    # -- scenes -------------------------------------------------------------------------------------------------------------

    @property
    def machine(self) -> GroupMachine:
        machine = self.shard.machine
        assert isinstance(machine, GroupMachine)
        return machine

    def consumer(self, name: str = "g") -> ConsumerGroup:
        assert name not in self.machine.classic.groups
        return self.machine.consumer.groups[name]

    def is_classic(self, name: str = "g") -> bool:
        assert not (name in self.machine.classic.groups and name in self.machine.consumer.groups)
        return name in self.machine.classic.groups


def assignment(**topics: Iterable[int]) -> bytes:
    return write_assignment(
        ConsumerProtocolAssignment(tuple(TopicPartition(name, tuple(numbers)) for name, numbers in topics.items()))
    )
