"""ListOffsets: each special timestamp, on each version."""

from tests.differential.batches import NOW_MS, batch
from tests.differential.scenario import Differs, Fields, Scenario, Step, World
from tests.differential.scenarios.produce import produce

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
