"""A shard that is read from its log anew, beside the one that is served: whoever asks both must hear the same."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

from libs.cluster.configs.group_settings import own_group_values
from libs.coordinator.core.tables import Journal
from libs.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from libs.wire.messages.describe_groups import DescribeGroupsRequest
from libs.wire.messages.list_groups import ListGroupsRequest
from libs.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from libs.wire.record_batches.key_values import latest_values
from services.group_coordinator.coordinator import GroupCoordinator, MachineInputs, group_machine
from services.group_coordinator.core.group_machine import GroupMachine
from services.group_coordinator.core.model.requests import RequestEvent
from services.storage.partition.partition import Partition
from tests.simulation.cluster.invariants import content

OFFSET_FETCH, DESCRIBE_GROUPS, CONSUMER_GROUP_DESCRIBE, LIST_GROUPS = 9, 5, 1, 5


def differences(coordinator: GroupCoordinator, served: Any, partition: Partition, names: Sequence[str]) -> Iterator[str]:
    loaded = loaded_from(coordinator, partition)
    for request, version in _questions(names):
        asked = RequestEvent(request, version, "", "", "")
        one, other = (_in_order(machine.decide(asked, 0).reply) for machine in (served, loaded))
        if one != other:
            yield f"{type(request).__name__}: served is {one}, loaded {other}"


def loaded_from(coordinator: GroupCoordinator, partition: Partition) -> GroupMachine:
    known = MachineInputs(
        image=lambda: coordinator.image,
        settings=lambda: coordinator.group_settings.current,
        topics=lambda: coordinator.topics,
        group_configs=lambda name: own_group_values(coordinator.image, name),
    )
    journal = Journal()
    machine = group_machine(journal, known)
    journal.recording = False
    replay_log(machine, partition)
    return machine


def replay_log(machine: Any, partition: Partition) -> None:
    """Replays all that the log has, as an owner that loads the shard does."""
    start, end = partition.log_start_offset, partition.log_end_offset
    found, _ = latest_values(content(partition, start, end), start, end)
    for values, transaction in found:
        for key, value in values.items():
            record = machine.decode(key, value, transaction)
            if record is not None:
                machine.replay(record)


def _questions(names: Sequence[str]) -> Iterator[tuple[Any, int]]:
    yield DescribeGroupsRequest(list(names)), DESCRIBE_GROUPS
    yield ConsumerGroupDescribeRequest(list(names)), CONSUMER_GROUP_DESCRIBE
    yield ListGroupsRequest(), LIST_GROUPS
    yield OffsetFetchRequest([OffsetFetchRequestGroup(name, None, -1, None) for name in names]), OFFSET_FETCH


def _in_order(reply: Any) -> Any:
    """A shard's tables have no order."""
    reply = deepcopy(reply)
    for group in reply.groups:
        if hasattr(group, "members"):
            group.members.sort(key=lambda member: member.member_id)
        if hasattr(group, "topics"):
            group.topics.sort(key=lambda topic: topic.name)
            for topic in group.topics:
                topic.partitions.sort(key=repr)
    reply.groups.sort(key=lambda group: group.group_id)
    return reply
