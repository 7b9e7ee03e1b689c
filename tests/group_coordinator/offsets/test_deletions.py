"""OffsetDelete and DeleteGroups: what is deleted, and what is refused because it is in use."""

from libs.wire.messages.delete_groups import DeleteGroupsRequest
from libs.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from services.group_coordinator.core.administration import group_deletions
from services.group_coordinator.core.model.records import ClassicGroupRemoved, OffsetRemoved
from services.group_coordinator.core.model.topics_view import TopicView
from tests.group_coordinator.offsets.stage import GroupStage, topic_id


def test_offsets_of_topics_that_a_member_reads_are_kept() -> None:
    stage = GroupStage()
    member_id, generation = stage.member("t")
    stage.commit({("t", 0): 1, ("u", 0): 2}, member_id=member_id, generation=generation)
    assert stage.delete_offsets({"t": [0], "u": [0, 1], "nowhere": [0]}) == {
        ("t", 0): 86, ("u", 0): 0, ("u", 1): 0, ("nowhere", 0): 3,
    }  # fmt: skip
    assert stage.fetch() == {("t", 0): 1}
    stage.fail_over()
    assert stage.fetch() == {("t", 0): 1}
    stage.leave(member_id)
    assert stage.delete_offsets({"t": [0]}) == {("t", 0): 0}
    assert stage.fetch() == {}


def test_while_nobody_knows_what_members_read_all_offsets_are_kept() -> None:
    stage = GroupStage()
    stage.commit({("t", 0): 1})
    stage.come(protocols=(("range", b"no subscription"),))
    assert stage.delete_offsets({"t": [0]}) == {("t", 0): 86}
    assert stage.fetch() == {("t", 0): 1}


def test_offsets_of_a_group_that_is_no_consumer_are_kept_while_somebody_is_in_it() -> None:
    stage = GroupStage()
    member_id, generation = stage.member("t", kind="connect")
    stage.commit({("t", 0): 1}, member_id=member_id, generation=generation)
    assert stage.delete_offsets({"t": [0]}) == 68
    stage.leave(member_id)
    assert stage.delete_offsets({"t": [0]}) == {("t", 0): 0}


def test_offsets_of_a_group_that_is_not_there_cannot_be_deleted() -> None:
    stage = GroupStage()
    assert stage.delete_offsets({"t": [0]}) == 69
    assert stage.delete_offsets({}) == 69
    assert stage.delete_offsets({"t": [0]}, name="") == 24


def test_partitions_refused_at_once_come_first_in_the_answer_to_a_deletion_as_in_kafka() -> None:
    stage = GroupStage()
    stage.commit({("t", 0): 1})
    topics = [
        OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(item) for item in which])
        for name, which in (("u", [0]), ("t", [0, 9]), ("nowhere", [0]))
    ]
    reply = stage.ask(OffsetDeleteRequest("g", topics), 0).reply
    answer = [(topic.name, [(item.partition_index, item.error_code) for item in topic.partitions]) for topic in reply.topics]
    assert answer == [("t", [(9, 3), (0, 0)]), ("nowhere", [(0, 3)]), ("u", [(0, 0)])]


def test_a_missing_offset_leaves_no_tombstone() -> None:
    stage = GroupStage()
    stage.commit({("t", 0): 1})
    stage.delete_offsets({"t": [1]})
    stage.delete_offsets({"t": [0, 0]})
    assert stage.written()[1:] == [OffsetRemoved("g", "t", 0)]


def test_groups_that_nobody_is_in_are_deleted_with_their_offsets() -> None:
    stage = GroupStage()
    member_id, generation = stage.member("t", name="empty")
    stage.commit({("t", 0): 1}, name="empty", member_id=member_id, generation=generation)
    stage.leave(member_id, name="empty")
    stage.member("t", name="full")
    stage.commit({("t", 0): 1, ("u", 0): 2}, name="simple")
    stage.log.clear()
    assert stage.delete_groups("empty", "full", "simple", "nowhere", "empty") == {
        "empty": 0, "full": 68, "simple": 0, "nowhere": 69,
    }  # fmt: skip
    assert stage.listed() == {"full": ("consumer", "Stable", "classic")}
    assert set(stage.written()) == {
        OffsetRemoved("empty", "t", 0),
        ClassicGroupRemoved("empty"),
        OffsetRemoved("simple", "t", 0),
        OffsetRemoved("simple", "u", 0),
    }
    assert stage.fetch("empty") == stage.fetch("simple") == {}


def _big(groups: int = 3, partitions: int = 10_000) -> GroupStage:
    stage = GroupStage()
    stage.put_topics(TopicView(topic_id("big"), "big", partitions))
    for number in range(groups):
        for first in range(0, partitions, 5_000):
            stage.commit({("big", item): item for item in range(first, first + 5_000)}, name=f"g{number}")
    return stage


def test_a_group_with_more_offsets_than_a_batch_holds_is_deleted_all_the_same() -> None:
    stage = _big()
    before = len(stage.log)
    assert stage.delete_groups("g0", "nowhere", "g1") == {"g0": 0, "nowhere": 69, "g1": 0}
    assert stage.listed() == {"g2": ("", "Empty", "classic")}
    assert len(stage.log) == before + 20_000
    assert not list(stage.machine.deletions.timers(0))


def test_a_group_with_more_pending_offsets_than_a_batch_holds_is_deleted_all_the_same() -> None:
    stage = _big(1)
    stage.put_topics(TopicView(topic_id("pending"), "pending", 30_000))
    for first in range(0, 30_000, 5_000):
        stage.commit_in_transaction({("pending", item): item for item in range(first, first + 5_000)}, name="g0")
    pending = stage.ask(DeleteGroupsRequest(["g0"]), 2)
    stage.wait(2_000)
    assert pending.answered, "its last decision is larger than a batch, and is dropped each half second"
    assert stage.listed() == {}


def test_a_member_that_joins_a_group_under_deletion_stays_in_it() -> None:
    stage = _big(1)
    stage.stopped = True
    pending = stage.ask(DeleteGroupsRequest(["g0"]), 2)
    assert pending.waits
    stage.join(name="g0", version=3)
    stage.stopped = False
    stage.settle()
    assert [(result.group_id, result.error_code) for result in pending.reply.results] == [("g0", 68)]
    assert "g0" in stage.groups


def test_a_deletion_goes_on_when_the_log_refused_a_part_of_it() -> None:
    stage = _big(1)
    stage.stopped = True
    pending = stage.ask(DeleteGroupsRequest(["g0"]), 2)
    stage.stopped, stage.holds = False, True
    stage.settle()
    stage.refuse(19)
    assert pending.waits
    stage.wait(1_000)
    assert [(result.group_id, result.error_code) for result in pending.reply.results] == [("g0", 0)]
    assert stage.listed() == {}


def test_a_deletion_goes_on_after_the_shard_was_claimed_again() -> None:
    stage = _big(1)
    stage.stopped = True
    pending = stage.ask(DeleteGroupsRequest(["g0"]), 2)
    stage.stopped, stage.holds = False, True
    stage.settle()
    stage.holds = False
    stage.lose_sight(stored=True)
    stage.wait(1_000)
    assert [(result.group_id, result.error_code) for result in pending.reply.results] == [("g0", 0)]
    assert stage.listed() == {}
    assert group_deletions.PART not in {key[0] for key, _ in stage.machine.timers(0) if isinstance(key, tuple)}
