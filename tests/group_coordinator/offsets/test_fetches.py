"""OffsetFetch: what was committed, and nothing that was not."""

import pytest

from libs.coordinator.core.decisions import KeyValue
from libs.wire.errors import ErrorCode
from libs.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from services.group_coordinator.core.model.records import OffsetCommitted
from services.group_coordinator.core.model.topics_view import TopicView
from tests.group_coordinator.offsets.stage import GroupStage, topic_id


@pytest.mark.parametrize("version", range(1, 10))
def test_a_partition_without_a_commit_is_no_error(version: int) -> None:
    stage = GroupStage()
    assert stage.fetch_named({"t": [0, 99], "nowhere": [1]}, version=version) == {
        ("t", 0): (-1, -1, "", 0),
        ("t", 99): (-1, -1, "", 0),
        ("nowhere", 1): (-1, -1, "", 0),
    }
    stage.commit({("t", 0): 5}, metadata="m", epoch=2)
    assert stage.fetch_named({"t": [0, 1]}, version=version) == {("t", 0): (5, 2, "m", 0), ("t", 1): (-1, -1, "", 0)}


def test_null_topics_are_all_topics_and_no_topics_are_none() -> None:
    stage = GroupStage()
    stage.commit({("t", 0): 5, ("u", 1): -1})
    for version in range(2, 10):
        assert stage.fetch(version=version) == {("t", 0): 5, ("u", 1): -1}
        assert stage.fetch_named({}, version=version) == {}


def test_several_groups_are_answered_in_one_reply() -> None:
    stage = GroupStage()
    stage.commit({("t", 0): 5}, name="a")
    groups = [OffsetFetchRequestGroup(name, topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]) for name in "ab"]
    reply = stage.ask(OffsetFetchRequest(groups), 8).reply
    answer = {
        group.group_id: [item.committed_offset for topic in group.topics for item in topic.partitions] for group in reply.groups
    }
    assert answer == {"a": [5], "b": [-1]}


def test_topics_are_named_by_id_from_version_10_on_and_unknown_ids_come_last() -> None:
    stage = GroupStage()
    stage.commit({("t", 0): 5})
    request = [OffsetFetchRequestTopics(topic_id(name), partition_indexes=[0]) for name in ("nowhere", "t")]
    (group,) = stage.ask(OffsetFetchRequest([OffsetFetchRequestGroup("g", topics=request)]), 10).reply.groups
    answer = [(topic.topic_id, item.committed_offset, item.error_code) for topic in group.topics for item in topic.partitions]
    assert answer == [(topic_id("t"), 5, 0), (topic_id("nowhere"), -1, 100)]


def test_all_topics_by_id_are_those_that_have_one() -> None:
    stage = GroupStage()
    stage.commit({("t", 0): 5})
    stage.log.append(_unnamed(stage, "nowhere"))
    stage.fail_over()
    (group,) = stage.ask(OffsetFetchRequest([OffsetFetchRequestGroup("g", topics=None)]), 10).reply.groups
    assert [topic.topic_id for topic in group.topics] == [topic_id("t")]
    assert stage.fetch() == {("t", 0): 5, ("nowhere", 0): 5}, "by name they are found"


def test_offsets_of_a_topic_that_was_deleted_are_not_there() -> None:
    stage = GroupStage()
    stage.commit({("t", 0): 5, ("u", 0): 6})
    stage.drop_topic("u")
    for version in (9, 10):
        (group,) = stage.ask(OffsetFetchRequest([OffsetFetchRequestGroup("g", topics=None)]), version).reply.groups
        assert [topic.topic_id for topic in group.topics] == [topic_id("t")]
    assert stage.fetch_named({"u": [0]}) == {("u", 0): (-1, -1, "", 0)}


def test_offsets_of_a_topic_that_was_made_anew_are_not_those_of_its_namesake() -> None:
    stage = GroupStage()
    stage.commit({("t", 0): 5, ("u", 0): 6})
    stage.put_topics(TopicView(topic_id("t", 1), "t", 4))
    assert stage.fetch() == {("u", 0): 6}
    assert stage.fetch_named({"t": [0]}) == {("t", 0): (-1, -1, "", 0)}
    stage.commit({("t", 0): 1})
    assert stage.fetch() == {("t", 0): 1, ("u", 0): 6}


def _unnamed(stage: GroupStage, topic: str) -> KeyValue:
    """Kafka keeps a topic's id only of commits that named it."""
    kept = stage.machine.encode(OffsetCommitted("g", topic, 0, 5, commit_ms=stage.now_ms))
    assert kept is not None
    return kept


def test_offsets_that_do_not_say_of_which_topic_count_for_each_of_that_name() -> None:
    stage = GroupStage()
    stage.log.append(_unnamed(stage, "t"))
    stage.fail_over()
    assert stage.fetch_named({"t": [0]}) == {("t", 0): (5, -1, "", 0)}
    assert stage.fetch() == {("t", 0): 5}


def test_a_fetch_asks_whether_this_is_still_the_owner() -> None:
    stage = GroupStage()
    stage.commit({("t", 0): 5})
    stage.holds = True
    pending = stage.ask(OffsetFetchRequest([OffsetFetchRequestGroup("g", topics=None)]), 9)
    assert pending.waits
    stage.refuse(16)
    assert pending.failure == ErrorCode.NOT_COORDINATOR


def test_stable_offsets_are_those_that_there_are() -> None:
    stage = GroupStage()
    stage.commit({("t", 0): 5})
    assert stage.fetch(stable=True) == {("t", 0): 5}
    assert stage.fetch(stable=True, version=7) == {("t", 0): 5}


def test_anybody_may_read_what_a_classic_group_committed() -> None:
    stage = GroupStage()
    stage.member("t")
    group = OffsetFetchRequestGroup("g", "stranger", 3, None)
    (answer,) = stage.ask(OffsetFetchRequest([group]), 9).reply.groups
    assert answer.error_code == 0
