"""Creation, deletion and growth of topics: the checks and Kafka's messages."""

import random
from collections import Counter

import pytest

from libs.cluster.image import ClusterImage
from libs.cluster.records import InSync, Replica
from libs.rpc.contracts.controller import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    MorePartitions,
    NewTopic,
    TopicRef,
    TopicResult,
)
from libs.wire.errors import ErrorCode
from services.controller.core.topics.create_partitions import Growth, create_partitions
from services.controller.core.topics.replica_assignment import Limits
from services.controller.core.topics.topics import Creation, create_topics, delete_topics, new_topic_id
from tests.controller.images import image_of, led_by, storage, topic_id

THREE = image_of(storage(1), storage(2), storage(3))


def create(image: ClusterImage, *topics: NewTopic, limits: Limits | None = None) -> Creation:
    return create_topics(image, CreateTopics(topics), random.Random(7), limits or Limits())


def refusal(image: ClusterImage, topic: NewTopic, limits: Limits | None = None) -> TopicResult:
    decision = create(image, topic, limits=limits)
    assert decision.planned == ()
    (result,) = decision.refused
    return result


def grow(image: ClusterImage, *topics: MorePartitions) -> Growth:
    return create_partitions(image, CreatePartitions(topics), random.Random(7), Limits())


def test_a_topic_gets_partitions_led_by_live_nodes_in_their_present_incarnation() -> None:
    (planned,) = create(image_of(storage(4, incarnation=77)), NewTopic("t", 2, 1)).planned
    assert planned.topic.partitions == 2
    assert not planned.topic.internal
    for state in planned.partitions:
        assert (state.leader, state.leader_incarnation, state.leader_epoch, state.partition_epoch) == (4, 77, 0, 0)
        assert state.isr == (InSync(4, 77),)
        assert state.replicas == (Replica(4, "d4"),)
    assert (planned.result.partitions, planned.result.replication_factor) == (2, 1)
    assert planned.result.topic_id == planned.topic_id


def test_minus_one_means_the_clusters_default() -> None:
    image = image_of(storage(1), overrides={("broker", ""): {"num.partitions": "5"}})
    (planned,) = create(image, NewTopic("t", -1, -1)).planned
    assert (planned.result.partitions, planned.result.replication_factor) == (5, 1)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b", "x" * 250, "ünder", "a b"])
def test_an_illegal_name_is_refused(name: str) -> None:
    result = refusal(THREE, NewTopic(name, 1, 1))
    assert result.error == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert result.message is not None
    assert result.message.startswith("Topic name is invalid")


def test_names_that_differ_in_dots_and_underscores_only_collide() -> None:
    image = image_of(storage(1), topics={"a.b": [led_by(1)]})
    assert refusal(image, NewTopic("a_b", 1, 1)).message == "Topic 'a_b' collides with existing topic: a.b"
    assert refusal(image, NewTopic("a.b", 1, 1)).error == ErrorCode.TOPIC_ALREADY_EXISTS
    within = create(THREE, NewTopic("x.y", 1, 1), NewTopic("x_y", 1, 1))
    assert [p.topic.name for p in within.planned] == ["x.y"]
    assert [r.error for r in within.refused] == [ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_a_topic_named_twice_in_a_request_is_not_created_and_answered_once() -> None:
    decision = create(THREE, NewTopic("t", 1, 1), NewTopic("u", 1, 1), NewTopic("t", 2, 1))
    assert decision.names == ("t", "u")
    assert [(r.name, r.error, r.message) for r in decision.refused] == [("t", ErrorCode.INVALID_REQUEST, "Duplicate topic name.")]
    assert [p.topic.name for p in decision.planned] == ["u"]


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (NewTopic("t", 0, 1), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("t", -2, 1), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", 1, 32767), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", 1_000_000_000, 1), ErrorCode.POLICY_VIOLATION),
        (NewTopic("t", 10_001, 1), ErrorCode.POLICY_VIOLATION),
        (NewTopic("t", 1, 1, configs=(("no.such", "1"),)), ErrorCode.INVALID_CONFIG),
        (NewTopic("t", 1, 1, configs=(("retention.ms", "soon"),)), ErrorCode.INVALID_CONFIG),
        (NewTopic("t", 1, 1, configs=(("retention.ms", None),)), ErrorCode.INVALID_CONFIG),
        (NewTopic("t", 1, 1, configs=(("remote.storage.enable", "true"),)), ErrorCode.INVALID_CONFIG),
        (NewTopic("t", -1, 1, ((0, (1,)),)), ErrorCode.INVALID_REQUEST),
        (NewTopic("t", 1, -1, ((0, (1,)),)), ErrorCode.INVALID_REQUEST),
        (NewTopic("t", -1, -1, ((0, ()),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", -1, -1, ((0, (9,)),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", -1, -1, ((0, (1, 1)),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", -1, -1, ((0, (1,)), (0, (2,)))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", -1, -1, ((0, (1,)), (2, (2,)))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", -1, -1, ((0, (1,)), (1, (2, 3)))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("__cluster_metadata", 1, 1), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_bad_request_is_refused_with_kafkas_code(topic: NewTopic, error: ErrorCode) -> None:
    assert refusal(THREE, topic).error == error


def test_all_replicas_of_a_new_partition_are_in_sync_and_the_first_leads() -> None:
    (planned,) = create(THREE, NewTopic("t", 3, 3)).planned
    for state in planned.partitions:
        assert [member.node_id for member in state.isr] == [replica.node_id for replica in state.replicas]
        assert state.leader == state.replicas[0].node_id
    assert sorted(state.leader for state in planned.partitions) == [1, 2, 3]
    assert planned.result.replication_factor == 3


@pytest.mark.parametrize(("nodes", "factor"), [(1, 1), (2, 2), (3, 3), (5, 3)])
def test_a_topic_has_three_replicas_or_as_many_as_there_are_nodes_unless_somebody_says_otherwise(nodes: int, factor: int) -> None:
    members = [storage(node_id) for node_id in range(nodes)]
    (planned,) = create(image_of(*members, gone=[9]), NewTopic("t", -1, -1)).planned
    assert planned.result.replication_factor == len(planned.partitions[0].replicas) == factor
    configured = image_of(*members, overrides={("broker", ""): {"default.replication.factor": "1"}})
    assert create(configured, NewTopic("t", -1, -1)).planned[0].result.replication_factor == 1
    more = image_of(*members, overrides={("broker", ""): {"default.replication.factor": "6"}})
    assert refusal(more, NewTopic("t", -1, -1)).error == ErrorCode.INVALID_REPLICATION_FACTOR


def test_the_whole_request_is_bounded_not_each_topic() -> None:
    decision = create(THREE, NewTopic("t", 6_000, 1), NewTopic("u", 6_000, 1))
    assert {r.error for r in decision.refused} == {ErrorCode.POLICY_VIOLATION}


def test_nothing_is_placed_while_nobody_is_alive() -> None:
    assert refusal(image_of(gone=[1]), NewTopic("t", 1, 1)).error == ErrorCode.INVALID_REPLICATION_FACTOR
    by_hand = refusal(image_of(storage(2), gone=[1]), NewTopic("t", -1, -1, ((0, (1,)),)))
    assert by_hand.error == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_an_assignment_by_hand_is_kept() -> None:
    (planned,) = create(THREE, NewTopic("t", -1, -1, ((1, (2,)), (0, (3,))))).planned
    assert [state.leader for state in planned.partitions] == [3, 2]


def test_a_dead_node_may_hold_a_replica_but_is_not_in_sync() -> None:
    image = image_of(storage(2, 8), gone=[1])
    (planned,) = create(image, NewTopic("t", -1, -1, ((0, (1, 2)),))).planned
    (state,) = planned.partitions
    assert state.replicas == (Replica(1, ""), Replica(2, "d2"))
    assert (state.leader, state.isr) == (2, (InSync(2, 8),))


def test_coordinators_topics_may_be_created_and_are_marked() -> None:
    (planned,) = create(THREE, NewTopic("__consumer_offsets", 1, 1)).planned
    assert planned.topic.internal


def test_topics_of_one_request_share_the_nodes_evenly() -> None:
    decision = create(THREE, *(NewTopic(f"t{n}", 1, 1) for n in range(9)))
    assert Counter(p.partitions[0].leader for p in decision.planned) == {1: 3, 2: 3, 3: 3}


def test_directories_of_a_node_are_filled_evenly() -> None:
    image = image_of(storage(1, log_dirs=("a", "b")), topics={"old": [led_by(1, log_dir_id="a1")]})
    (planned,) = create(image, NewTopic("t", 3, 1)).planned
    assert Counter(state.replicas[0].log_dir_id for state in planned.partitions) == {"b1": 2, "a1": 1}


def test_topic_ids_are_version_4_uuids_that_do_not_look_like_options() -> None:
    source = random.Random(1)
    for _ in range(500):
        matches = new_topic_id(source, lambda _: False)
        assert (matches[6] >> 4, matches[8] >> 6) == (4, 2)
        assert matches[0] >> 2 != 62


def test_topics_are_deleted_by_name_or_id() -> None:
    image = image_of(storage(1), topics={"a": [led_by(1)], "b": [led_by(1)]})
    decision = delete_topics(image, DeleteTopics((TopicRef("a"), TopicRef(None, topic_id(2)))))
    assert [topic.name for topic in decision.topics] == ["a", "b"]
    assert [(r.name, r.topic_id, r.error) for r in decision.results] == [("a", topic_id(1), 0), ("b", topic_id(2), 0)]


@pytest.mark.parametrize(
    ("refs", "error"),
    [
        ((TopicRef("x"),), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((TopicRef(None, topic_id(9)),), ErrorCode.UNKNOWN_TOPIC_ID),
        ((TopicRef("a", topic_id(1)),), ErrorCode.INVALID_REQUEST),
        ((TopicRef(None),), ErrorCode.INVALID_REQUEST),
        ((TopicRef("a"), TopicRef("a")), ErrorCode.INVALID_REQUEST),
        ((TopicRef("x"), TopicRef("x")), ErrorCode.INVALID_REQUEST),
        ((TopicRef("a"), TopicRef(None, topic_id(1))), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_deletion_that_names_no_topic_or_one_twice_is_refused(refs: tuple[TopicRef, ...], error: ErrorCode) -> None:
    decision = delete_topics(image_of(storage(1), topics={"a": [led_by(1)]}), DeleteTopics(refs))
    assert decision.topics == ()
    assert {r.error for r in decision.results} == {error}
    assert len(decision.results) == len(set(refs))


def test_deletion_can_be_forbidden() -> None:
    image = image_of(storage(1), topics={"a": [led_by(1)]}, overrides={("broker", ""): {"delete.topic.enable": "false"}})
    decision = delete_topics(image, DeleteTopics((TopicRef("a"),)))
    assert decision.topics == ()
    assert decision.results[0].error == ErrorCode.TOPIC_DELETION_DISABLED


def test_added_partitions_follow_those_that_are_there() -> None:
    image = image_of(storage(1), storage(2), topics={"a": [led_by(1), led_by(1)]})
    (planned,) = grow(image, MorePartitions("a", 4)).planned
    assert (planned.before.partitions, planned.after.partitions, len(planned.added)) == (2, 4, 2)
    assert Counter(state.leader for state in planned.added) == {1: 1, 2: 1}
    (planned,) = grow(image, MorePartitions("a", 4, ((2,), (2,)))).planned
    assert [state.leader for state in planned.added] == [2, 2]


@pytest.mark.parametrize(
    ("growth", "error"),
    [
        (MorePartitions("x", 4), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (MorePartitions("a", 2), ErrorCode.INVALID_PARTITIONS),
        (MorePartitions("a", 1), ErrorCode.INVALID_PARTITIONS),
        (MorePartitions("a", -1), ErrorCode.INVALID_PARTITIONS),
        (MorePartitions("a", 1_000_000_000), ErrorCode.POLICY_VIOLATION),
        (MorePartitions("a", 4, ((1,),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (MorePartitions("a", 3, ((7,),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (MorePartitions("a", 3, ((1, 2),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_growth_that_makes_no_sense_is_refused(growth: MorePartitions, error: ErrorCode) -> None:
    image = image_of(storage(1), storage(2), topics={"a": [led_by(1), led_by(1)]})
    decision = grow(image, growth)
    assert decision.planned == ()
    assert [r.error for r in decision.refused] == [error]


def test_a_topic_that_is_to_grow_twice_in_a_request_does_not_grow() -> None:
    image = image_of(storage(1), topics={"a": [led_by(1)]})
    decision = grow(image, MorePartitions("a", 2), MorePartitions("a", 3))
    assert decision.planned == ()
    assert [r.error for r in decision.refused] == [ErrorCode.INVALID_REQUEST]
