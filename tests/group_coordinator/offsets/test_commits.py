"""OffsetCommit: which commits are accepted, and what is stored."""

import pytest

from libs.wire.errors import ErrorCode
from libs.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from services.group_coordinator.core.model.records import OffsetCommitted
from tests.group_coordinator.offsets.stage import GroupStage, reads, topic_id


@pytest.mark.parametrize("version", range(2, 11))
def test_an_offset_is_kept_and_found_again_in_each_version(version: int) -> None:
    stage = GroupStage()
    assert stage.commit({("t", 0): 5, ("t", 3): 7, ("u", 1): 9}, version=version) == {("t", 0): 0, ("t", 3): 0, ("u", 1): 0}
    assert stage.fetch() == {("t", 0): 5, ("t", 3): 7, ("u", 1): 9}
    stage.fail_over()
    assert stage.fetch() == {("t", 0): 5, ("t", 3): 7, ("u", 1): 9}


def test_all_that_is_said_of_an_offset_is_in_the_log() -> None:
    stage = GroupStage()
    stage.commit({("t", 1): 5}, metadata="here", epoch=3)
    assert stage.written() == [OffsetCommitted("g", "t", 1, 5, 3, "here", stage.now_ms, -1, topic_id("t"))]


def test_metadata_that_is_null_is_empty() -> None:
    stage = GroupStage()
    stage.commit({("t", 1): 5}, metadata=None)
    assert stage.fetch_named({"t": [1]}) == {("t", 1): (5, -1, "", 0)}


def test_a_retention_of_its_own_is_kept_as_a_moment() -> None:
    stage = GroupStage()
    stage.commit({("t", 1): 5}, version=4, retention_ms=1000)
    (record,) = stage.written()
    assert record.expire_ms == stage.now_ms + 1000


def test_an_offset_may_be_kept_for_as_long_as_a_number_can_say() -> None:
    stage = GroupStage()
    assert stage.commit({("t", 1): 5}, version=4, retention_ms=2**63 - 1) == {("t", 1): 0}
    stage.fail_over()
    assert stage.fetch() == {("t", 1): 5}


def test_topics_and_partitions_that_are_not_there_are_refused_and_others_are_not() -> None:
    stage = GroupStage()
    offsets = {("t", 0): 1, ("nowhere", 0): 1, ("t", 4): 1, ("t", -1): 1}
    assert stage.commit(offsets) == {("t", 0): 0, ("nowhere", 0): 3, ("t", 4): 3, ("t", -1): 3}
    by_id = stage.commit(offsets, version=10)
    assert by_id == {("t", 0): 0, (topic_id("nowhere").decode(), 0): 100, ("t", 4): 3, ("t", -1): 3}
    assert stage.fetch() == {("t", 0): 1}


def test_partitions_refused_at_once_come_first_in_the_answer_to_a_commit_as_in_kafka() -> None:
    stage = GroupStage()
    pending = stage.ask_commit({("u", 0): 1, ("t", 1): 1, ("t", 9): 1, ("nowhere", 2): 1})
    answer = [(topic.name, [item.partition_index for item in topic.partitions]) for topic in pending.reply.topics]
    assert answer == [("t", [9, 1]), ("nowhere", [2]), ("u", [0])]


def test_nobody_is_asked_about_a_group_of_which_nothing_can_be_committed() -> None:
    stage = GroupStage()
    assert stage.commit({("nowhere", 0): 1}, generation=7) == {("nowhere", 0): 3}
    assert stage.ask_commit({}, generation=7).reply.topics == []


def test_metadata_is_measured_as_java_does() -> None:
    stage = GroupStage(metadata_max=10)
    for metadata, error in (("x" * 10, 0), ("x" * 11, 12), ("\U0001f600" * 5, 0), ("\U0001f600" * 6, 12), ("é" * 10, 0)):
        assert stage.commit({("t", 0): 1}, metadata=metadata) == {("t", 0): error}


def test_metadata_that_is_too_long_spares_the_other_partitions() -> None:
    stage = GroupStage()
    both = [OffsetCommitRequestPartition(0, 5, -1, "x" * 21), OffsetCommitRequestPartition(1, 6, -1, "x")]
    reply = stage.ask(OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic(name="t", partitions=both)]), 9).reply
    assert [item.error_code for item in reply.topics[0].partitions] == [12, 0]
    assert stage.fetch() == {("t", 1): 6}


def test_a_commit_to_a_group_that_is_not_there_begins_a_simple_group_unless_it_claims_a_generation() -> None:
    stage = GroupStage()
    assert stage.commit({("t", 0): 1}, generation=3) == {("t", 0): 69}
    assert stage.commit({("t", 0): 1}, generation=3, version=8) == {("t", 0): 22}
    assert stage.listed() == {}
    assert stage.commit({("t", 0): 1}) == {("t", 0): 0}
    assert stage.listed() == {"g": ("", "Empty", "classic")}
    assert stage.commit({("t", 0): 1}, generation=3) == {("t", 0): 25}, "as of any group that it is no member of"
    assert stage.commit({("t", 0): 2}, member_id="whoever") == {("t", 0): 0}


def test_the_empty_group_id_is_a_name_like_others() -> None:
    stage = GroupStage()
    assert stage.commit({("t", 0): 1}, name="") == {("t", 0): 0}
    assert stage.fetch("") == {("t", 0): 1}


def test_members_alone_commit_while_there_are_members() -> None:
    stage = GroupStage()
    member_id, generation = stage.member("t")
    commit = {("t", 0): 1}
    assert stage.commit(commit) == {("t", 0): 25}
    assert stage.commit(commit, member_id="stranger", generation=generation) == {("t", 0): 25}
    assert stage.commit(commit, member_id=member_id, generation=generation - 1) == {("t", 0): 22}
    assert stage.commit(commit, member_id=member_id, generation=generation, instance="i") == {("t", 0): 25}
    assert stage.fetch() == {}
    assert stage.commit(commit, member_id=member_id, generation=generation) == {("t", 0): 0}
    stage.leave(member_id)
    assert stage.commit({("t", 0): 2}) == {("t", 0): 0}
    assert stage.fetch() == {("t", 0): 2}


def test_a_commit_of_a_static_member_that_was_replaced_is_fenced() -> None:
    stage = GroupStage()
    first = stage.join(instance="i", protocols=reads("t"))
    old = first.reply.member_id
    stage.sync(old, 1, {old: b""}, instance="i")
    second = stage.join(instance="i", protocols=reads("t"))
    assert second.reply.member_id != old
    assert stage.commit({("t", 0): 1}, member_id=old, generation=1, instance="i") == {("t", 0): 82}


def test_a_commit_between_a_generation_and_its_assignment_gets_rebalance_in_progress() -> None:
    stage = GroupStage()
    member_id, joined = stage.come(protocols=reads("t"))
    assert stage.state() == "CompletingRebalance"
    generation = joined.reply.generation_id
    assert stage.commit({("t", 0): 1}, member_id=member_id, generation=generation) == {("t", 0): 27}
    assert stage.fetch() == {}


def test_a_commit_while_others_join_is_kept() -> None:
    stage = GroupStage()
    member_id, generation = stage.member("t")
    stage.come(protocols=reads("t"))
    assert stage.state() == "PreparingRebalance"
    assert stage.commit({("t", 0): 4}, member_id=member_id, generation=generation) == {("t", 0): 0}


def test_a_member_that_commits_is_alive() -> None:
    stage = GroupStage()
    member_id, generation = stage.member("t")
    for offset in range(10):
        stage.wait(7_000)
        assert stage.commit({("t", 0): offset}, member_id=member_id, generation=generation) == {("t", 0): 0}
    stage.wait(11_000)
    assert stage.state() == "Empty"


@pytest.mark.parametrize("offset", [-1, -2, -(2**63), 2**63 - 1])
def test_offsets_are_kept_as_they_come(offset: int) -> None:
    stage = GroupStage()
    assert stage.commit({("t", 0): offset}) == {("t", 0): 0}
    stage.fail_over()
    assert stage.fetch_named({"t": [0]}) == {("t", 0): (offset, -1, "", 0)}


def test_the_last_of_two_offsets_in_one_request_counts() -> None:
    stage = GroupStage()
    twice = [OffsetCommitRequestPartition(0, 5), OffsetCommitRequestPartition(0, 6)]
    stage.ask(OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic(name="t", partitions=twice)]), 9)
    assert stage.fetch() == {("t", 0): 6}
    stage.fail_over()
    assert stage.fetch() == {("t", 0): 6}


def test_a_commit_is_answered_when_it_is_in_the_log_and_forgotten_when_it_is_not() -> None:
    stage = GroupStage()
    stage.commit({("t", 0): 5})
    stage.holds = True
    waits = stage.ask_commit({("t", 0): 6})
    assert waits.waits
    stage.refuse(19)
    assert waits.failure == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.fetch() == {("t", 0): 5}


def test_a_setting_that_changes_counts_at_once() -> None:
    stage = GroupStage(metadata_max=10)
    assert stage.commit({("t", 0): 1}, metadata="x" * 20) == {("t", 0): 12}
    stage.group_settings = GroupStage(metadata_max=20).group_settings
    assert stage.commit({("t", 0): 1}, metadata="x" * 20) == {("t", 0): 0}
