"""Messages to clients are never longer than a Kafka string, whatever they quote."""

from collections.abc import Callable
from typing import Any

import pytest

from libs.wire.errors import ErrorCode
from libs.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from libs.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from libs.wire.messages.describe_groups import DescribeGroupsRequest
from libs.wire.primitives import STRING_BYTES_MAX
from services.group_coordinator.core.consumer.regex import LENGTH_MAX
from services.group_coordinator.core.model.quoting import quoted
from tests.group_coordinator.offsets.stage import GroupStage

NAME = "x" * STRING_BYTES_MAX
WIDE = "\N{GRINNING FACE}" * (STRING_BYTES_MAX // 4)


def beat(
    group: str = "k", member_id: str = "m", epoch: int = 0, version: int = 1, **reported: Any
) -> Callable[[GroupStage], Any]:
    about: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    request = ConsumerGroupHeartbeatRequest(group, member_id, epoch, **{**about, **reported})
    return lambda stage: stage.ask(request, version).reply


def with_static(follows: Callable[[GroupStage], Any], group: str = "k", holder: str = NAME) -> Callable[[GroupStage], Any]:
    def asked(stage: GroupStage) -> Any:
        assert beat(group, holder, instance_id=NAME)(stage).error_code == 0
        return follows(stage)

    return asked


def classic(asked: Callable[[GroupStage], Any]) -> Callable[[GroupStage], Any]:
    def in_a_group(stage: GroupStage) -> Any:
        stage.member("t", name=NAME)
        return asked(stage)

    return in_a_group


def described(stage: GroupStage) -> Any:
    return stage.ask(DescribeGroupsRequest([NAME]), 6).reply.groups[0]


def describe_as_consumer_group(stage: GroupStage) -> Any:
    return stage.ask(ConsumerGroupDescribeRequest([NAME]), 1).reply.groups[0]


def of_consumers(stage: GroupStage) -> Any:
    beat(NAME)(stage)
    return described(stage)


def simple(stage: GroupStage) -> Any:
    stage.commit({("t", 0): 1}, name=NAME)
    return describe_as_consumer_group(stage)


def cannot_upgrade(stage: GroupStage) -> Any:
    stage.member("t", name=NAME, kind="connect")
    return beat(NAME)(stage)


SAID = {
    "DescribeGroups, of none": (described, "Group {} not found."),
    "DescribeGroups, of a consumer group": (of_consumers, "Group {} is not a classic group."),
    "ConsumerGroupDescribe, of none": (describe_as_consumer_group, "Group {} not found."),
    "ConsumerGroupDescribe, of a classic group": (classic(describe_as_consumer_group), "Group {} is not a consumer group."),
    "ConsumerGroupDescribe, of a simple group": (simple, "Group {} is not a consumer group."),
    "a heartbeat to none": (beat(NAME, epoch=1), "Consumer group {} not found."),
    "a leave of none": (beat(NAME, epoch=-1), "Group {} not found."),
    "a heartbeat to a classic group": (classic(beat(NAME, epoch=1)), "Group {} is not a consumer group."),
    "an upgrade that cannot be": (cannot_upgrade, "Cannot upgrade classic group {} to consumer group because"),
    "an assignor": (beat(server_assignor=NAME), "ServerAssignor {} is not supported."),
    "a long expression": (beat(subscribed_topic_regex=NAME), "SubscribedTopicRegex `xxxx"),
    "a bad expression": (beat(subscribed_topic_regex="(" + NAME[: LENGTH_MAX - 1]), "SubscribedTopicRegex `("),
    "an instance that nobody is": (with_static(beat("k", "n", 1, instance_id=NAME[1:])), "Instance id {} is unknown."),
    "an instance that another is": (
        with_static(beat("k", NAME[1:], 1, instance_id=NAME)),
        "Static member {} with instance id {} was fenced by member {}.",
    ),
    "an instance that is taken": (
        with_static(beat("k", NAME[1:], instance_id=NAME)),
        "Static member {} with instance id {} cannot join the group because the instance id is owned by {} member.",
    ),
    "a member that leaves and is none": (
        with_static(beat(NAME, NAME[1:], -1), group=NAME),
        "Member {} is not a member of group {}.",
    ),
}


@pytest.fixture
def stage() -> GroupStage:
    return GroupStage()


@pytest.mark.parametrize("case", SAID)
def test_names_are_cut_in_the_words_about_them(stage: GroupStage, case: str) -> None:
    asked, words = SAID[case]
    answer = asked(stage)
    assert answer.error_code != ErrorCode.NONE
    assert answer.error_message.startswith(words.replace("{}", quoted(NAME)))
    assert len(answer.error_message.encode()) <= STRING_BYTES_MAX


def test_letters_of_four_bytes_are_cut_early_enough() -> None:
    assert 3 * len(quoted(WIDE).encode()) < STRING_BYTES_MAX // 2


def test_a_short_name_is_quoted_whole() -> None:
    assert quoted("a name") == "a name"
