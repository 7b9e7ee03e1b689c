"""Events of groups: each is observed once, with its reason, when it is committed, and none while a log is loaded."""

from typing import Any

import pytest

from libs.coordinator.core.observed_machine import ObservedMachine
from libs.coordinator.core.tables import Journal
from libs.wire.errors import ErrorCode
from libs.wire.messages.delete_groups import DeleteGroupsRequest
from libs.wire.messages.heartbeat import HeartbeatRequest
from services.group_coordinator.core.model import reasons
from services.group_coordinator.core.model.group_events import (
    GroupDeleted,
    GroupEvent,
    MemberFenced,
    MemberRemoved,
    OffsetsExpired,
    ProtocolChanged,
    RebalanceBegan,
    RebalanceEnded,
)
from services.group_coordinator.core.model.group_kind import CLASSIC, CONSUMER
from tests.group_coordinator.conversion.stage import Stage, offers
from tests.group_coordinator.offsets.stage import CHECK_MS, RETENTION_MS, GroupStage


class Telling(Stage):
    """With a coordinator's own wrapping of the machine."""

    def __init__(self) -> None:
        self._told: list[GroupEvent] = []
        super().__init__()

    def make(self, journal: Journal) -> Any:
        return ObservedMachine(super().make(journal), journal, lambda events, now_ms: self._told.extend(events))

    def take(self) -> list[GroupEvent]:
        answer, self._told = self._told, []
        return answer

    def stable(self, **settings: Any) -> list[str]:
        ids = self.classic_group("t")
        self.take()
        return ids


class TellingOffsets(GroupStage):
    def __init__(self) -> None:
        self.events_seen: list[GroupEvent] = []
        super().__init__()

    def make(self, journal: Journal) -> Any:
        return ObservedMachine(super().make(journal), journal, lambda events, now_ms: self.events_seen.extend(events))


@pytest.fixture
def stage() -> Telling:
    return Telling()


def test_a_rebalance_is_reported_with_its_reason_and_its_end(stage: Telling) -> None:
    first, *_ = ids = stage.classic_group("t")
    began, ended = stage.take()
    assert isinstance(began, RebalanceBegan)
    assert (began.group, began.kind, began.members, began.generation, began.again) == ("g", CLASSIC, 1, 0, False)
    assert began.reason == f"member {sorted(ids)[0]} joined"
    assert ended == RebalanceEnded("g", CLASSIC, 2, 1)
    stage.leave(first)
    assert stage.take() == [
        MemberRemoved("g", first, None, "left"),
        RebalanceBegan("g", CLASSIC, reasons.left_silently(first, 60_000), 1, 1, False, 60_000),
    ]


def test_a_silent_member_and_one_that_does_not_come_back_in_time_have_reasons_of_their_own(stage: Telling) -> None:
    silent, slow = stage.stable()
    while not (gone := stage.take()):
        stage.wait(1_000)
        stage.heartbeat(slow, 1)
    assert gone == [
        MemberRemoved("g", silent, None, "session over"),
        RebalanceBegan("g", CLASSIC, f"member {silent} was silent for 10000 ms", 1, 1, False, 60_000),
    ]
    while not (gone := stage.take()):
        stage.wait(1_000)
        stage.heartbeat(slow, 1)
    assert gone == [MemberRemoved("g", slow, None, "rebalance too slow"), RebalanceEnded("g", CLASSIC, 0, 2)]


def test_no_event_is_reported_before_it_is_committed_nor_a_reverted_one(stage: Telling) -> None:
    ids = stage.stable()
    stage.holds = True
    stage.beat("new", 0, "t")
    assert not stage.take(), "the upgrade is not in the log yet"
    stage.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert not stage.take()
    stage.settle()
    stage.beat("new", 0, "t")
    changed, began, *_ = stage.take()
    assert changed == ProtocolChanged("g", CLASSIC, CONSUMER, len(ids))
    assert isinstance(began, RebalanceBegan)
    assert (began.kind, began.reason, began.members, began.generation) == (CONSUMER, "member new joined", 3, 2)


def test_the_next_owner_does_not_tell_what_it_reads_in_the_log(stage: Telling) -> None:
    stage.stable()
    stage.beat("new", 0, "t", name="other")
    stage.take()
    stage.fail_over()
    assert not stage.take()


def test_a_group_of_the_consumer_protocol_is_reported_from_joining_to_leaving(stage: Telling) -> None:
    epoch = stage.beat("m", 0, "t").reply.member_epoch
    stage.beat("m", epoch, owned={"t": range(4)})
    assert stage.take() == [
        RebalanceBegan("g", CONSUMER, "member m joined", 1, 1, False, 60_000),
        RebalanceEnded("g", CONSUMER, 1, 1),
    ]
    stage.beat("m", epoch)
    assert not stage.take(), "a heartbeat is no news"
    stage.beat("m", epoch + 5)
    (fenced,) = stage.take()
    assert isinstance(fenced, MemberFenced)
    assert (fenced.member_id, "greater member epoch (6)" in fenced.why) == ("m", True)
    stage.beat("m", -1)
    removed, began, ended = stage.take()
    assert removed == MemberRemoved("g", "m", None, "left")
    assert isinstance(began, RebalanceBegan)
    assert ended == RebalanceEnded("g", CONSUMER, 0, 2)


def test_when_the_last_member_of_the_new_protocol_goes_the_group_is_reported_as_classic_again(stage: Telling) -> None:
    ids = stage.stable()
    stage.beat("new", 0, "t")
    stage.take()
    stage.beat("new", -1)
    removed, changed, began = stage.take()
    assert removed == MemberRemoved("g", "new", None, "left")
    assert changed == ProtocolChanged("g", CONSUMER, CLASSIC, len(ids))
    assert isinstance(began, RebalanceBegan)
    assert (began.kind, began.members, began.again) == (CLASSIC, len(ids), False)


def test_a_replaced_static_member_is_fenced_and_reported(stage: Telling) -> None:
    protocols = offers("t")
    old = stage.join(instance="one", protocols=protocols)
    stage.settle()
    old_id, generation = old.reply.member_id, old.reply.generation_id
    stage.sync(old_id, generation, {})
    stage.take()
    stage.join(instance="one", protocols=protocols)
    assert stage.take()[0] == MemberRemoved("g", old_id, "one", "replaced static")
    assert stage.ask(HeartbeatRequest("g", generation, old_id, "one"), 4).error == ErrorCode.FENCED_INSTANCE_ID
    assert stage.take() == [MemberFenced("g", old_id, "one", "another member has its instance id")]


def test_expired_offsets_and_deleted_groups_are_reported() -> None:
    stage = TellingOffsets()
    stage.commit({("t", 0): 5, ("u", 0): 5}, name="old")
    stage.drop_topic("u")
    stage.wait(2 * CHECK_MS)
    assert stage.events_seen == [OffsetsExpired("old", 0, 1, 1)]
    stage.wait(RETENTION_MS + 2 * CHECK_MS)
    assert stage.events_seen[1:] == [
        OffsetsExpired("old", 1, 0, 0),
        GroupDeleted("old", "it had no members, and its offsets expired"),
    ]
    stage.events_seen.clear()
    stage.commit({("t", 0): 5}, name="mine")
    assert stage.ask(DeleteGroupsRequest(["mine", "nobody's"]), 2).answered
    assert stage.events_seen == [GroupDeleted("mine", "DeleteGroups")]
