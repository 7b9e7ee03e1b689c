"""An operator with Kafka's tools: describes, lists, resets and deletes, at any time."""

from typing import Any

from libs.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from libs.wire.messages.delete_groups import DeleteGroupsRequest
from libs.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from libs.wire.messages.list_groups import ListGroupsRequest
from libs.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from libs.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from libs.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.group_coordinator.conversion.clients import Partition, each
from tests.group_coordinator.conversion.stage import assigned_in
from tests.simulation.groups.group_world import GroupWorld
from tests.simulation.groups.reading import GROUP


class Operator:
    def __init__(self, world: GroupWorld) -> None:
        self.world = world
        self.random = world.random
        self.link = world.operator_link
        self.ends = False

    def begin(self) -> None:
        self.world.simulator.later(self.random.random() * 6000, self._next)

    def _next(self) -> None:
        if self.ends:
            return
        acts = (self.describe, self.list, self.fetch, self.reset, self.delete_offset, self.delete_group)
        self.random.choices(acts, (4, 2, 4, 3, 3, 1))[0]()
        self.world.simulator.later(self.random.random() * 6000, self._next)

    def _ask(self, request: Any, version: int) -> None:
        self.link.ask(request, version, self._hears)

    def _hears(self, error: int, reply: Any) -> None:
        """Notes who has which partitions. `checks` judges the answers themselves."""
        if error or not hasattr(reply, "groups"):
            return
        for group in reply.groups:
            if isinstance(group, DescribedGroup) and (group.group_state, group.protocol_type) == ("Stable", "consumer"):
                self._each_has_its_own(group.members)

    def _each_has_its_own(self, members: list[Any]) -> None:
        owned: set[Partition] = set()
        for member in members:
            has = each(assigned_in(member.member_assignment)) if member.member_assignment else set()
            if has & owned:
                self.world.simulator.fail(f"described twice: {sorted(has & owned)}")
            owned |= has

    def describe(self) -> None:
        self._ask(DescribeGroupsRequest([GROUP], False), 6)
        self._ask(ConsumerGroupDescribeRequest([GROUP]), 1)

    def list(self) -> None:
        self._ask(ListGroupsRequest([], []), 5)

    def fetch(self) -> None:
        self._ask(OffsetFetchRequest([OffsetFetchRequestGroup(GROUP, None, -1, None)]), 9)

    def _which(self) -> Partition:
        topic = self.random.choice("tu")
        return topic, self.random.randrange(self.world.topics.by_name[topic].partitions)

    def reset(self) -> None:
        """Resets offsets as kafka-consumer-groups does: a commit without a member, refused while the group has members."""
        topic, number = self._which()
        at = OffsetCommitRequestPartition(number, self.world.next_offset(), -1, "")
        self._ask(OffsetCommitRequest(GROUP, -1, "", None, -1, [OffsetCommitRequestTopic(name=topic, partitions=[at])]), 9)

    def delete_offset(self) -> None:
        topic, number = self._which()
        self._ask(OffsetDeleteRequest(GROUP, [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(number)])]), 0)

    def delete_group(self) -> None:
        self._ask(DeleteGroupsRequest([GROUP]), 2)
