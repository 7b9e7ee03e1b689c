"""ListOffsets: each special timestamp, on each version."""

import gzip

from tests.compat.differential.batches import GZIP, NOW_MS, batch, record
from tests.compat.differential.scenario import Differs, Fields, Scenario, Step, World
from tests.compat.differential.scenarios.produce import produce

API = "list_offsets"


def offsets(world: World, *timestamps: int, topic: str | None = None, partition: Fields | None = None, **more: object) -> Fields:
    partitions = [{"partition_index": i, "timestamp": timestamp, **(partition or {})} for i, timestamp in enumerate(timestamps)]
    name = world.topic if topic is None else topic
    return {"replica_id": -1, "topics": [{"name": name, "partitions": partitions}], "timeout": 5000, **more}


def of(*timestamps: int, **more: object):
    return lambda world: offsets(world, *timestamps, **more)


def stored(world: World) -> list[Step]:
    """Offsets 0-1 at NOW_MS - 2000, 2-3 at NOW_MS, 4 at NOW_MS - 1000: once per topic."""
    if world.version != 1:
        return []
    batches = batch((b"a", b"b"), timestamp=NOW_MS - 2000), batch((b"c", b"d"), timestamp=NOW_MS), batch(timestamp=NOW_MS - 1000)
    return [Step("produce", 9, produce(world, (0, each))) for each in batches]


def one_by_one(*deltas: int) -> bytes:
    return b"".join(record(b"v", offset_delta=i, timestamp_delta=delta) for i, delta in enumerate(deltas))


def uneven(world: World) -> list[Step]:
    """Records 0-3 at +0, +30, +10, +30, then 4-6 at +20, +5, +40, compressed, then 7 at +40, then 8 without a time."""
    if world.version != 1:
        return []
    batches = (
        batch((b"",) * 4, records=one_by_one(0, 30, 10, 30), timestamp=NOW_MS, max_timestamp=NOW_MS + 30),
        batch(
            (b"",) * 3,
            records=gzip.compress(one_by_one(20, 5, 40)),
            timestamp=NOW_MS,
            max_timestamp=NOW_MS + 40,
            attributes=GZIP,
        ),
        batch(timestamp=NOW_MS + 40),
        batch(timestamp=-1, max_timestamp=-1),
    )
    return [Step("produce", 9, produce(world, (0, each))) for each in batches]


def sealed(world: World) -> list[Step]:
    """Each batch in a segment of its own, the second older than the first."""
    if world.version != 1:
        return []
    batches = [batch((b"x" * 600_000,), timestamp=NOW_MS + delta) for delta in (0, -500, 20)]
    return [Step("produce", 9, produce(world, (0, each))) for each in batches]


UNEVEN = {"before": uneven, "partitions": 1}
SEALED = {"before": sealed, "partitions": 1, "configs": {"segment.bytes": str(1 << 20)}}


def two_topics(world: World) -> Fields:
    here, there = offsets(world, -2), offsets(world, -1, topic="not-there")
    return {**here, "topics": here["topics"] + there["topics"]}


def one_topic_twice(world: World) -> Fields:
    first, second = offsets(world, -2), offsets(world, -1)
    return {**first, "topics": first["topics"] + second["topics"]}


ONE = {"before": stored, "partitions": 1}

SCENARIOS = (
    Scenario("latest", API, of(-1), **ONE),
    Scenario("latest that is committed", API, of(-1, isolation_level=1), **ONE),
    Scenario("earliest", API, of(-2), **ONE),
    Scenario("of the newest record", API, of(-3), **ONE),
    Scenario("earliest local", API, of(-4), **ONE),
    Scenario("latest tiered", API, of(-5), **ONE),
    Scenario("earliest that is not tiered yet", API, of(-6), **ONE),
    Scenario("a special time that is none", API, of(-7), **ONE),
    Scenario("a time before all records", API, of(0), **ONE),
    Scenario("a time between batches", API, of(NOW_MS - 1500), **ONE),
    Scenario("a record's own time", API, of(NOW_MS), **ONE),
    Scenario("a time after all records", API, of(NOW_MS + 1), **ONE),
    *(
        Scenario(f"record by record, {delta} ms on", API, of(NOW_MS + delta), **UNEVEN)
        for delta in (0, 1, 5, 10, 11, 30, 31, 40, 41)
    ),
    Scenario("record by record, the newest", API, of(-3), **UNEVEN),
    Scenario("record by record, the earliest that has a time", API, of(0), **UNEVEN),
    *(Scenario(f"segment by segment, {delta} ms on", API, of(NOW_MS + delta), **SEALED) for delta in (-600, -500, 0, 1, 20, 21)),
    Scenario("segment by segment, the newest", API, of(-3), **SEALED),
    Scenario("a special time of no meaning", API, of(-(1 << 63)), **ONE),
    Scenario("the greatest time", API, of((1 << 63) - 1), **ONE),
    Scenario("a time that is committed", API, of(NOW_MS, isolation_level=1), **ONE),
    Scenario("without a leader epoch", API, of(NOW_MS, partition={"current_leader_epoch": -1}), **ONE),
    Scenario("a time by an old leader epoch", API, of(NOW_MS, partition={"current_leader_epoch": -2}), **ONE),
    Scenario("of two topics", API, two_topics, **ONE),
    Scenario("a topic twice", API, one_topic_twice, **ONE),
    Scenario("latest of an empty partition", API, of(-1), partitions=1),
    Scenario("the newest record of an empty partition", API, of(-3), partitions=1),
    Scenario("a time of an empty partition", API, of(0), partitions=1),
    Scenario("a topic that is not there", API, of(-1, topic="not-there")),
    Scenario("a topic without a name", API, of(-1, topic="")),
    Scenario("a topic with an illegal name", API, of(-1, topic="a/b")),
    Scenario("a partition that is not there", API, of(-1, -1), partitions=1),
    Scenario("a negative partition", API, of(-1, partition={"partition_index": -1}), partitions=1),
    Scenario("a partition twice", API, of(-1, -2, partition={"partition_index": 0}), **ONE),
    Scenario("no topics", API, lambda w: {"replica_id": -1, "topics": []}),
    Scenario("no partitions", API, of(), partitions=1),
    Scenario("the leader epoch", API, of(-1, partition={"current_leader_epoch": 0}), **ONE),
    Scenario("a leader epoch to come", API, of(-1, partition={"current_leader_epoch": 5}), **ONE),
    Scenario("a leader epoch of before", API, of(-1, partition={"current_leader_epoch": -2}), **ONE),
    Scenario("as a replica", API, of(-1, replica_id=2), **ONE),
    Scenario("as a replica that debugs", API, of(-1, replica_id=-2), **ONE),
    Scenario(
        "an isolation level that is none",
        API,
        of(-1, isolation_level=7),
        **ONE,
        differs=(Differs("list-offsets-isolation-level", "topics.*.partitions.0.error_code", -1, 42),),
    ),
)
