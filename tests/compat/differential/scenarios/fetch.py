"""Fetch: what comes back, how much of it, and what each odd request answers."""

from tests.compat.differential.batches import batch
from tests.compat.differential.scenario import Differs, Fields, Scenario, Step, World
from tests.compat.differential.scenarios.produce import produce

API = "fetch"
MAX = 1 << 30


def fetch(world: World, *offsets: int, topic: str | None = None, partition: Fields | None = None, **more: object) -> Fields:
    """Offset i is of partition i. `partition` holds further fields for each of them."""
    partitions = [
        {"partition": i, "fetch_offset": offset, "partition_max_bytes": MAX, **(partition or {})}
        for i, offset in enumerate(offsets)
    ]
    topics = [{**world.names("topic", topic), "partitions": partitions}]
    return {"max_wait": 0, "min_bytes": 1, "max_bytes": MAX, "topics": topics, **more}


def at(*offsets: int, **more: object):
    return lambda world: fetch(world, *offsets, **more)


def stored(*partitions: int):
    """Two batches of two records each in these partitions, once per topic."""
    two = batch((b"one", b"two"))

    def steps(world: World) -> list[Step]:
        if world.version != 4:
            return []
        return [Step("produce", 9, produce(world, *((i, two) for i in partitions or (0,)))) for _ in range(2)]

    return steps


ONE = {"before": stored(), "partitions": 1}
TWO = {"before": stored(0, 1), "partitions": 2}

ANSWER = "responses.*.partitions.0"


def negative_size() -> tuple[Differs, ...]:
    what = "fetch-negative-sizes"
    return Differs(what, f"{ANSWER}.error_code", -1, 0), Differs(
        what, f"{ANSWER}.high_watermark|last_stable_offset|log_start_offset|records"
    )


SCENARIOS = (
    Scenario("all that is there", API, at(0), **ONE),
    Scenario("from the middle of a batch", API, at(1), **ONE),
    Scenario("from the second batch", API, at(2), **ONE),
    Scenario("from the end", API, at(4), **ONE),
    Scenario("beyond the end", API, at(5), **ONE),
    Scenario("a negative offset", API, at(-1), **ONE),
    Scenario("committed records only", API, at(0, isolation_level=1), **ONE),
    Scenario(
        "an isolation level that is none",
        API,
        at(0, isolation_level=7),
        **ONE,
        differs=(
            Differs("fetch-isolation-level", f"{ANSWER}.error_code", -1, 42),
            Differs("fetch-isolation-level", "error_code", -1, 0),
            Differs("fetch-isolation-level", "responses"),
        ),
    ),
    Scenario("two partitions", API, at(0, 2), **TWO),
    Scenario("two partitions, one beyond the end", API, at(0, 9), **TWO),
    Scenario("one byte at most", API, at(0, max_bytes=1), **ONE),
    Scenario("one byte at most of two partitions", API, at(0, 0, max_bytes=1), **TWO),
    Scenario("no bytes at most", API, at(0, max_bytes=0), **ONE),
    Scenario("fewer than no bytes", API, at(0, max_bytes=-1), **ONE, differs=negative_size()),
    Scenario("one byte at most of a partition", API, at(0, partition={"partition_max_bytes": 1}), **ONE),
    Scenario("one byte at most of each of two partitions", API, at(0, 0, partition={"partition_max_bytes": 1}), **TWO),
    Scenario("no bytes at most of a partition", API, at(0, partition={"partition_max_bytes": 0}), **ONE),
    Scenario(
        "fewer than no bytes of a partition", API, at(0, partition={"partition_max_bytes": -1}), **ONE, differs=negative_size()
    ),
    Scenario("a batch and a half", API, at(0, partition={"partition_max_bytes": 120}), **ONE),
    Scenario("a batch and a half in all", API, at(0, 0, max_bytes=120), **TWO),
    Scenario("more than there is, for a while", API, at(0, min_bytes=100_000, max_wait=50), **ONE),
    Scenario("from the end, for a while", API, at(4, max_wait=50), **ONE),
    Scenario("a negative wait", API, at(4, max_wait=-1), **ONE),
    Scenario("no least bytes", API, at(4, min_bytes=0, max_wait=5000), **ONE),
    Scenario("no topics", API, lambda w: {"max_wait": 0, "min_bytes": 1, "max_bytes": MAX, "topics": []}),
    Scenario("no partitions", API, at(), partitions=1),
    Scenario("a topic that is not there", API, at(0, topic="not-there")),
    Scenario("a topic without a name", API, at(0, topic="")),
    Scenario("a topic with an illegal name", API, at(0, topic="a/b")),
    Scenario("a topic id that nobody has", API, at(0, topic="not-there", max_wait=20), versions=range(13, 19)),
    Scenario(
        "the id of nothing",
        API,
        lambda w: fetch(
            w, topics=[{"topic_id": bytes(16), "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": MAX}]}]
        ),
        versions=range(13, 19),
    ),
    Scenario("a partition that is not there", API, at(0, 0, 0), **ONE),
    Scenario("a negative partition", API, at(0, partition={"partition": -1}), **ONE),
    Scenario(
        "a partition twice",
        API,
        at(0, 2, partition={"partition": 0}),
        **ONE,
        differs=(Differs("fetch-repeated-partition", "responses.*.partitions"),),
    ),
    Scenario(
        "a topic twice",
        API,
        lambda w: {**fetch(w), "topics": 2 * fetch(w, 0)["topics"]},
        **ONE,
        differs=(Differs("fetch-repeated-partition", "responses"),),
    ),
    # sessions
    Scenario(
        "a new session",
        API,
        at(0, session_id=0, session_epoch=0),
        **ONE,
        differs=(Differs("fetch-sessions", "session_id", penstock=0),),
    ),
    Scenario("a session that is not there", API, at(0, session_id=77, session_epoch=1), **ONE),
    Scenario("a session that is not there, to be closed", API, at(0, session_id=77, session_epoch=-1), **ONE),
    Scenario(
        "a session that is not there, to be begun again",
        API,
        at(0, session_id=77, session_epoch=0),
        **ONE,
        differs=(Differs("fetch-sessions", "session_id", penstock=0),),
    ),
    Scenario("no session at an epoch", API, at(0, session_id=0, session_epoch=3), **ONE),
    Scenario("an epoch that is none", API, at(0, session_id=0, session_epoch=-7), **ONE),
    Scenario(
        "something to forget outside of a session",
        API,
        lambda w: fetch(w, 0, forgotten_topics_data=[{**w.names("topic"), "partitions": [0]}]),
        **ONE,
    ),
    # leader epochs
    Scenario("the leader epoch", API, at(0, partition={"current_leader_epoch": 0}), **ONE),
    Scenario("a leader epoch to come", API, at(0, partition={"current_leader_epoch": 5}), **ONE),
    Scenario("a leader epoch of before", API, at(0, partition={"current_leader_epoch": -2}), **ONE),
    Scenario("the epoch of the last record", API, at(2, partition={"last_fetched_epoch": 0}), **ONE),
    Scenario("an epoch of the last record that is to come", API, at(2, partition={"last_fetched_epoch": 5}), **ONE),
    # others
    Scenario("a rack", API, at(0, rack_id="somewhere"), **ONE),
    Scenario(
        "as a replica",
        API,
        at(0, replica_id=2, replica_state={"replica_id": 2, "replica_epoch": 1}),
        **ONE,
        differs=(
            Differs("fetch-as-replica", f"{ANSWER}.error_code", 6, 29),
            Differs("fetch-as-replica", f"{ANSWER}.current_leader.*"),
            Differs("fetch-as-replica", f"{ANSWER}.aborted_transactions", None, []),
        ),
    ),
    Scenario("as a replica that debugs", API, at(0, replica_id=-2, replica_state={"replica_id": -2, "replica_epoch": -1}), **ONE),
)
