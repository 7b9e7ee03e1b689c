"""Committed offsets, and what operators ask about groups that nobody is in. Each version has a group of its own."""

from collections.abc import Callable
from datetime import timedelta

from tests.compat.differential.scenario import UNKNOWN_ID, Fields, Scenario, Step, World

COMMIT, FETCH, DELETE = "offset_commit", "offset_fetch", "offset_delete"
DELETE_GROUPS, DESCRIBE, CONSUMER_DESCRIBE, LIST = "delete_groups", "describe_groups", "consumer_group_describe", "list_groups"
LONG = "x" * 4097

Ask = Callable[[World], Fields]


def group(world: World) -> str:
    return f"{world.topic} {world.version}"


def committing(
    world: World, *offsets: tuple[int, int], name: str | None = None, metadata: str | None = "m", **who: object
) -> Fields:
    """(partition, offset) of the scenario's topic, and of one that is not there."""
    partitions = [
        {"partition_index": index, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": metadata}
        for index, offset in offsets
    ]
    topics = [{**world.names(), "partitions": partitions}]
    if name is not None:
        topics.insert(0, {"name": name, "topic_id": UNKNOWN_ID, "partitions": partitions})
    about = {
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "retention_time": timedelta(milliseconds=-1),
        **who,
    }
    return {"group_id": group(world), "topics": topics, **about}


def commit(*offsets: tuple[int, int], **how: object) -> Ask:
    return lambda world: committing(world, *offsets, **how)  # type: ignore[arg-type]


def committed(world: World) -> list[Step]:
    return [Step(COMMIT, 9, committing(world, (1, 5)))]


def fetch(*partitions: int, everything: bool = False, elsewhere: bool = False, **who: object) -> Ask:
    def ask(world: World) -> Fields:
        named = [{**world.names(), "partition_indexes": list(partitions)}]
        if elsewhere:
            named.insert(0, {"name": "nowhere", "topic_id": UNKNOWN_ID, "partition_indexes": [0]})
        if world.version < 8:
            single = [{key: value for key, value in topic.items() if key != "topic_id"} for topic in named]
            return {"group_id": group(world), "topics": None if everything else single, "require_stable": True}
        about = {"group_id": group(world), "member_id": None, "member_epoch": -1, **who}
        return {"groups": [{**about, "topics": None if everything else named}], "require_stable": True}

    return ask


def delete(*partitions: int, elsewhere: bool = False) -> Ask:
    def ask(world: World) -> Fields:
        topics = [{"name": world.topic, "partitions": [{"partition_index": one} for one in partitions]}]
        if elsewhere:
            topics.append({"name": "nowhere", "partitions": [{"partition_index": 0}]})
        return {"group_id": group(world), "topics": topics}

    return ask


def describe(world: World) -> Fields:
    return {"groups": [group(world)], "include_authorized_operations": True}


def describe_consumers(world: World) -> Fields:
    return {"group_ids": [group(world)], "include_authorized_operations": True}


SCENARIOS = (
    # Before all others: these versions tell of every group that there is.
    Scenario("everything", LIST, lambda world: {}, range(4), partitions=2, before=committed),
    Scenario("offsets", COMMIT, commit((0, 5), (1, 0)), partitions=2),
    Scenario("what is not there", COMMIT, commit((0, 5), (7, 5), (-1, 5), name="nowhere"), partitions=2),
    Scenario("nothing of a topic that is not there", COMMIT, commit(name="nowhere"), partitions=1),
    Scenario("negative offsets", COMMIT, commit((0, -1), (1, -(2**63))), partitions=2),
    Scenario("metadata that is null", COMMIT, commit((0, 5), metadata=None), partitions=1),
    Scenario("metadata that is too long", COMMIT, commit((0, 5), metadata=LONG), partitions=1),
    Scenario("metadata of two units a character", COMMIT, commit((0, 5), metadata="\U0001f600" * 2049), partitions=1),
    Scenario("a generation of no group", COMMIT, commit((0, 5), generation_id_or_member_epoch=3), partitions=1),
    Scenario(
        "a generation of a simple group", COMMIT, commit((0, 5), generation_id_or_member_epoch=3), partitions=2, before=committed
    ),
    Scenario("a member of a simple group", COMMIT, commit((0, 5), member_id="m"), partitions=2, before=committed),
    Scenario("of a group that is not there", FETCH, fetch(0, 9, elsewhere=True), partitions=1),
    Scenario("of a simple group", FETCH, fetch(0, 1, 9, elsewhere=True), partitions=2, before=committed),
    Scenario("everything", FETCH, fetch(everything=True), range(2, 11), partitions=2, before=committed),
    Scenario("everything of nobody", FETCH, fetch(everything=True), range(2, 11), partitions=1),
    Scenario("of a member of a simple group", FETCH, fetch(1, member_id="m", member_epoch=3), partitions=2, before=committed),
    Scenario("of a group that is not there", DELETE, delete(0), partitions=1),
    Scenario("of a simple group", DELETE, delete(0, 1, 9, elsewhere=True), partitions=2, before=committed),
    Scenario("of no name", DELETE, lambda world: {"group_id": "", "topics": []}),
    Scenario("a group that is not there", DELETE_GROUPS, lambda world: {"groups_names": ["nobody"]}),
    Scenario("a simple group", DELETE_GROUPS, lambda world: {"groups_names": [group(world)]}, partitions=2, before=committed),
    Scenario("a group that is not there", DESCRIBE, lambda world: {"groups": ["nobody"], "include_authorized_operations": True}),
    Scenario("a simple group", DESCRIBE, describe, partitions=2, before=committed),
    Scenario("a simple group", CONSUMER_DESCRIBE, describe_consumers, partitions=2, before=committed),
    Scenario("a group that is not there", CONSUMER_DESCRIBE, describe_consumers, partitions=1),
    Scenario("no name", CONSUMER_DESCRIBE, lambda world: {"group_ids": [""], "include_authorized_operations": True}),
    Scenario("states and types that nobody has", LIST, lambda world: {"states_filter": ["odd"], "types_filter": ["odd"]}, (4, 5)),
)
