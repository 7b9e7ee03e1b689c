"""Reassignments, elections on request, log directories and unregistering, as one broker alone can show them."""

from tests.compat.differential.batches import batch
from tests.compat.differential.scenario import Fields, Scenario, Step, World
from tests.compat.differential.scenarios.produce import produce

ALTER, LIST = "alter_partition_reassignments", "list_partition_reassignments"
ELECT, DIRECTORIES = "elect_leaders", "describe_log_dirs"
UNREGISTER = "unregister_broker"
MOVE = "alter_replica_log_dirs"


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


def moved(*directories: tuple[str, str | None, list[int]]):
    """Moves (path, topic, partitions). A path of "" is broker 1's log directory, a topic of None the scenario's own."""

    def ask(world: World) -> Fields:
        wanted = [
            {"path": path or log_directory(world), "topics": [{"name": topic or world.topic, "partitions": partitions}]}
            for path, topic, partitions in directories
        ]
        return {"dirs": wanted}

    return ask


def log_directory(world: World) -> str:
    answer = world.system.ask(DIRECTORIES, 1, {"topics": []})
    assert isinstance(answer, dict)
    return str(answer["results"][0]["log_dir"])


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
    Scenario("move a replica to where it is", MOVE, moved(("", None, [0])), before=stored, **ONE),
    Scenario("move a replica to a directory that is not there", MOVE, moved(("/not/there", None, [0])), **ONE),
    Scenario("move a partition that is not there to a directory", MOVE, moved(("", None, [5, -1])), **ONE),
    Scenario("move a topic that is not there to a directory", MOVE, moved(("", "not-there", [0]))),
    Scenario("move what is not there to where nothing is", MOVE, moved(("/not/there", "not-there", [0]))),
    Scenario("move a topic whose name leaves no room", MOVE, moved(("/not/there", "x" * 214, [0]), ("", "x" * 213, [0, 10]))),
    Scenario("move a replica to two directories", MOVE, moved(("", None, [0]), ("/not/there", None, [0])), **ONE),
    Scenario("move a replica to two directories, the last one there", MOVE, moved(("/x", None, [0, 0]), ("", None, [0])), **ONE),
    Scenario("move nothing to a directory", MOVE, moved(("", None, []))),
    Scenario("move nothing to no directory", MOVE, lambda w: {"dirs": []}),
    Scenario("a node that never registered", UNREGISTER, lambda w: {"broker_id": 77}),
    Scenario("a node that cannot be", UNREGISTER, lambda w: {"broker_id": -1}),
    Scenario("where nothing lies", DIRECTORIES, lambda w: {"topics": []}),
)
