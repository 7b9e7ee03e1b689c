"""Group shards: the shard of a group, its owner, and the broker that stands for it."""

from libs.cluster.shard_owners import Owner
from libs.cluster.topic_names import GROUP_TOPIC
from services.gateway.core.coordinator_shards import GROUPS, NO_BROKER, CoordinatorShards
from tests.gateway.fake_gateway import Cluster


def shards(*leaders: int, former: CoordinatorShards | None = None, revision: int = 7, **changes: object) -> CoordinatorShards:
    return CoordinatorShards(GROUPS, Cluster(topics={GROUP_TOPIC: leaders}, **changes).image(revision), former)  # type: ignore[arg-type]


def test_groups_lie_where_kafka_looks_for_them() -> None:
    fifty = shards(*([1] * 50))
    # Java's hashes of these are 0, 97 and the smallest int32.
    assert [fifty.of(name) for name in ("", "a", "polygenelubricants")] == [0, 47, 0]


def test_without_the_topic_there_is_nobody() -> None:
    nothing = CoordinatorShards(GROUPS, Cluster().image())
    assert (nothing.count, nothing.of("a"), nothing.owner(0), nothing.broker(0)) == (0, NO_BROKER, None, NO_BROKER)
    assert nothing.of_broker(1) == []
    assert (nothing.owner(NO_BROKER), nothing.broker(NO_BROKER)) == (None, NO_BROKER)


def test_an_owner_is_one_life_of_a_process() -> None:
    group_shards = shards(1, 1, 1, owners={0: "2@17", 1: "nonsense"})
    assert [group_shards.owner(shard) for shard in range(3)] == [Owner(2, 17), None, None]


def test_each_shard_has_one_broker_and_brokers_share_them() -> None:
    group_shards = shards(1, 2, -1, 3, alive=(1, 2), dead=(3,), replicas={GROUP_TOPIC: (3, 2, 1)})
    assert [group_shards.broker(shard) for shard in range(4)] == [1, 2, 2, 2]
    assert [group_shards.of_broker(broker) for broker in (1, 2, 3)] == [[0], [1, 2, 3], []]


def test_owners_of_two_images_are_compared() -> None:
    before = shards(1, 1, owners={0: "1@1"})
    assert shards(1, 1, owners={0: "1@1"}, former=before, revision=8).same_owners(before)
    assert shards(2, 1, owners={0: "1@1"}, former=before, revision=8).same_owners(before)
    assert not shards(1, 1, owners={0: "1@2"}, former=before, revision=8).same_owners(before)
    assert not shards(1, 1, 1, owners={0: "1@1"}, former=before, revision=8).same_owners(before)
