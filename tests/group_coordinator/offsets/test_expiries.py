"""The expiry of offsets, by the state of their group."""

from dataclasses import replace

from services.group_coordinator.core.model.records import ClassicGroupRemoved, OffsetRemoved
from services.group_coordinator.core.model.topics_view import TopicView
from tests.group_coordinator.offsets.stage import CHECK_MS, HOUR_MS, RETENTION_MS, GroupStage, topic_id


def test_offsets_of_a_simple_group_get_old_from_their_commit_on() -> None:
    stage = GroupStage()
    stage.commit({("t", 0): 1})
    stage.wait(12 * HOUR_MS)
    stage.commit({("t", 1): 1})
    stage.wait(12 * HOUR_MS - CHECK_MS)
    assert stage.fetch() == {("t", 0): 1, ("t", 1): 1}
    stage.wait(2 * CHECK_MS)
    assert stage.fetch() == {("t", 1): 1}
    stage.wait(12 * HOUR_MS)
    assert stage.fetch() == {}
    assert stage.listed() == {}
    assert stage.written()[-1] == OffsetRemoved("g", "t", 1)


def test_offsets_of_an_empty_group_get_old_from_when_it_became_empty() -> None:
    """KAFKA-8069, KAFKA-4682: also for an owner that loads it afterwards."""
    stage = GroupStage()
    member_id, generation = stage.member("t")
    stage.commit({("t", 0): 1}, member_id=member_id, generation=generation)
    stage.wait_alive(HOUR_MS, (member_id, generation))
    stage.leave(member_id)
    stage.wait(RETENTION_MS - CHECK_MS)
    assert stage.fetch() == {("t", 0): 1}
    stage.fail_over()
    assert stage.fetch() == {("t", 0): 1}
    stage.wait(2 * CHECK_MS)
    assert stage.fetch() == {}
    assert stage.listed() == {}
    assert stage.written()[-1] == ClassicGroupRemoved("g")


def test_offsets_committed_to_an_empty_group_go_with_it_as_in_kafka() -> None:
    stage = GroupStage()
    member_id, generation = stage.member("t")
    stage.commit({("t", 0): 1}, member_id=member_id, generation=generation)
    stage.leave(member_id)
    stage.wait(RETENTION_MS - CHECK_MS)
    stage.commit({("t", 1): 1})
    stage.wait(2 * CHECK_MS)
    assert stage.listed() == {}


def test_a_stable_group_keeps_the_offsets_of_topics_that_it_reads() -> None:
    """KAFKA-4682: however long ago they were committed."""
    stage = GroupStage(retention_ms=HOUR_MS)
    member_id, generation = stage.member("t")
    stage.commit({("t", 0): 1, ("u", 0): 2}, member_id=member_id, generation=generation)
    stage.wait_alive(HOUR_MS + CHECK_MS, (member_id, generation))
    assert stage.fetch() == {("t", 0): 1}


def test_a_group_that_is_no_consumer_keeps_all_while_somebody_is_in_it() -> None:
    stage = GroupStage(retention_ms=HOUR_MS)
    member_id, generation = stage.member("t", kind="connect")
    stage.commit({("t", 0): 1}, member_id=member_id, generation=generation)
    stage.wait_alive(HOUR_MS + CHECK_MS, (member_id, generation))
    assert stage.fetch() == {("t", 0): 1}


def test_nothing_expires_while_members_join() -> None:
    stage = GroupStage(retention_ms=CHECK_MS)
    member_id, generation = stage.member("t")
    stage.commit({("u", 0): 1}, member_id=member_id, generation=generation)
    now_ms, stage.stopped = stage.now_ms, True
    stage.come(protocols=(("range", b""),))
    assert stage.state() == "PreparingRebalance"
    stage.now_ms = now_ms + 2 * CHECK_MS
    decision = stage.machine.offsets.expired(("offsets", "slice", ("g",)), stage.now_ms)
    assert not decision.records


def test_offsets_of_a_topic_that_was_deleted_are_removed_whatever_its_group_does() -> None:
    stage = GroupStage()
    member_id, generation = stage.member("t", "u")
    stage.commit({("t", 0): 1, ("u", 0): 2, ("u", 1): 3}, member_id=member_id, generation=generation)
    stage.put_topics(TopicView(topic_id("u", 1), "u", 4))
    stage.commit({("u", 1): 4}, member_id=member_id, generation=generation)
    stage.wait_alive(2 * CHECK_MS, (member_id, generation))
    assert stage.fetch() == {("t", 0): 1, ("u", 1): 4}
    assert stage.written()[-1] == OffsetRemoved("g", "u", 0)
    assert stage.state() == "Stable"


def test_offsets_of_a_topic_that_a_restored_store_lacks_stay_for_as_long_as_others() -> None:
    """A rebuild from the disks brings the topic back. Its group would begin anew."""
    stage = GroupStage()
    stage.commit({("t", 0): 1, ("u", 0): 2})
    u = stage.topics.by_name["u"]
    stage.drop_topic("u")
    stage.topics = replace(stage.topics, restored_ms=stage.now_ms)
    stage.wait(2 * CHECK_MS)
    stage.put_topics(u)
    assert stage.fetch() == {("t", 0): 1, ("u", 0): 2}


def test_a_moment_that_the_commit_named_counts_more_than_the_retention() -> None:
    stage = GroupStage()
    stage.commit({("t", 0): 1}, version=2, retention_ms=30 * 24 * HOUR_MS)
    stage.commit({("t", 1): 1}, version=2, retention_ms=HOUR_MS)
    stage.fail_over()
    stage.wait(2 * HOUR_MS)
    assert stage.fetch() == {("t", 0): 1}
    stage.wait(10 * 24 * HOUR_MS)
    assert stage.fetch() == {("t", 0): 1}
    stage.wait(20 * 24 * HOUR_MS)
    assert stage.fetch() == {}


def test_an_empty_group_without_offsets_is_removed_at_the_next_look() -> None:
    stage = GroupStage()
    member_id, _ = stage.member("t")
    stage.leave(member_id)
    assert stage.listed() == {"g": ("consumer", "Empty", "classic")}
    stage.wait(CHECK_MS)
    assert stage.listed() == {}
    stage.fail_over()
    assert stage.listed() == {}


def test_a_group_that_somebody_is_about_to_join_stays() -> None:
    stage = GroupStage(retention_ms=1)
    stage.commit({("t", 0): 1})
    stage.now_ms += 1000
    stage.join()
    decision = stage.machine.offsets.expired(("offsets", "slice", ("g",)), stage.now_ms)
    assert not decision.records


def test_a_setting_that_changes_counts_at_the_next_look() -> None:
    stage = GroupStage()
    stage.commit({("t", 0): 1})
    stage.wait(HOUR_MS)
    stage.group_settings = GroupStage(retention_ms=HOUR_MS).group_settings
    stage.wait(CHECK_MS)
    assert stage.fetch() == {}


def test_many_offsets_expire_in_batches_that_the_log_takes() -> None:
    stage = GroupStage(retention_ms=HOUR_MS)
    stage.put_topics(TopicView(topic_id("big"), "big", 30_000))
    for first in range(0, 30_000, 5_000):
        stage.commit({("big", item): item for item in range(first, first + 5_000)})
    for number in range(500):
        stage.commit({("t", 0): number}, name=f"g{number}")
    stage.wait(HOUR_MS + CHECK_MS)
    assert stage.listed() == {}
    tombstones = [record for record in stage.written() if isinstance(record, OffsetRemoved)]
    assert len(tombstones) == len(set(tombstones)) == 30_500


def test_a_look_at_many_groups_is_not_taken_in_one_go() -> None:
    stage = GroupStage()
    for number in range(1_000):
        stage.commit({("t", 0): 1}, name=f"g{number}")
    stage.stopped = True
    turns: list[int] = []
    stage.now_ms += CHECK_MS
    while (due_ms := stage.shard.next_deadline()) is not None and due_ms < stage.now_ms + CHECK_MS / 2:
        stage.now_ms, count = max(stage.now_ms, due_ms), 0
        while stage.shard.expire(stage.now_ms):
            count += 1
        turns.append(count)
    assert sum(turns) == 11, "who looks when, and ten portions"
    assert max(turns) == 2


def test_an_expiry_that_the_log_refused_is_made_again() -> None:
    stage = GroupStage()
    stage.commit({("t", 0): 1})
    stage.now_ms += RETENTION_MS + CHECK_MS
    stage.holds = True
    stage.settle()
    assert stage.under_way is not None
    stage.refuse(19)
    assert stage.fetch() == {("t", 0): 1}
    stage.wait(1000)
    assert stage.fetch() == {}
