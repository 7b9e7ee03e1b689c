"""The APIs of transactions, where no transactional id has been used yet."""

from tests.compat.differential.scenario import Scenario

ADD, END, MARKERS = "add_partitions_to_txn", "end_txn", "write_txn_markers"
ADD_OFFSETS, COMMIT = "add_offsets_to_txn", "txn_offset_commit"
DESCRIBE, LIST = "describe_transactions", "list_transactions"
PRODUCER = {"v3_and_below_transactional_id": "unused", "v3_and_below_producer_id": 7, "v3_and_below_producer_epoch": 0}


def adding(*indexes: int):
    return lambda world: {**PRODUCER, "v3_and_below_topics": [{"name": world.topic, "partitions": list(indexes)}]}


def ending(*, committed: bool):
    return lambda world: {"transactional_id": "unused", "producer_id": 7, "producer_epoch": 0, "committed": committed}


def committing(*indexes: int, group: str = "transactional", topic: str | None = None):
    return lambda world: {
        "transactional_id": "unused",
        "group_id": group,
        "producer_id": 7,
        "producer_epoch": 0,
        "topics": [
            {
                "name": topic or world.topic,
                "partitions": [{"partition_index": index, "committed_offset": 1, "committed_metadata": ""} for index in indexes],
            }
        ],
    }


def marker(*indexes: int, topic: str | None = None, epoch: int = 0, coordinator_epoch: int = 0):
    return lambda world: {
        "markers": [
            {
                "producer_id": 7_100_001,
                "producer_epoch": epoch,
                "transaction_result": False,
                "topics": [{"name": topic or world.topic, "partition_indexes": list(indexes)}],
                "coordinator_epoch": coordinator_epoch,
            }
        ]
    }


def listing(*states: str, duration: int = -1):
    return lambda world: {"state_filters": list(states), "producer_id_filters": [], "duration_filter": duration}


SCENARIOS = (
    Scenario("a partition of a transaction that nobody knows", ADD, adding(0), versions=range(4), partitions=1),
    Scenario(
        "offsets of a group in a transaction that nobody knows",
        ADD_OFFSETS,
        lambda world: {"transactional_id": "unused", "producer_id": 7, "producer_epoch": 0, "group_id": "transactional"},
    ),
    Scenario("offsets of partitions that are not there", COMMIT, committing(5, -1), partitions=1),
    Scenario("offsets of a topic that is not there", COMMIT, committing(0, topic="not-there")),
    Scenario("offsets of a group without a name", COMMIT, committing(0, group=""), partitions=1),
    Scenario("offsets of nothing", COMMIT, committing()),
    Scenario("a commit of a transaction that nobody knows", END, ending(committed=True)),
    Scenario("an abort of a transaction that nobody knows", END, ending(committed=False)),
    Scenario("a marker for an unknown producer", MARKERS, marker(0), partitions=1, a_topic_per_version=True),
    Scenario("a marker for partitions that are not there", MARKERS, marker(5, -1), partitions=1),
    Scenario("a marker for a topic that is not there", MARKERS, marker(0, topic="not-there")),
    Scenario("no markers", MARKERS, lambda world: {"markers": []}),
    Scenario("a transactional id that nobody knows", DESCRIBE, lambda world: {"transactional_ids": ["unused", "other"]}),
    Scenario("a transactional id without a name", DESCRIBE, lambda world: {"transactional_ids": [""]}),
    Scenario("no transactional ids", DESCRIBE, lambda world: {"transactional_ids": []}),
    Scenario("all transactions", LIST, listing()),
    Scenario("transactions of a state", LIST, listing("Ongoing")),
    Scenario("transactions of a state that is none", LIST, listing("Ongoing", "Nonsense")),
    Scenario("transactions that began long ago", LIST, listing(duration=60_000), versions=range(1, 3)),
)
