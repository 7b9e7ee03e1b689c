"""Metadata: all topics, some, none; by name and by id; created on demand or not."""

from tests.compat.differential.scenario import UNKNOWN_ID, Differs, Fields, Scenario, World

API = "metadata"
SINCE_IDS = range(10, 14)


def metadata(*names: str | None, **more: object) -> Fields:
    return {"topics": [{"name": name} for name in names], "allow_auto_topic_creation": False, **more}


def of(*names: str | None, **more: object):
    return lambda world: metadata(*names, **more)


def own(**more: object):
    return lambda world: metadata(world.topic, **more)


def by_id(topic_id: bytes, name: str | None = None) -> Fields:
    return {"topics": [{"topic_id": topic_id, "name": name}], "allow_auto_topic_creation": False}


def new_name(world: World) -> str:
    return f"metadata-made-on-demand-v{world.version}"


SCENARIOS = (
    # First, since later scenarios make topics that only one of the two takes.
    Scenario("all topics", API, lambda w: {"topics": [] if w.version == 0 else None}, partitions=2),
    Scenario("one topic", API, own(), partitions=3),
    Scenario("one topic twice", API, lambda w: metadata(w.topic, w.topic), partitions=1),
    Scenario("no topics", API, of()),
    Scenario("no topics, with authorized operations", API, of(include_cluster_authorized_operations=True), versions=range(8, 14)),
    Scenario(
        "with authorized operations", API, own(include_topic_authorized_operations=True), versions=range(8, 14), partitions=1
    ),
    # From version 4 a client may say whether it wants topics created; before, asking is wanting.
    Scenario("a topic that is not there", API, of("not-there"), versions=range(4, 14)),
    Scenario(
        "a topic that is not there, with authorized operations",
        API,
        of("not-there", include_topic_authorized_operations=True),
        versions=range(8, 14),
    ),
    Scenario(
        "a topic that is made on demand",
        API,
        lambda w: metadata(new_name(w), allow_auto_topic_creation=True),
        differs=(
            Differs("metadata-created-at-once", "topics.*.error_code", 3, 0),
            Differs("metadata-created-at-once", "topics.*.partitions|topic_id"),
        ),
    ),
    Scenario("two dots", API, of("..", allow_auto_topic_creation=True)),
    Scenario("a slash", API, of("a/b", allow_auto_topic_creation=True)),
    Scenario("a NUL", API, of("a\0b", allow_auto_topic_creation=True)),
    Scenario("250 letters", API, of("x" * 250, allow_auto_topic_creation=True)),
    Scenario("no letters", API, of("", allow_auto_topic_creation=True)),
    Scenario("an illegal name, and nothing on demand", API, of("a/b"), versions=range(4, 14)),
    Scenario("an internal topic that is not there", API, of("__consumer_offsets"), versions=range(4, 14)),
    Scenario("by id", API, lambda w: by_id(w.topic_id), partitions=1, versions=range(12, 14)),
    Scenario("by an id that nobody has", API, lambda w: by_id(UNKNOWN_ID), versions=range(12, 14)),
    Scenario("by id before ids", API, lambda w: by_id(UNKNOWN_ID, "x"), versions=range(10, 12)),
    Scenario("by id and name", API, lambda w: by_id(w.topic_id, w.topic), partitions=1, versions=range(12, 14)),
    Scenario("by id and another name", API, lambda w: by_id(w.topic_id, "another"), partitions=1, versions=range(12, 14)),
    Scenario(
        "by neither id nor name",
        API,
        lambda w: by_id(bytes(16)),
        versions=range(12, 14),
        differs=(
            Differs("metadata-unnamed", "topics.0.error_code", -1, 17),
            Differs("metadata-unnamed", "brokers|cluster_id|controller_id|error_code"),
        ),
    ),
    Scenario(
        "one by id, one by name",
        API,
        lambda w: {"topics": [{"topic_id": w.topic_id, "name": None}, {"name": "not-there"}], "allow_auto_topic_creation": False},
        partitions=1,
        versions=range(12, 14),
    ),
)
