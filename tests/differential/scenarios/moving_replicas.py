"""Reassignments, elections on request and log directories, as one broker alone can show them."""

from tests.differential.batches import batch
from tests.differential.scenario import Fields, Scenario, Step, World
from tests.differential.scenarios.produce import produce

ALTER, LIST = "alter_partition_reassignments", "list_partition_reassignments"
ELECT, DIRECTORIES = "elect_leaders", "describe_log_dirs"


def to(*partitions: tuple[int, list[int] | None], topic: str | None = None):
    def ask(world: World) -> Fields:
        wanted = [{"partition_index": index, "replicas": replicas} for index, replicas in partitions]
        return {"timeout": 5000, "topics": [{"name": world.topic if topic is None else topic, "partitions": wanted}]}

    return ask


def listed(*partitions: int, topic: str | None = None):
    def ask(world: World) -> Fields:
        name = world.topic if topic is None else topic
        return {"timeout": 5000, "topics": [{"name": name, "partition_indexes": list(partitions)}]}

    return ask


def elected(*partitions: int, topic: str | None = None, kind: int = 0):
    def ask(world: World) -> Fields:
        wanted = [{"topic": world.topic if topic is None else topic, "partitions": list(partitions)}]
        return {"topic_partitions": wanted, "timeout": 5000} | ({"election_type": kind} if world.version else {})

    return ask


def described(*partitions: int, topic: str | None = None):
    def ask(world: World) -> Fields:
        return {"topics": [{"topic": world.topic if topic is None else topic, "partitions": list(partitions)}]}

    return ask


def stored(world: World) -> list[Step]:
    first = world.version == 1
    return [Step("produce", 9, produce(world, (0, batch((b"a", b"b", b"c")))))] if first else []


ONE = {"partitions": 1}

SCENARIOS = (
    Scenario("to where it is", ALTER, to((0, [1])), **ONE),
    Scenario("to nobody", ALTER, to((0, [])), **ONE),
    Scenario("to the same twice", ALTER, to((0, [1, 1])), **ONE),
    Scenario("to a node that is not there", ALTER, to((0, [77])), **ONE),
    Scenario("to a negative node", ALTER, to((0, [-1])), **ONE),
    Scenario("cancel what is not under way", ALTER, to((0, None)), **ONE),
    Scenario("move a partition that is not there", ALTER, to((5, [1])), **ONE),
    Scenario("move in a topic that is not there", ALTER, to((0, [1]), topic="not-there")),
    Scenario("move nothing", ALTER, lambda w: {"timeout": 5000, "topics": []}),
    Scenario("all that is under way", LIST, lambda w: {"timeout": 5000, "topics": None}),
    Scenario("what is under way in a topic", LIST, listed(0), **ONE),
    Scenario("what is under way in a topic that is not there", LIST, listed(0, topic="not-there")),
    Scenario("elect the preferred leader that leads", ELECT, elected(0), **ONE),
    Scenario("elect anyone beside a leader", ELECT, elected(0, kind=1), versions=(1, 2), **ONE),
    Scenario("elect in a partition that is not there", ELECT, elected(5), **ONE),
    Scenario("elect in a topic that is not there", ELECT, elected(0, topic="not-there")),
    Scenario("elect nothing", ELECT, lambda w: {"topic_partitions": [], "timeout": 5000}),
    Scenario("where a topic lies", DIRECTORIES, described(0), before=stored, **ONE),
    Scenario("where a topic lies that is not there", DIRECTORIES, described(0, topic="not-there")),
    Scenario("where nothing lies", DIRECTORIES, lambda w: {"topics": []}),
)
