"""OffsetForLeaderEpoch: where epochs end, as consumers ask it."""

from tests.compat.differential.batches import batch
from tests.compat.differential.scenario import Fields, Scenario, Step, World
from tests.compat.differential.scenarios.produce import produce

API = "offset_for_leader_epoch"


def ends(world: World, *partitions: tuple[int, int, int], topic: str | None = None, **more: object) -> Fields:
    """(partition, current leader epoch, epoch)"""
    wanted = [{"partition": index, "current_leader_epoch": now, "leader_epoch": epoch} for index, now, epoch in partitions]
    name = world.topic if topic is None else topic
    return {"replica_id": -1, "topics": [{"topic": name, "partitions": wanted}], **more}


def of(*partitions: tuple[int, int, int], **more: object):
    return lambda world: ends(world, *partitions, **more)


def stored(world: World) -> list[Step]:
    """Offsets 0-2 in epoch 0, once per topic."""
    return [Step("produce", 9, produce(world, (0, batch((b"a", b"b", b"c")))))] if world.version == 2 else []


FULL = {"before": stored, "partitions": 1}


def two_topics(world: World) -> Fields:
    here, there = ends(world, (0, -1, 0)), ends(world, (0, -1, 0), topic="not-there")
    return {**here, "topics": here["topics"] + there["topics"]}


SCENARIOS = (
    Scenario("the end of the present epoch", API, of((0, -1, 0)), **FULL),
    Scenario("the end of an epoch to come", API, of((0, -1, 1)), **FULL),
    Scenario("the end of no epoch", API, of((0, -1, -1)), **FULL),
    Scenario("the end of an epoch below none", API, of((0, -1, -7)), **FULL),
    Scenario("the end of an epoch in an empty log", API, of((0, -1, 0)), partitions=1),
    Scenario("an end, by who knows the epoch", API, of((0, 0, 0)), **FULL),
    Scenario("an end, by who is ahead", API, of((0, 1, 0)), **FULL),
    Scenario("an end, by who is far ahead", API, of((0, (1 << 31) - 1, 0)), **FULL),
    Scenario("an end, by who is below none", API, of((0, -2, 0)), **FULL),
    Scenario("an end in two topics", API, two_topics, **FULL),
    Scenario("an end in a topic that is not there", API, of((0, -1, 0), topic="not-there")),
    Scenario("an end in a topic without a name", API, of((0, -1, 0), topic="")),
    Scenario("an end in a partition that is not there", API, of((5, -1, 0)), partitions=1),
    Scenario("an end in a negative partition", API, of((-1, -1, 0)), partitions=1),
    Scenario("an end, as nobody", API, of((0, -1, 0), replica_id=-2), **FULL),
    Scenario("ends in no topics", API, lambda w: {"replica_id": -1, "topics": []}),
    Scenario("ends in no partitions", API, of(), partitions=1),
)
