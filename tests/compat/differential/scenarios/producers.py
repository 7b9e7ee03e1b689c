"""DescribeProducers: the producers that a partition's leader knows of."""

from tests.compat.differential.batches import batch
from tests.compat.differential.scenario import Scenario, Step, World
from tests.compat.differential.scenarios.produce import produce

API = "describe_producers"
FIRST, SECOND = 7_000_001, 7_000_002


def of(*indexes: int, topic: str | None = None):
    return lambda world: {"topics": [{"name": world.topic if topic is None else topic, "partition_indexes": list(indexes)}]}


def written(world: World) -> list[Step]:
    """One producer with two batches, one with another epoch in another partition, and one without a producer id."""
    batches = (
        (0, batch((b"a", b"b"), producer=(FIRST, 0, 0))),
        (0, batch((b"c",), producer=(FIRST, 0, 2))),
        (1, batch((b"d",), producer=(SECOND, 3, 0))),
        (2, batch((b"e",))),
    )
    return [Step("produce", 9, produce(world, each)) for each in batches]


def twice(world: World):
    one = of(0)(world)
    return {"topics": one["topics"] * 2}


SCENARIOS = (
    Scenario("producers of partitions", API, of(0, 1, 2), before=written, partitions=3),
    Scenario("producers of a partition twice", API, of(0, 0), before=written, partitions=3),
    Scenario("producers of a topic twice", API, twice, before=written, partitions=3),
    Scenario("producers of a partition that is not there", API, of(5, -1), partitions=1),
    Scenario("producers of a topic that is not there", API, of(0, topic="not-there")),
    Scenario("producers of a topic without a name", API, of(0, topic="")),
    Scenario("producers of a topic that cannot be", API, of(0, topic="no/such")),
    Scenario("producers of no partitions", API, of(), partitions=1),
    Scenario("producers of no topics", API, lambda world: {"topics": []}),
)
