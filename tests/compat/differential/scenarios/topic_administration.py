"""CreateTopics, DeleteTopics, CreatePartitions."""

from tests.compat.differential.scenario import ABSENT, UNKNOWN_ID, Differs, Fields, Scenario, Step

INTERNAL = "__share_group_state"
CREATE, DELETE, MORE = "create_topics", "delete_topics", "create_partitions"


def new(*names: str, validate_only: bool = False, **topic: object) -> Fields:
    fields = {"num_partitions": 1, "replication_factor": 1, **topic}
    return {"topics": [{"name": name, **fields} for name in names], "timeout": 20_000, "validate_only": validate_only}


def create(what: str, **topic: object):
    """A new topic for each version."""
    return lambda world: new(f"create-{what}-v{world.version}", **topic)


def named(*names: str, **topic: object):
    return lambda world: new(*names, **topic)


def assigned(*replicas: tuple[int, list[int]]) -> Fields:
    manual = [{"partition_index": index, "broker_ids": brokers} for index, brokers in replicas]
    return {"num_partitions": -1, "replication_factor": -1, "assignments": manual}


def config(name: str, value: str | None) -> Fields:
    return {"configs": [{"name": name, "value": value}]}


# What the answer shows of a new topic's configs.
NEW = (
    Differs("topic-configs-own", "topics.*.configs.durability|record_validation|producer_ids_max", kafka=ABSENT),
    Differs("topic-configs-min-isr", "topics.*.configs.min_insync_replicas.config_source", 3, 5),
)

CREATING = (
    Scenario("one topic", CREATE, create("one", num_partitions=3), differs=NEW),
    Scenario("only validated", CREATE, create("validated", validate_only=True), differs=NEW),
    Scenario(
        "with configs",
        CREATE,
        create("configs", configs=[{"name": "retention.ms", "value": "1000"}, {"name": "max.message.bytes", "value": "5000"}]),
        differs=NEW,
    ),
    Scenario("with the default counts", CREATE, create("defaults", num_partitions=-1, replication_factor=-1), differs=NEW),
    Scenario("no topics", CREATE, lambda w: {"topics": [], "timeout": 1000}),
    Scenario("a topic that is there", CREATE, lambda w: new(w.topic), partitions=1),
    Scenario("a topic that is there, only validated", CREATE, lambda w: new(w.topic, validate_only=True), partitions=1),
    Scenario("a topic twice", CREATE, named("create-twice", "create-twice")),
    Scenario(
        "a topic twice and another once",
        CREATE,
        named("create-thrice", "create-thrice", "create-once", validate_only=True),
        differs=NEW,
    ),
    Scenario("two dots", CREATE, named("..")),
    Scenario("one dot", CREATE, named(".")),
    Scenario("a slash", CREATE, named("a/b")),
    Scenario("a NUL", CREATE, named("a\0b")),
    Scenario("250 letters", CREATE, named("x" * 250)),
    Scenario("249 letters", CREATE, named("x" * 249, validate_only=True), differs=NEW),
    Scenario("no letters", CREATE, named("")),
    Scenario(
        "a name that only differs by dot and underscore",
        CREATE,
        named("create_like.it"),
        before=lambda w: [Step(CREATE, 4, named("create.like.it")(w))] if w.version == 2 else [],
    ),
    Scenario(
        "two names that only differ by dot and underscore",
        CREATE,
        named("create.alike", "create_alike", validate_only=True),
        differs=(
            *NEW,
            Differs("create-topics-colliding", "topics.create_alike.error_code", 0, 17),
            Differs("create-topics-colliding", "topics.create_alike.configs|num_partitions|replication_factor|topic_id"),
        ),
    ),
    Scenario("an internal name", CREATE, named("__share_group_state", validate_only=True), differs=NEW),
    Scenario("no partitions", CREATE, create("none", num_partitions=0)),
    Scenario("fewer than no partitions", CREATE, create("minus", num_partitions=-2)),
    Scenario("a billion partitions", CREATE, create("billion", num_partitions=10**9)),
    Scenario("ten thousand and one partitions", CREATE, create("many", num_partitions=10_001, validate_only=True)),
    Scenario("no replicas", CREATE, create("no-replicas", replication_factor=0)),
    Scenario("fewer than no replicas", CREATE, create("minus-replicas", replication_factor=-2)),
    Scenario("more replicas than brokers", CREATE, create("replicas", replication_factor=3)),
    Scenario("assigned by hand", CREATE, create("by-hand", **assigned((0, [1]), (1, [1]))), differs=NEW),
    Scenario("assigned by hand, and a count", CREATE, create("by-hand-count", **{**assigned((0, [1])), "num_partitions": 1})),
    Scenario(
        "assigned by hand, and a factor", CREATE, create("by-hand-factor", **{**assigned((0, [1])), "replication_factor": 1})
    ),
    Scenario("assigned to a broker that is not there", CREATE, create("by-hand-unknown", **assigned((0, [9])))),
    Scenario("assigned to a broker twice", CREATE, create("by-hand-twice", **assigned((0, [1, 1])))),
    Scenario("assigned to nobody", CREATE, create("by-hand-nobody", **assigned((0, [])))),
    Scenario("assigned with a gap", CREATE, create("by-hand-gap", **assigned((0, [1]), (2, [1])))),
    Scenario("assigned a partition twice", CREATE, create("by-hand-again", **assigned((0, [1]), (0, [1])))),
    Scenario("assigned a negative partition", CREATE, create("by-hand-negative", **assigned((-1, [1])))),
    Scenario("an unknown config", CREATE, create("unknown-config", **config("no.such.config", "1"))),
    Scenario("a config that is no number", CREATE, create("no-number", **config("retention.ms", "soon"))),
    Scenario("a config out of range", CREATE, create("out-of-range", **config("segment.bytes", "1"))),
    Scenario("a config without a value", CREATE, create("no-value", **config("retention.ms", None))),
    Scenario("a config with an empty value", CREATE, create("empty-value", **config("retention.ms", ""))),
    Scenario(
        "a config twice",
        CREATE,
        create("config-twice", configs=[{"name": "retention.ms", "value": "1"}, {"name": "retention.ms", "value": "2"}]),
        differs=NEW,
    ),
    Scenario("a broker's config", CREATE, create("broker-config", **config("log.retention.ms", "1"))),
    Scenario(
        "compaction",
        CREATE,
        create("compact", **config("cleanup.policy", "compact")),
        differs=NEW,
    ),
    Scenario(
        "a smallest compaction lag above the largest",
        CREATE,
        create(
            "lags", configs=[{"name": f"{end}.compaction.lag.ms", "value": value} for end, value in (("min", "9"), ("max", "8"))]
        ),
    ),
    Scenario("a cleanup policy that is none", CREATE, create("policy", **config("cleanup.policy", "burn"))),
)


def gone(*names: str | None, topic_id: bytes = bytes(16)) -> Fields:
    return {"topic_names": list(names), "topics": [{"name": n, "topic_id": topic_id} for n in names], "timeout": 20_000}


DELETING = (
    Scenario("by name", DELETE, lambda w: gone(w.topic), partitions=2, a_topic_per_version=True),
    Scenario("a topic that is not there", DELETE, lambda w: gone("not-there")),
    Scenario("a topic with an illegal name", DELETE, lambda w: gone("a/b")),
    Scenario("a topic without a name", DELETE, lambda w: gone("")),
    Scenario("no topics", DELETE, lambda w: gone()),
    Scenario("a topic that is not there twice", DELETE, lambda w: gone("not-there", "not-there")),
    Scenario("a topic twice", DELETE, lambda w: gone(w.topic, w.topic), partitions=1, a_topic_per_version=True),
    Scenario("by id", DELETE, lambda w: gone(None, topic_id=w.topic_id), partitions=1, versions=[6]),
    Scenario("by an id that nobody has", DELETE, lambda w: gone(None, topic_id=UNKNOWN_ID), versions=[6]),
    Scenario("by an id that nobody has twice", DELETE, lambda w: gone(None, None, topic_id=UNKNOWN_ID), versions=[6]),
    Scenario("by id and name", DELETE, lambda w: gone(w.topic, topic_id=w.topic_id), partitions=1, versions=[6]),
    Scenario("by neither id nor name", DELETE, lambda w: gone(None), versions=[6]),
    Scenario(
        "by id and once more by name",
        DELETE,
        lambda w: {"topics": [{"name": w.topic}, {"name": None, "topic_id": w.topic_id}], "timeout": 20_000},
        partitions=1,
        versions=[6],
        differs=(Differs("delete-topics-by-id-and-name", "responses"),),
    ),
)


def more(count: int, *assignments: list[int], validate_only: bool = False, topic: str | None = None):
    manual = [{"broker_ids": brokers} for brokers in assignments] or None
    return lambda world: {
        "topics": [{"name": world.topic if topic is None else topic, "count": count, "assignments": manual}],
        "timeout": 20_000,
        "validate_only": validate_only,
    }


ADDING = (
    Scenario("more", MORE, more(3), partitions=1, a_topic_per_version=True),
    Scenario("only validated", MORE, more(3, validate_only=True), partitions=1),
    Scenario("as many as there are", MORE, more(2), partitions=2),
    Scenario("fewer than there are", MORE, more(1), partitions=2),
    Scenario("none", MORE, more(0), partitions=2),
    Scenario("fewer than none", MORE, more(-1), partitions=2),
    Scenario(
        "ten thousand and two",
        MORE,
        more(10_002, validate_only=True),
        partitions=1,
        differs=(Differs("create-partitions-too-many", "results.*.error_code", -1, 44),),
    ),
    Scenario("of a topic that is not there", MORE, more(3, topic="not-there")),
    Scenario("of a topic with an illegal name", MORE, more(3, topic="a/b")),
    Scenario("of a topic without a name", MORE, more(3, topic="")),
    Scenario(
        "of an internal topic",
        MORE,
        more(3, topic=INTERNAL, validate_only=True),
        before=lambda w: [Step(CREATE, 4, new(INTERNAL))] if w.version == 0 else [],
        differs=(Differs("create-partitions-internal", "results.*.error_code", 0, 17),),
    ),
    Scenario("no topics", MORE, lambda w: {"topics": [], "timeout": 1000}),
    Scenario(
        "of a topic twice",
        MORE,
        lambda w: {"topics": [{"name": w.topic, "count": 2}, {"name": w.topic, "count": 3}], "timeout": 20_000},
        partitions=1,
    ),
    Scenario("assigned by hand", MORE, more(3, [1], [1]), partitions=1, a_topic_per_version=True),
    Scenario("too few assigned", MORE, more(3, [1]), partitions=1),
    Scenario("too many assigned", MORE, more(2, [1], [1]), partitions=1),
    Scenario("assigned to a broker that is not there", MORE, more(2, [9]), partitions=1),
    Scenario("assigned to a broker twice", MORE, more(2, [1, 1]), partitions=1),
    Scenario("assigned to nobody", MORE, more(2, []), partitions=1),
)

SCENARIOS = CREATING + DELETING + ADDING
