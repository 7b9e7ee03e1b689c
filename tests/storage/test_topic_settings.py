"""Thousands of topics without configs of their own have the same ones, and they are computed once."""

from libs.cluster.image import ClusterImage
from services.storage.partition.topic_settings import TopicConfigs


def test_topics_with_the_same_configs_of_their_own_share_them() -> None:
    own = {"retention.ms": "5", "segment.ms": "7"}
    configs = TopicConfigs(1, {})
    image = ClusterImage(overrides_by_resource={("topic", "a"): own, ("topic", "b"): dict(reversed(own.items()))})
    assert configs.follow(image)
    assert configs.of("a") is configs.of("b")
    assert configs.of("a").retention_ms == 5
    assert configs.of("c") is configs.of("d")
    assert configs.of("c").retention_ms != 5


def test_a_change_is_seen_by_all_sharers() -> None:
    configs = TopicConfigs(1, {})
    configs.follow(ClusterImage())
    before = configs.of("a")
    assert configs.follow(ClusterImage(overrides_by_resource={("broker", ""): {"log.retention.ms": "9"}}))
    assert configs.of("a") is configs.of("b")
    assert configs.of("a").retention_ms == 9 != before.retention_ms
    assert configs.follow(ClusterImage(overrides_by_resource={("topic", "b"): {"retention.ms": "3"}}))
    assert [configs.of(topic).retention_ms for topic in ("b", "a")] == [3, before.retention_ms]
