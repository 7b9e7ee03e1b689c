"""FindCoordinator, InitProducerId, DescribeCluster, DescribeQuorum, DescribeTopicPartitions."""

from tests.compat.differential.scenario import Differs, Fields, Scenario, World

FIND, INIT, CLUSTER, PARTITIONS = "find_coordinator", "init_producer_id", "describe_cluster", "describe_topic_partitions"
QUORUM, METADATA = "describe_quorum", "__cluster_metadata"


def init(**fields: object):
    return lambda world: {"transactional_id": None, "transaction_timeout": 60_000, **fields}


def find(key: str, kind: int):
    return lambda world: {"key": key, "key_type": kind, "coordinator_keys": [key]}


# Kafka is asked for none that it would have to make an internal topic for.
COORDINATORS = (
    Scenario("of a kind that is none", FIND, find("x", 9), versions=range(1, 7)),
    Scenario("of a group without a name", FIND, find("", 0)),
    Scenario("of nobody", FIND, lambda w: {"key_type": 0, "coordinator_keys": []}, versions=range(4, 7)),
)

PRODUCER_IDS = (
    Scenario("idempotent", INIT, init()),
    Scenario("idempotent, with no timeout", INIT, init(transaction_timeout=0)),
    Scenario("idempotent, with the largest timeout", INIT, init(transaction_timeout=2**31 - 1)),
    Scenario("an empty transactional id", INIT, init(transactional_id="")),
    Scenario("a transactional id", INIT, init(transactional_id="tx")),
    Scenario("a transactional id without a timeout", INIT, init(transactional_id="tx", transaction_timeout=0)),
    Scenario("a transactional id with a negative timeout", INIT, init(transactional_id="tx", transaction_timeout=-1)),
    Scenario("a transactional id with too long a timeout", INIT, init(transactional_id="tx", transaction_timeout=900_001)),
    Scenario("a producer id and an epoch", INIT, init(producer_id=5, producer_epoch=3)),
    Scenario("a producer id without an epoch", INIT, init(producer_id=5)),
    Scenario("an epoch without a producer id", INIT, init(producer_epoch=3)),
    Scenario("a negative producer id", INIT, init(producer_id=-5, producer_epoch=-3)),
)

DESCRIBING_CLUSTER = (
    Scenario("brokers", CLUSTER, lambda w: {}),
    Scenario("brokers, with authorized operations", CLUSTER, lambda w: {"include_cluster_authorized_operations": True}),
    Scenario("brokers, with fenced ones", CLUSTER, lambda w: {"include_fenced_brokers": True}),
    Scenario("controllers", CLUSTER, lambda w: {"endpoint_type": 2}),
    Scenario("an endpoint type that is none", CLUSTER, lambda w: {"endpoint_type": 9}),
    Scenario("endpoint type 0", CLUSTER, lambda w: {"endpoint_type": 0}),
)


def quorum(*partitions: tuple[str, int]):
    topics = dict.fromkeys(name for name, _ in partitions)
    asked = [
        {"topic_name": topic, "partitions": [{"partition_index": index} for name, index in partitions if name == topic]}
        for topic in topics
    ]
    return lambda world: {"topics": asked}


DESCRIBING_QUORUM = (
    Scenario(
        "the metadata",
        QUORUM,
        quorum((METADATA, 0)),
        differs=(
            Differs("quorum-in-etcd", "topics.*.partitions.*.leader_epoch|high_watermark"),
            Differs("quorum-in-etcd", "nodes.*.listeners", penstock=[], versions=[2]),
        ),
    ),
    Scenario("no topic", QUORUM, quorum()),
    Scenario("another topic", QUORUM, quorum(("a-topic", 0))),
    Scenario("another partition", QUORUM, quorum((METADATA, 1))),
    Scenario("one partition more", QUORUM, quorum((METADATA, 0), (METADATA, 1))),
    Scenario("one topic more", QUORUM, quorum((METADATA, 0), ("a-topic", 0))),
    Scenario("the metadata without a partition", QUORUM, lambda w: {"topics": [{"topic_name": METADATA, "partitions": []}]}),
)


def of(*names: str, limit: int = 2000, cursor: Fields | None = None) -> Fields:
    return {"topics": [{"name": name} for name in names], "response_partition_limit": limit, "cursor": cursor}


def own(limit: int = 2000, start: int | None = None):
    def ask(world: World) -> Fields:
        cursor = None if start is None else {"topic_name": world.topic, "partition_index": start}
        return of(world.topic, limit=limit, cursor=cursor)

    return ask


DESCRIBING_PARTITIONS = (
    Scenario("one topic", PARTITIONS, own(), partitions=3),
    Scenario("one topic twice", PARTITIONS, lambda w: of(w.topic, w.topic), partitions=1),
    Scenario("two partitions of three", PARTITIONS, own(limit=2), partitions=3),
    Scenario("all three of three", PARTITIONS, own(limit=3), partitions=3),
    Scenario("the rest of three", PARTITIONS, own(start=2), partitions=3),
    Scenario("from beyond the end", PARTITIONS, own(start=9), partitions=3),
    Scenario("from a negative partition", PARTITIONS, own(start=-1), partitions=3),
    Scenario("no partitions", PARTITIONS, own(limit=0), partitions=3),
    Scenario("fewer than no partitions", PARTITIONS, own(limit=-1), partitions=3),
    Scenario("more partitions than one may ask for", PARTITIONS, own(limit=2**31 - 1), partitions=1),
    Scenario("a topic that is not there", PARTITIONS, lambda w: of("not-there")),
    Scenario("a topic with an illegal name", PARTITIONS, lambda w: of("a/b")),
    Scenario(
        "a topic without a name",
        PARTITIONS,
        lambda w: of(""),
        differs=(
            Differs("describe-partitions-unnamed", "topics.0.error_code", -1, 17),
            Differs("describe-partitions-unnamed", "topics.0.topic_authorized_operations"),
        ),
    ),
    Scenario(
        "from a topic that was not asked for",
        PARTITIONS,
        lambda w: of(w.topic, cursor={"topic_name": "a-topic-before", "partition_index": 0}),
        partitions=1,
    ),
    Scenario(
        "from a topic that is not there",
        PARTITIONS,
        lambda w: of("a-topic-before", w.topic, cursor={"topic_name": "a-topic-before", "partition_index": 1}),
        partitions=1,
    ),
    Scenario(
        "from a topic after all",
        PARTITIONS,
        lambda w: of(w.topic, cursor={"topic_name": "zzz", "partition_index": 0}),
        partitions=1,
    ),
)

SCENARIOS = COORDINATORS + PRODUCER_IDS + DESCRIBING_CLUSTER + DESCRIBING_QUORUM + DESCRIBING_PARTITIONS
