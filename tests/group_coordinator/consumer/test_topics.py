"""Topics come, grow and go; regular expressions find them."""

from dataclasses import replace

from libs.wire.errors import ErrorCode
from services.group_coordinator.core.model.records import (
    ConsumerGroupChanged,
    ConsumerMemberChanged,
    ConsumerTopicsRemoved,
    ConsumerTopicsSeen,
    CurrentAssignmentChanged,
    RegularExpressionRemoved,
    RegularExpressionResolved,
    TargetAssignmentChanged,
    TargetEpochChanged,
)
from services.group_coordinator.core.model.topics_view import TopicsView, TopicView
from tests.group_coordinator.consumer.stage import Stage
from tests.group_coordinator.named_topics import topic_id


def test_a_topic_that_gains_partitions_is_assigned_anew() -> None:
    stage = Stage(t=1)
    stage.join("a", "t")
    stage.set_topics(t=2)
    more = stage.beat("a", 1)
    assert (more.epoch, more.assigned) == (2, {"t": [0, 1]})
    assert stage.group().facts.reason == "topic t gained partitions: 1, now 2"


def test_topics_that_nobody_reads_are_nobodys_business() -> None:
    stage = Stage(t=1)
    stage.join("a", "t")
    before = len(stage.log)
    stage.set_topics(t=1, other=5)
    assert stage.beat("a", 1).assigned is None
    assert len(stage.log) == before
    assert stage.group().facts.topics_version == stage.topics.version


def test_a_member_that_waits_for_a_topic_gets_it_when_it_is_created() -> None:
    stage = Stage(u=1)
    assert stage.join("a", "t").assigned == {}
    stage.set_topics(u=1, t=2)
    assert stage.beat("a", 1).assigned == {"t": [0, 1]}
    assert stage.group().facts.reason == "topic t is there"


def test_a_deleted_topic_is_given_up() -> None:
    stage = Stage(t=2, u=1)
    stage.join("a", "t", "u")
    stage.set_topics(u=1)
    answer = stage.beat("a", 1, {"t": [0, 1], "u": [0]})
    assert (answer.epoch, answer.assigned) == (1, {"u": [0]})
    assert stage.beat("a", 1, {"u": [0]}).epoch == 2
    assert stage.group().facts.reason == "topic t is gone"


def test_a_topic_created_anew_is_another_one() -> None:
    stage = Stage(t=1)
    stage.join("a", "t")
    stage.topics = TopicsView.of(stage.topics.version + 1, [TopicView(topic_id("new"), "t", 1)])
    stage.beat("a", 1, {"t": [0]})
    assert stage.beat("a", 1, {}).assigned == {"new": [0]}
    assert stage.group().facts.reason == "topic t was created anew"


def test_reasons_name_three_topics() -> None:
    stage = Stage(q=1)
    stage.join("a", "t", "u", "v", "w", "x")
    stage.set_topics(t=1, u=1, v=1, w=1, x=1)
    stage.beat("a", 1)
    assert stage.group().facts.reason == "topic t is there, topic u is there, topic v is there and 2 more"


def test_a_new_owner_looks_at_topics_and_changes_nothing_if_they_are_as_before() -> None:
    stage = Stage(t=1)
    stage.join("a", "t")
    stage.fail_over()
    before = len(stage.log)
    assert stage.beat("a", 1).assigned is None
    assert len(stage.log) == before


def test_racks_that_replicas_move_to_count() -> None:
    stage = Stage(t=1)
    stage.join("a", "t")
    moved = TopicView(topic_id("t"), "t", 1, (frozenset({"r1"}),))
    stage.topics = TopicsView.of(stage.topics.version + 1, [moved])
    stage.beat("a", 1)
    assert stage.group().facts.reason == "replicas of topic t moved"


def test_a_regular_expression_is_resolved_at_once() -> None:
    """Kafka resolves it beside, and the member gets its partitions one heartbeat later."""
    stage = Stage(t1=1, t2=1, u=1)
    joined = stage.join("a", regex="t.*")
    assert joined.assigned == {"t1": [0], "t2": [0]}
    records = stage.written()
    assert [type(record) for record in records] == [
        ConsumerMemberChanged,
        RegularExpressionResolved,
        ConsumerGroupChanged,
        TargetAssignmentChanged,
        TargetEpochChanged,
        CurrentAssignmentChanged,
    ]
    assert records[1] == RegularExpressionResolved("g", "t.*", ("t1", "t2"), stage.topics.version, stage.now_ms)


def test_an_expression_that_makes_no_sense_is_refused_and_nothing_is_done() -> None:
    stage = Stage()
    refused = stage.join("a", regex="t(")
    assert refused.error == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert refused.reply.error_message.startswith("SubscribedTopicRegex `t(` is not a valid regular expression: ")
    assert not stage.log
    stage.join("a", "t")
    before = len(stage.log)
    assert stage.beat("a", 1, regex="[").error == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert len(stage.log) == before
    assert stage.group().members["a"].regex == ""


def test_names_and_an_expression_count_together() -> None:
    stage = Stage(t1=1, u=1)
    assert stage.join("a", "u", regex="t.*").assigned == {"t1": [0], "u": [0]}
    assert stage.consumer.subscription("g") == {"t1", "u"}


def test_new_topics_are_found_but_not_at_every_heartbeat() -> None:
    stage = Stage(t1=1)
    stage.join("a", regex="t.*")
    stage.wait(10_000)
    stage.set_topics(t1=1, t2=1)
    assert stage.beat("a", 1).assigned == {"t1": [0], "t2": [0]}
    stage.set_topics(t1=1, t2=1, t3=1)
    assert stage.beat("a", 2).assigned is None
    stage.wait(10_000)
    assert stage.beat("a", 2).assigned == {"t1": [0], "t2": [0], "t3": [0]}


def test_expressions_are_looked_at_anew_after_a_while_though_no_topic_is_new() -> None:
    stage = Stage(t1=1)
    stage.settings = replace(stage.settings, regex_refresh_ms=40_000)
    stage.join("a", regex="t.*")
    looked_ms = stage.group().facts.regexes_ms
    stage.wait(39_999)
    stage.beat("a", 1)
    assert stage.group().facts.regexes_ms == looked_ms
    stage.wait(1)
    before = len(stage.log)
    stage.beat("a", 1)
    assert stage.group().facts.regexes_ms == looked_ms + 40_000
    assert len(stage.log) == before


def test_topics_that_match_no_more_or_never_did_write_nothing() -> None:
    stage = Stage(t1=1)
    stage.join("a", regex="t.*")
    stage.beat("a", 1)
    before = len(stage.log)
    stage.set_topics(t1=1, other=1)
    stage.wait(20_000)
    stage.beat("a", 1)
    assert len(stage.log) == before


def test_an_expression_goes_with_its_last_subscriber() -> None:
    stage = Stage(t1=1)
    stage.join("a", regex="t.*")
    stage.join("b", regex="t.*")
    stage.leave("a")
    assert "t.*" in stage.group().regexes
    before = len(stage.log)
    stage.beat("b", 2, regex="x.*")
    assert RegularExpressionRemoved("g", "t.*") in stage.written(before)
    stage.leave("b")
    assert not stage.group().regexes
    assert not stage.group().subscriptions


def test_an_empty_expression_is_none() -> None:
    stage = Stage(t=1)
    stage.join("a", regex="t")
    stage.beat("a", 1, topics=["t"], regex="")
    assert not stage.group().regexes
    assert stage.assignment_record("a") == {"t": [0]}


def test_a_record_of_topics_that_kafka_wrote_before_4_1_is_removed() -> None:
    stage = Stage(t=1)
    stage.join("a", "t")
    assert stage.consumer.replay(ConsumerTopicsSeen("g", ()))
    before = len(stage.log)
    stage.beat("a", 1)
    assert ConsumerTopicsRemoved("g") in stage.written(before)
    before = len(stage.log)
    stage.beat("a", 1)
    assert len(stage.log) == before
