"""Refused requests about groups, with Kafka's errors: a refused request changes neither the log nor the state."""

from collections.abc import Callable
from typing import Any

import pytest

from libs.wire.errors import ErrorCode
from services.group_coordinator.core.model.classic_settings import ClassicSettings
from services.group_coordinator.core.model.settings import GroupSettings
from tests.group_coordinator.consumer_heartbeats import beat, join_consumer
from tests.group_coordinator.offsets.stage import GroupStage, reads

NAMES = [
    " ",
    ".",
    "..",
    "a/b",
    "/",
    "\\",
    "\0",
    "a\nb",
    "\x1b[31m",
    "x" * 249,
    "x" * 250,
    "x" * 32_767,
    "Gr\u00fc\u00dfe",
    "\U0001f600",
]


class Refusing(GroupStage):
    """A stable classic group "g" of `member`, a consumer group "k" of "m", and offsets of both."""

    def __init__(self) -> None:
        super().__init__()
        self.member_id, self.generation = self.member("t")
        self.epoch_of_m = join_consumer(self, "t", name="k")
        self.commit({("t", 0): 5}, member_id=self.member_id, generation=self.generation)
        self.commit({("t", 0): 6}, name="k", member_id="m", generation=self.epoch_of_m)
        self.fill()

    def fill(self) -> None:
        """No other member is accepted."""
        self.group_settings = GroupSettings(ClassicSettings(initial_delay_ms=0, size_max=1), offset_metadata_max=20)

    def known(self) -> Any:
        shown = [self.describe("g"), self.describe_consumer("k"), self.listed(), self.fetch("g"), self.fetch("k")]
        return list(self.log), shown

    def refuses(self, error: ErrorCode, ask: Callable[[], Any]) -> None:
        before = self.known()
        assert ask() == error
        assert self.known() == before


@pytest.fixture
def stage() -> Refusing:
    return Refusing()


def test_row_43_no_group_id(stage: Refusing) -> None:
    stage.refuses(ErrorCode.INVALID_GROUP_ID, lambda: stage.join(name="").error)
    stage.refuses(ErrorCode.INVALID_GROUP_ID, lambda: stage.sync(stage.member_id, 1, name="").error)
    stage.refuses(ErrorCode.INVALID_GROUP_ID, lambda: stage.heartbeat(stage.member_id, 1, name=""))
    stage.refuses(ErrorCode.INVALID_GROUP_ID, lambda: stage.leave(stage.member_id, name="").error_code)
    stage.refuses(ErrorCode.INVALID_REQUEST, lambda: beat(stage, "m", 0, "t", name="").error)


@pytest.mark.parametrize("session_ms", [-(2**31), -1, 0, 5_999, 1_800_001, 2**31 - 1])
def test_row_43_a_session_timeout_out_of_range(stage: Refusing, session_ms: int) -> None:
    stage.refuses(ErrorCode.INVALID_SESSION_TIMEOUT, lambda: stage.join(session_ms=session_ms).error)
    stage.refuses(ErrorCode.INVALID_SESSION_TIMEOUT, lambda: stage.join(stage.member_id, session_ms=session_ms).error)


@pytest.mark.parametrize("generation", [-(2**31), -1, 0, 2, 2**31 - 1])
def test_row_45_another_generation(stage: Refusing, generation: int) -> None:
    stage.refuses(ErrorCode.ILLEGAL_GENERATION, lambda: stage.heartbeat(stage.member_id, generation))
    stage.refuses(ErrorCode.ILLEGAL_GENERATION, lambda: stage.sync(stage.member_id, generation).error)
    if generation >= 0:
        offsets = {("t", 0): 9}
        refused = lambda: stage.commit(offsets, member_id=stage.member_id, generation=generation)[("t", 0)]  # noqa: E731
        stage.refuses(ErrorCode.ILLEGAL_GENERATION, refused)


@pytest.mark.parametrize("member_id", ["", "somebody", "x" * 32_767, "\0", "m"])
def test_row_45_an_unknown_member(stage: Refusing, member_id: str) -> None:
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    stage.refuses(unknown, lambda: stage.heartbeat(member_id, 1))
    stage.refuses(unknown, lambda: stage.sync(member_id, 1).error)
    stage.refuses(unknown, lambda: stage.leave(member_id).members[0].error_code)
    stage.refuses(unknown, lambda: stage.commit({("t", 0): 9}, member_id=member_id, generation=1)[("t", 0)])


@pytest.mark.parametrize("epoch", [2, 2**31 - 1])
def test_row_45_an_epoch_that_is_not_the_members(stage: Refusing, epoch: int) -> None:
    stage.refuses(ErrorCode.FENCED_MEMBER_EPOCH, lambda: beat(stage, "m", epoch, name="k").error)
    offsets = {("t", 0): 9}
    refused = lambda: stage.commit(offsets, name="k", member_id="m", generation=epoch)[("t", 0)]  # noqa: E731
    stage.refuses(ErrorCode.STALE_MEMBER_EPOCH, refused)


def test_row_45_a_static_id_that_somebody_else_has_by_now() -> None:
    stage = GroupStage()
    former = stage.join(instance="i", protocols=reads("t")).reply
    stage.sync(former.member_id, 1, {former.member_id: b""})
    stage.join(instance="i", protocols=reads("t"))
    before = list(stage.log), stage.describe()
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert stage.join(former.member_id, instance="i", protocols=reads("t")).error == fenced
    assert stage.sync(former.member_id, 1, instance="i").error == fenced
    assert stage.heartbeat(former.member_id, 1, instance="i") == fenced
    assert stage.leave((former.member_id, "i")).members[0].error_code == fenced
    refused = stage.commit({("t", 0): 9}, member_id=former.member_id, generation=1, instance="i")
    assert refused == {("t", 0): fenced}
    assert (list(stage.log), stage.describe()) == before


def test_row_46_a_group_that_is_full(stage: Refusing) -> None:
    stage.refuses(ErrorCode.GROUP_MAX_SIZE_REACHED, lambda: stage.join(protocols=reads("t")).error)
    stage.refuses(ErrorCode.GROUP_MAX_SIZE_REACHED, lambda: stage.join(instance="i", protocols=reads("t")).error)


@pytest.mark.parametrize("how", [{"kind": "connect"}, {"kind": ""}, {"protocols": (("odd", b""),)}, {"protocols": ()}], ids=str)
def test_row_46_protocols_that_do_not_meet(stage: Refusing, how: dict[str, Any]) -> None:
    stage.refuses(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, lambda: stage.join(stage.member_id, **how).error)


@pytest.mark.parametrize("length", [21, 32_767])
def test_row_47_metadata_that_is_too_long(stage: Refusing, length: int) -> None:
    who = {"member_id": stage.member_id, "generation": stage.generation}
    refused = lambda: stage.commit({("t", 0): 9}, metadata="x" * length, **who)[("t", 0)]  # noqa: E731
    stage.refuses(ErrorCode.OFFSET_METADATA_TOO_LARGE, refused)


@pytest.mark.parametrize("name", NAMES, ids=lambda name: repr(name)[:20])
def test_a_group_id_of_an_odd_shape_is_a_name_like_others(name: str) -> None:
    """In every kind of group, and after its coordinator was replaced."""
    stage = GroupStage()
    member_id, generation = stage.member("t", name=name)
    assert stage.commit({("t", 0): 5}, name=name, member_id=member_id, generation=generation) == {("t", 0): 0}
    stage.fail_over()
    assert stage.heartbeat(member_id, generation, name=name) == 0
    assert stage.fetch(name) == {("t", 0): 5}
    assert stage.listed() == {name: ("consumer", "Stable", "classic")}
    stage.leave(member_id, name=name)
    assert stage.delete_groups(name) == {name: 0}
    assert stage.listed() == {}


@pytest.mark.parametrize("name", [name for name in NAMES if max(name) > " "], ids=lambda name: repr(name)[:20])
def test_a_consumer_group_id_of_an_odd_shape_is_a_name_like_others(name: str) -> None:
    stage = GroupStage()
    join_consumer(stage, "t", name=name)
    stage.fail_over()
    assert beat(stage, "m", 1, name=name).error == 0
    assert stage.listed() == {name: ("consumer", "Stable", "consumer")}


@pytest.mark.parametrize("name", [" ", "\0", "\t\n", ""], ids=repr)
def test_a_consumer_group_id_of_spaces_is_none(stage: Refusing, name: str) -> None:
    stage.refuses(ErrorCode.INVALID_REQUEST, lambda: beat(stage, "m", 0, "t", name=name).error)


@pytest.mark.parametrize("offset", [-1, -2, -(2**63)])
def test_a_negative_offset_is_kept_as_kafka_keeps_it(offset: int) -> None:
    stage = GroupStage()
    assert stage.commit({("t", 0): offset}) == {("t", 0): 0}
    stage.fail_over()
    assert stage.fetch_named({"t": [0]})[("t", 0)][0] == offset


def test_a_member_may_offer_ten_thousand_protocols() -> None:
    stage = GroupStage()
    protocols = tuple((f"p{number}", b"") for number in range(10_000))
    (leader, _), generation = stage.stable(2, protocols=protocols)
    assert stage.describe().protocol_data == "p0"
    assert stage.heartbeat(leader, generation) == 0
