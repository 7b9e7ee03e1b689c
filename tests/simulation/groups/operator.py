"""Somebody with Kafka's tools: describes, lists, resets and deletes, at any time."""

from typing import TYPE_CHECKING, Any

from libs.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from libs.wire.messages.delete_groups import DeleteGroupsRequest
from libs.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from libs.wire.messages.list_groups import ListGroupsRequest
from libs.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from libs.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from libs.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.group_coordinator.conversion.clients import Partition, each
from tests.group_coordinator.conversion.stage import told
from tests.simulation.groups.lines import Line
from tests.simulation.groups.reading import GROUP

if TYPE_CHECKING:
    from tests.simulation.groups.run import GroupRun


class Operator:
    def __init__(self, run: "GroupRun") -> None:
        self.run = run
        self.random = run.random
        self.line = Line(run.lines, "operator", in_order=False)
        self.ends = False

    def begin(self) -> None:
        self.run.bench.later(self.random.random() * 6000, self._next)

    def _next(self) -> None:
        if self.ends:
            return
        acts = (self.describe, self.list, self.fetch, self.reset, self.delete_offset, self.delete_group)
        self.random.choices(acts, (4, 2, 4, 3, 3, 1))[0]()
        self.run.bench.later(self.random.random() * 6000, self._next)

    def _ask(self, request: Any, version: int) -> None:
        self.line.ask(request, version, self._hears)

    def _hears(self, error: int, reply: Any) -> None:
        """What is wrong with any answer, `checks` says. Here: who has what."""
        if error or not hasattr(reply, "groups"):
            return
        for group in reply.groups:
            if isinstance(group, DescribedGroup) and (group.group_state, group.protocol_type) == ("Stable", "consumer"):
                self._each_has_its_own(group.members)

    def _each_has_its_own(self, members: list[Any]) -> None:
        owned: set[Partition] = set()
        for member in members:
            has = each(told(member.member_assignment)) if member.member_assignment else set()
            if has & owned:
                self.run.bench.fail(f"described twice: {sorted(has & owned)}")
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
        return topic, self.random.randrange(self.run.topics.by_name[topic].partitions)

    def reset(self) -> None:
        """As kafka-consumer-groups does: a commit of nobody, refused while somebody is in the group."""
        topic, number = self._which()
        at = OffsetCommitRequestPartition(number, self.run.next_offset(), -1, "")
        self._ask(OffsetCommitRequest(GROUP, -1, "", None, -1, [OffsetCommitRequestTopic(name=topic, partitions=[at])]), 9)

    def delete_offset(self) -> None:
        topic, number = self._which()
        self._ask(OffsetDeleteRequest(GROUP, [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(number)])]), 0)

    def delete_group(self) -> None:
        self._ask(DeleteGroupsRequest([GROUP]), 2)
