"""KIP-1101: the numbers are those that Kafka's own library (hash4j) gave for the same topics."""

from services.group_coordinator.core.consumer.topic_hashes import TopicHashes, topic_hash
from services.group_coordinator.core.model.topics_view import TopicsView, TopicView
from tests.group_coordinator.named_topics import topic_id

T = TopicView(topic_id("t"), "t", 2, (frozenset({"r2", "r1"}), frozenset()))


def test_the_hash_of_a_topic_is_kafkas() -> None:
    assert topic_hash(T) == 3098595558988096290


def test_topics_that_are_not_there_do_not_count() -> None:
    hashes, view = TopicHashes(), TopicsView.of(1, [T])
    assert hashes.of(["t", "u"], view) == hashes.of(["t"], view) != 0
    assert hashes.of(["u"], view) == hashes.of([], view) == 0


def test_the_order_of_names_does_not_count() -> None:
    view = TopicsView.of(1, [T, TopicView(topic_id("u"), "u", 1)])
    assert TopicHashes().of(["u", "t"], view) == TopicHashes().of(["t", "u"], view)


def test_whatever_a_group_has_to_know_changes_the_hash() -> None:
    others = [
        T,
        TopicView(topic_id("x"), "t", 2, T.racks),
        TopicView(topic_id("t"), "t", 3, T.racks),
        TopicView(topic_id("t"), "t", 2, (frozenset({"r2"}), frozenset({"r1"}))),
        TopicView(topic_id("t"), "t", 2),
        TopicView(topic_id("t"), "é𝄞", 2),
    ]
    hashes = TopicHashes()
    assert len({hashes.of([topic.name], TopicsView.of(1, [topic])) for topic in others}) == len(others)
