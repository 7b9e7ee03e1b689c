"""DeleteRecords: where a log may be made to start."""

from tests.compat.differential.batches import NOW_MS, batch
from tests.compat.differential.scenario import Fields, Scenario, Step, World
from tests.compat.differential.scenarios.list_offsets import offsets
from tests.compat.differential.scenarios.produce import produce

API = "delete_records"


def deletion(world: World, *partitions: tuple[int, int], topic: str | None = None, timeout: int = 5000) -> Fields:
    wanted = [{"partition_index": index, "offset": offset} for index, offset in partitions]
    return {"topics": [{"name": world.topic if topic is None else topic, "partitions": wanted}], "timeout": timeout}


def of(*partitions: tuple[int, int], **more: object):
    return lambda world: deletion(world, *partitions, **more)


def stored(world: World) -> list[Step]:
    """Offsets 0-1, 2-3 and 4."""
    batches = batch((b"a", b"b")), batch((b"c", b"d")), batch()
    return [Step("produce", 9, produce(world, (0, each))) for each in batches]


def deleted(*partitions: tuple[int, int]):
    return lambda world: [*stored(world), Step(API, 2, deletion(world, *partitions))]


FULL = {"before": stored, "partitions": 1, "a_topic_per_version": True}


def one_topic_twice(world: World) -> Fields:
    first, second = deletion(world, (0, 4)), deletion(world, (0, 2))
    return {"topics": first["topics"] + second["topics"], "timeout": 5000}


def fetched(world: World, offset: int) -> Fields:
    wanted = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    return {"max_wait": 0, "min_bytes": 0, "topics": [{"topic": world.topic, "partitions": [wanted]}]}


SCENARIOS = (
    Scenario("to an offset", API, of((0, 3)), **FULL),
    Scenario("to the end", API, of((0, 5)), **FULL),
    Scenario("to the high watermark", API, of((0, -1)), **FULL),
    Scenario("to where it starts", API, of((0, 0)), **FULL),
    Scenario("past the end", API, of((0, 6)), **FULL),
    Scenario("to no offset", API, of((0, -2)), **FULL),
    Scenario("to the smallest number", API, of((0, -(1 << 63))), **FULL),
    Scenario("to the greatest number", API, of((0, (1 << 63) - 1)), **FULL),
    Scenario("to what went before", API, of((0, 1)), before=deleted((0, 3)), partitions=1, a_topic_per_version=True),
    Scenario("of an empty partition", API, of((0, -1)), partitions=1),
    Scenario("a partition twice", API, of((0, 3), (0, 1)), **FULL),
    Scenario("a topic twice", API, one_topic_twice, **FULL),
    Scenario("two partitions", API, of((0, 3), (1, 0), (2, 1)), before=stored, partitions=2, a_topic_per_version=True),
    Scenario("without a timeout", API, of((0, 3), timeout=0), **FULL),
    Scenario("with a negative timeout", API, of((0, 3), timeout=-1), **FULL),
    Scenario("a topic that is not there", API, of((0, 0), topic="not-there")),
    Scenario("a topic without a name", API, of((0, 0), topic="")),
    Scenario("a topic with an illegal name", API, of((0, 0), topic="a/b")),
    Scenario("an internal topic", API, of((0, 0), topic="__transaction_state")),
    Scenario("a partition that is not there", API, of((5, 0)), partitions=1),
    Scenario("a negative partition", API, of((-1, 0)), partitions=1),
    Scenario("no topics", API, lambda w: {"topics": [], "timeout": 5000}),
    Scenario("no partitions", API, of(), partitions=1),
    Scenario("then the earliest", "list_offsets", lambda w: offsets(w, -2), before=deleted((0, 3)), partitions=1,
             a_topic_per_version=True),
    Scenario("then a time before", "list_offsets", lambda w: offsets(w, NOW_MS - 5), before=deleted((0, 3)), partitions=1,
             a_topic_per_version=True),
    Scenario("all, then the newest record", "list_offsets", lambda w: offsets(w, -3), before=deleted((0, -1)), partitions=1,
             versions=range(7, 12), a_topic_per_version=True),
    Scenario("all, then a time", "list_offsets", lambda w: offsets(w, 0), before=deleted((0, -1)), partitions=1,
             a_topic_per_version=True),
    Scenario("then before the start", "fetch", lambda w: fetched(w, 2), before=deleted((0, 3)), versions=range(4, 13),
             partitions=1, a_topic_per_version=True),
    Scenario("then from the start", "fetch", lambda w: fetched(w, 3), before=deleted((0, 3)), versions=range(4, 13),
             partitions=1, a_topic_per_version=True),
)  # fmt: skip
