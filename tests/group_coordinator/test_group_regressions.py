"""Bugs of other systems' group coordinators, one test each: here, or where the table says."""

import re
from pathlib import Path

import pytest

from libs.wire.errors import ErrorCode
from tests.group_coordinator.consumer_heartbeats import beat, join_consumer
from tests.group_coordinator.offsets.stage import HOUR_MS, RETENTION_MS, GroupStage

ELSEWHERE = {
    "KAFKA-9752": (
        "group_coordinator/classic/test_joins.py"
        "::test_a_new_member_waits_no_longer_than_five_minutes_and_the_rebalance_goes_on_without_it"
    ),
    "KAFKA-10284": "group_coordinator/classic/test_static_members.py::test_a_static_members_return_is_in_the_log",
    "KAFKA-20634": "coordinator/test_driver.py::test_an_owner_that_was_replaced_closes_at_its_next_append",
    "KAFKA-20115": ("coordinator/test_driver.py::test_a_shard_that_is_given_up_answers_what_is_under_way_and_refuses_the_rest"),
}


@pytest.mark.parametrize("scenario", ELSEWHERE)
def test_every_scenario_has_its_test(scenario: str, root: Path) -> None:
    file, name = ELSEWHERE[scenario].split("::")
    assert re.search(rf"^(async )?def {name}\(", (root / "tests" / file).read_text(encoding="utf-8"), re.MULTILINE), ELSEWHERE[
        scenario
    ]


def test_kafka_5600_a_load_leaves_nothing_that_later_records_took_back() -> None:
    stage = GroupStage()
    stage.commit({("t", 0): 1, ("t", 1): 1})
    stage.commit({("t", 0): 2})
    stage.delete_offsets({"t": [1]})
    stage.commit({("t", 0): 1}, name="gone")
    assert stage.delete_groups("gone") == {"gone": 0}
    member_id, _ = stage.member("t", name="left")
    stage.leave(member_id, name="left")
    assert stage.delete_groups("left") == {"left": 0}
    join_consumer(stage, "t", name="k")
    assert beat(stage, "m", -1, name="k").error == 0
    before = stage.listed()
    stage.fail_over()
    assert stage.listed() == before
    assert set(before) == {"g", "k"}
    assert stage.fetch() == {("t", 0): 2}
    assert stage.describe_consumer("k").members == []


def test_kafka_8069_offsets_expire_no_earlier_after_a_load() -> None:
    stage = GroupStage()
    stage.commit({("t", 0): 5})
    for _ in range(3):
        stage.wait(RETENTION_MS // 4)
        stage.fail_over()
    stage.wait(RETENTION_MS // 4 - HOUR_MS)
    assert stage.fetch() == {("t", 0): 5}
    stage.wait(2 * HOUR_MS)
    assert stage.fetch() == {}


def test_kafka_4682_offsets_of_an_active_group_do_not_expire() -> None:
    stage = GroupStage()
    member_id, generation = stage.member("t")
    stage.commit({("t", 0): 5}, member_id=member_id, generation=generation)
    stage.fail_over()
    for _ in range(4):
        stage.now_ms += RETENTION_MS  # its heartbeats came
        stage.stopped = True
        assert stage.heartbeat(member_id, generation) == 0
        stage.stopped = False
        stage.settle()
    assert stage.describe().group_state == "Stable"
    assert stage.fetch() == {("t", 0): 5}


def test_kafka_8386_a_group_that_was_removed_sends_its_members_to_join_anew() -> None:
    """Members are answered UNKNOWN_MEMBER_ID, from which all clients recover."""
    stage = GroupStage()
    member_id, generation = stage.member("t")
    stage.leave(member_id)
    assert stage.delete_groups("g") == {"g": 0}
    assert stage.heartbeat(member_id, generation) == 25
    assert stage.join(member_id).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.sync(member_id, generation).error == ErrorCode.UNKNOWN_MEMBER_ID
    _, generation = stage.member("t")
    assert generation == 1
