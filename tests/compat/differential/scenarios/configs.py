"""DescribeConfigs, IncrementalAlterConfigs, AlterConfigs of topics and brokers."""

from functools import partial

from tests.compat.differential.scenario import ABSENT, Differs, Fields, Scenario, Step, World
from tests.compat.differential.systems import STUCK

DESCRIBE, CHANGE, REPLACE = "describe_configs", "incremental_alter_configs", "alter_configs"
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS = 2, 4, 8, 16
SET, REMOVE, APPEND, SUBTRACT = 0, 1, 2, 3


def describe(kind: int, name: str | None = None, keys: list[str] | None = None, **more: object):
    def ask(world: World) -> Fields:
        resource = {"resource_type": kind, "resource_name": world.topic if name is None else name, "configuration_keys": keys}
        return {"resources": [resource], **more}

    return ask


BALANCING = "|".join(
    f"self_balancing_{name}" for name in ("mode", "moves_max", "bytes_per_second", "away_ms", "imbalance_percentage")
)

SET_FOR_GROUPS = "group_initial_rebalance_delay_ms|group_max_size|group_consumer_max_size"
"""Kafka was told at its start, Penstock when it ran: test_differences.py."""

STARTED_WITH = "|".join(
    name.replace(".", "_")
    for name in (
        *("process.roles", "controller.listener.names", "controller.quorum.voters", "transaction.state.log.min.isr"),
        *("transaction.state.log.replication.factor", "share.coordinator.state.topic.min.isr"),
        "share.coordinator.state.topic.replication.factor",
    )
)
"""What a broker of Kafka's must be told at its start: tests/compat/kafka/broker.py."""

OWN_OF_BROKERS = "log_durability|log_record_validation|log_producer_ids_max"

TOPICS = (
    Differs("topic-configs-own", "results.*.configs.durability|record_validation|producer_ids_max", kafka=ABSENT),
    Differs("topic-configs-min-isr", "results.*.configs.min_insync_replicas.config_source", 3, 5),
)

DESCRIBING = (
    Scenario("a topic", DESCRIBE, describe(TOPIC), partitions=1, differs=TOPICS),
    Scenario(
        "a topic with synonyms",
        DESCRIBE,
        describe(TOPIC, include_synonyms=True),
        partitions=1,
        configs={"retention.ms": "123456"},
        differs=(*TOPICS, Differs("topic-configs-min-isr", "results.*.configs.min_insync_replicas.synonyms")),
    ),
    Scenario("a topic with documentation", DESCRIBE, describe(TOPIC, include_documentation=True), partitions=1, differs=TOPICS),
    Scenario("two configs of a topic", DESCRIBE, describe(TOPIC, keys=["retention.ms", "cleanup.policy"]), partitions=1),
    Scenario("an empty list of configs", DESCRIBE, describe(TOPIC, keys=[]), partitions=1, differs=TOPICS),
    Scenario("a config that is not there", DESCRIBE, describe(TOPIC, keys=["no.such.config"]), partitions=1),
    Scenario("a topic that is not there", DESCRIBE, describe(TOPIC, "not-there")),
    Scenario("a topic with an illegal name", DESCRIBE, describe(TOPIC, "a/b")),
    Scenario("a topic without a name", DESCRIBE, describe(TOPIC, "")),
    Scenario(
        "a broker",
        DESCRIBE,
        describe(BROKER, "1"),
        differs=(
            Differs("broker-configs-of-processes", "results.1.configs.listeners|log_dir|log_dirs.value|config_source"),
            Differs("broker-configs-of-processes", f"results.1.configs.{STARTED_WITH}.value|config_source"),
            Differs("broker-configs-changeable", "results.1.configs.*.read_only"),
            Differs("broker-configs-changeable", f"results.1.configs.{SET_FOR_GROUPS}.config_source", 4, 3),
            Differs("broker-configs-protocols", "results.1.configs.group_coordinator_rebalance_protocols.value"),
            Differs("broker-configs-revived", "results.1.configs.leader_imbalance_per_broker_percentage", kafka=ABSENT),
            Differs("broker-configs-revived", "results.1.configs.replica_lag_max_messages", kafka=ABSENT),
            Differs("broker-configs-balancing", "results.1.configs.decommission", kafka=ABSENT),
            Differs("broker-configs-balancing", f"results.1.configs.{BALANCING}", kafka=ABSENT),
            Differs("default-replication-factor", "results.1.configs.default_replication_factor.value|synonyms"),
            Differs("default-replication-factor", "results.1.configs.offsets_topic_replication_factor.value|config_source"),
            Differs(
                "topic-configs-own", "results.1.configs.log_durability|log_record_validation|log_producer_ids_max", kafka=ABSENT
            ),
            Differs("topic-configs-min-isr", "results.1.configs.min_insync_replicas.config_source"),
        ),
    ),
    Scenario(
        "a broker with synonyms",
        DESCRIBE,
        describe(BROKER, "1", ["log.retention.ms", "message.max.bytes"], include_synonyms=True),
    ),
    Scenario(
        "the default of all brokers",
        DESCRIBE,
        describe(BROKER, ""),
        differs=(
            Differs("topic-configs-min-isr", "results.*.configs.min_insync_replicas", penstock=ABSENT),
            Differs("broker-configs-changeable", f"results.*.configs.{SET_FOR_GROUPS}", kafka=ABSENT),
        ),
    ),
    Scenario("a broker that is not there", DESCRIBE, describe(BROKER, "7")),
    Scenario("a broker that is no number", DESCRIBE, describe(BROKER, "seven")),
    Scenario(
        "a broker's loggers",
        DESCRIBE,
        describe(BROKER_LOGGER, "1"),
        differs=(
            Differs("broker-loggers", "results.*.configs.*", kafka=ABSENT),
            Differs("broker-loggers", "results.*.configs.*", penstock=ABSENT),
            Differs("broker-loggers", "results.*.configs.*.value", "WARN", "INFO"),  # as the tests' Kafka starts
        ),
    ),
    Scenario("the root logger", DESCRIBE, describe(BROKER_LOGGER, "1", ["root"], include_synonyms=True)),
    Scenario("the root logger documented", DESCRIBE, describe(BROKER_LOGGER, "1", ["root"], include_documentation=True)),
    Scenario("a logger that is not there", DESCRIBE, describe(BROKER_LOGGER, "1", ["no.such.logger"])),
    Scenario("loggers of no broker", DESCRIBE, describe(BROKER_LOGGER, "")),
    Scenario("loggers of a broker that is not there", DESCRIBE, describe(BROKER_LOGGER, "7")),
    Scenario("loggers of a broker that is no number", DESCRIBE, describe(BROKER_LOGGER, "seven")),
    Scenario(
        "client metrics",
        DESCRIBE,
        describe(CLIENT_METRICS, "no-such-subscription"),
        differs=(Differs("configs-of-others", "results.*.error_code", 0, 42), Differs("configs-of-others", "results.*.configs")),
    ),
    Scenario("a kind that is none", DESCRIBE, describe(3, "x")),
    Scenario("kind 0", DESCRIBE, describe(0, "x")),
    Scenario("nothing", DESCRIBE, lambda w: {"resources": []}),
    Scenario(
        "a topic twice",
        DESCRIBE,
        lambda w: {"resources": 2 * describe(TOPIC, keys=["retention.ms"])(w)["resources"]},
        partitions=1,
    ),
)


def change(
    *configs: tuple[str, int, str | None], kind: int = TOPIC, name: str | None = None, times: int = 1, validate_only: bool = False
):
    def ask(world: World) -> Fields:
        resource = {
            "resource_type": kind,
            "resource_name": world.topic if name is None else name,
            "configs": [{"name": key, "config_operation": operation, "value": value} for key, operation, value in configs],
        }
        return {"resources": [resource] * times, "validate_only": validate_only}

    return ask


OF_BROKERS = (
    ("log.cleaner.io.buffer.size", "600000"),
    ("log.cleaner.io.buffer.size", "-1"),
    ("log.cleaner.io.buffer.size", "many"),
    ("log.cleaner.io.buffer.load.factor", "7"),
    ("num.io.threads", "9"),
    ("num.network.threads", "0"),
    ("max.connections.per.ip", "7"),
    ("max.connections.per.ip.overrides", "localhost:5"),
    ("controller.quorum.fetch.timeout.ms", "5"),
    ("log.initial.task.delay.ms", "5"),
    ("authorizer.class.name", "x"),
    ("ssl.client.auth", "required"),
    ("ssl.client.auth", "perhaps"),
    ("sasl.jaas.config", "x"),
    ("ssl.keystore.location", "/x"),
    ("listener.name.plaintext.ssl.keystore.location", "/x"),
    *(("listener.name.plaintext.max.connections", value) for value in ("70", "0")),
    ("listener.name.plaintext.max.connection.creation.rate", "70"),
    ("listener.name.plaintext.max.connections.per.ip", "7"),
    ("listener.name.other.max.connections", "70"),
    ("listener.name.plaintext.max.connections", "many"),
    ("listener.name.plaintext.num.io.threads", "9"),
    ("no.such.config", "1"),
    ("no.such.config", ""),
)
"""Configs of brokers without effect here, limits of connections, and names that nobody knows, each with a value."""

KEPT = ("log.cleaner.io.buffer.size", "num.replica.fetchers", "no.such.config", "listener.name.x.num.network.threads")

LACKING = frozenset(
    (
        *((resource, "max.connections.per.ip.overrides", "localhost:5") for resource in ("1", "")),
        *(("1", "ssl.client.auth", "required"), ("1", "sasl.jaas.config", "x")),
        ("1", "listener.name.plaintext.ssl.keystore.location", "/x"),
    )
)
"""Of a resource: the configs that Kafka takes, and that ask for a protection or a limit which is missing here."""


def kept(resource: str, names: tuple[str, ...], world: World) -> list[Step]:
    """Sets them, and asks what is in force then."""
    return [
        Step(CHANGE, 1, change(*((name, SET, "1") for name in names), kind=BROKER, name=resource)(world)),
        Step(DESCRIBE, 4, describe(BROKER, resource, list(names), include_synonyms=True, include_documentation=True)(world)),
    ]


READ_BACK = (
    *(("leader.replication.throttled.replicas", value) for value in ("0:1,1:2", "0:1, 1:2", "1:2,0:1", "*", "0:1,", "")),
    *(("min.cleanable.dirty.ratio", value) for value in ("0.5f", "0x1p-1", " 1e-1 ", "5e-1d", "0x1.999999999999ap-4", "1e-400")),
)
"""Configs of topics whose texts Kafka reads and writes anew."""


def set_to(name: str, value: str, world: World) -> list[Step]:
    return [Step(CHANGE, 1, change((name, SET, value))(world))]


CHANGING = (
    Scenario("set", CHANGE, change(("retention.ms", SET, "5000")), partitions=1),
    Scenario("set, only validated", CHANGE, change(("retention.ms", SET, "5000"), validate_only=True), partitions=1),
    Scenario("remove", CHANGE, change(("retention.ms", REMOVE, None)), partitions=1, configs={"retention.ms": "77"}),
    Scenario("remove what is not set", CHANGE, change(("retention.ms", REMOVE, None)), partitions=1),
    Scenario("remove, with a value", CHANGE, change(("retention.ms", REMOVE, "5")), partitions=1),
    Scenario("append to a list", CHANGE, change(("cleanup.policy", APPEND, "delete")), partitions=1),
    Scenario("subtract from a list", CHANGE, change(("leader.replication.throttled.replicas", SUBTRACT, "0:1")), partitions=1),
    Scenario(
        "subtract all of a list",
        CHANGE,
        change(("cleanup.policy", SUBTRACT, "delete")),
        partitions=1,
    ),
    Scenario("append to what is no list", CHANGE, change(("retention.ms", APPEND, "5")), partitions=1),
    Scenario("subtract from what is no list", CHANGE, change(("retention.ms", SUBTRACT, "5")), partitions=1),
    Scenario(
        "an operation that is none",
        CHANGE,
        change(("retention.ms", 9, "5")),
        partitions=1,
        differs=(Differs("alter-configs-unknown-operation", "responses.*.error_code", -1, 42),),
    ),
    Scenario(
        "a negative operation",
        CHANGE,
        change(("retention.ms", -1, "5")),
        partitions=1,
        differs=(Differs("alter-configs-unknown-operation", "responses.*.error_code", -1, 42),),
    ),
    Scenario("set to no value", CHANGE, change(("retention.ms", SET, None)), partitions=1),
    Scenario("set to an empty value", CHANGE, change(("retention.ms", SET, "")), partitions=1),
    Scenario("append no value", CHANGE, change(("cleanup.policy", APPEND, None)), partitions=1),
    Scenario("an unknown config", CHANGE, change(("no.such.config", SET, "1")), partitions=1),
    Scenario("remove an unknown config", CHANGE, change(("no.such.config", REMOVE, None)), partitions=1),
    Scenario("a config that is no number", CHANGE, change(("retention.ms", SET, "soon")), partitions=1),
    Scenario("a config out of range", CHANGE, change(("segment.bytes", SET, "1")), partitions=1),
    Scenario(
        "a config of one that is and one that is not",
        CHANGE,
        change(("retention.ms", SET, "5"), ("no.such.config", SET, "1")),
        partitions=1,
    ),
    Scenario("a config twice", CHANGE, change(("retention.ms", SET, "5"), ("retention.ms", REMOVE, None)), partitions=1),
    Scenario("no config", CHANGE, change(), partitions=1),
    Scenario("nothing", CHANGE, lambda w: {"resources": []}),
    Scenario("a topic twice", CHANGE, change(("retention.ms", SET, "5"), times=2), partitions=1),
    Scenario("a topic that is not there", CHANGE, change(("retention.ms", SET, "5"), name="not-there")),
    Scenario("a topic with an illegal name", CHANGE, change(("retention.ms", SET, "5"), name="a/b")),
    Scenario("a topic without a name", CHANGE, change(("retention.ms", SET, "5"), name="")),
    Scenario("a kind that is none", CHANGE, change(("retention.ms", SET, "5"), kind=3, name="x")),
    Scenario("kind 0", CHANGE, change(("retention.ms", SET, "5"), kind=0, name="x")),
    Scenario("compaction", CHANGE, change(("cleanup.policy", SET, "compact")), partitions=1),
    Scenario(
        "a policy twice, and back",
        DESCRIBE,
        describe(TOPIC, keys=["cleanup.policy"], include_synonyms=True),
        before=lambda w: [Step(CHANGE, 1, change(("cleanup.policy", SET, "delete, delete"))(w))],
        partitions=1,
    ),
    *(
        Scenario(
            f"{name} of text {number} is set and read back",
            DESCRIBE,
            describe(TOPIC, keys=[name], include_synonyms=True),
            before=partial(set_to, name, value),
            partitions=1,
        )
        for number, (name, value) in enumerate(READ_BACK)
    ),
    Scenario(
        "a smallest lag above the largest",
        CHANGE,
        change(("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "9")),
        partitions=1,
    ),
    Scenario(
        "a largest lag below the smallest that is there",
        CHANGE,
        change(("max.compaction.lag.ms", SET, "9"), validate_only=True),
        before=lambda w: [Step(CHANGE, 1, change(("min.compaction.lag.ms", SET, "10"))(w))],
        partitions=1,
    ),
    Scenario(
        "a smallest lag above the largest, in the cluster's own words",
        CHANGE,
        change(
            ("log.cleaner.min.compaction.lag.ms", SET, "10"),
            ("log.cleaner.max.compaction.lag.ms", SET, "9"),
            kind=BROKER,
            name="",
            validate_only=True,
        ),
    ),
    Scenario("a cleanup policy that is none", CHANGE, change(("cleanup.policy", SET, "burn")), partitions=1),
    Scenario("a config of a broker", CHANGE, change(("log.retention.ms", SET, "900000000"), kind=BROKER, name="1")),
    Scenario("a config of all brokers", CHANGE, change(("log.retention.ms", SET, "900000000"), kind=BROKER, name="")),
    Scenario("a config of a broker, removed", CHANGE, change(("log.retention.ms", REMOVE, None), kind=BROKER, name="1")),
    Scenario("a config of all brokers, removed", CHANGE, change(("log.retention.ms", REMOVE, None), kind=BROKER, name="")),
    Scenario("a config of a broker that is not there", CHANGE, change(("log.retention.ms", SET, "1"), kind=BROKER, name="7")),
    Scenario("a config of a broker that is no number", CHANGE, change(("log.retention.ms", SET, "1"), kind=BROKER, name="seven")),
    Scenario(
        "a config of a broker that is no number, on it", CHANGE, change(("log.retention.ms", SET, "soon"), kind=BROKER, name="1")
    ),
    Scenario(
        "a config that a broker only has at its start", CHANGE, change(("log.dirs", SET, "/nowhere"), kind=BROKER, name="1")
    ),
    Scenario(
        "a config of the whole cluster for one broker",
        CHANGE,
        change(("num.partitions", SET, "1"), kind=BROKER, name="1", validate_only=True),
    ),
    Scenario(
        "a config of the whole cluster",
        CHANGE,
        change(("num.partitions", SET, "1"), kind=BROKER, name="", validate_only=True),
        differs=(
            Differs("broker-configs-changeable", "responses.*.error_code", 42, 0),
            Differs("broker-configs-changeable", "responses.*.error_message", penstock=None),
        ),
    ),
    *(
        Scenario(
            f"{name} of {'one broker' if resource else 'all brokers'} is set to {value}",
            CHANGE,
            change((name, SET, value), kind=BROKER, name=resource, validate_only=True),
            differs=(Differs("broker-configs-not-acted-on", "responses.*.error_code", 0, 40),)
            if (resource, name, value) in LACKING
            else (),
        )
        for resource in ("1", "")
        for name, value in OF_BROKERS
    ),
    Scenario(
        "more than twice the threads",
        CHANGE,
        change(("num.io.threads", SET, "100"), kind=BROKER, name="1", validate_only=True),
        differs=(
            Differs("broker-configs-without-effect", "responses.*.error_code", 42, 0),
            Differs("broker-configs-without-effect", "responses.*.error_message", penstock=None),
        ),
    ),
    Scenario(
        "a limit of followers",
        CHANGE,
        change(("replica.fetch.max.bytes", SET, "100"), kind=BROKER, name="1", validate_only=True),
        differs=(
            Differs("broker-configs-changeable", "responses.*.error_code", 42, 0),
            Differs("broker-configs-changeable", "responses.*.error_message", penstock=None),
        ),
    ),
    Scenario(
        "a retired config of a broker",
        CHANGE,
        change(("log.message.timestamp.difference.max.ms", SET, "1"), kind=BROKER, name="1", validate_only=True),
        differs=(Differs("alter-configs-unknown-broker-config", "responses.*.error_code", 0, 40),),
    ),
    Scenario(
        "append to an unknown config of a broker",
        CHANGE,
        change(("no.such.config", APPEND, "1"), kind=BROKER, name="1", validate_only=True),
        differs=(Differs("alter-configs-unknown-broker-config", "responses.*.error_code", -1, 40),),
    ),
    *(
        Scenario(f"{name} of a broker, removed", CHANGE, change((name, REMOVE, None), kind=BROKER, name="1", validate_only=True))
        for name in ("node.id", "replica.fetch.max.bytes", "no.such.config")
    ),
    *(
        Scenario(
            f"configs without effect and unknown ones of {'one broker' if resource else 'all brokers'}, and back",
            CHANGE,
            change(*((name, REMOVE, None) for name in names), kind=BROKER, name=resource),
            versions=(1,),
            before=partial(kept, resource, names),
        )
        for resource, names in (("1", KEPT), ("", KEPT))
    ),
    Scenario(
        "client metrics",
        CHANGE,
        change(("interval.ms", SET, "1000"), kind=CLIENT_METRICS, name="x", validate_only=True),
        differs=(Differs("configs-of-others", "responses.*.error_code", 0, 42),),
    ),
)


def logger(*levels: tuple[str, int, str | None], name: str = "1", times: int = 1, validate_only: bool = True):
    return change(*levels, kind=BROKER_LOGGER, name=name, times=times, validate_only=validate_only)


def root_logger_after(*levels: tuple[str, int, str | None]):
    """Changes it, looks at it, and gives it its level back."""
    root = describe(BROKER_LOGGER, "1", ["root"])
    return lambda world: [Step(CHANGE, 1, logger(*levels, validate_only=False)(world)), Step(DESCRIBE, 4, root(world))]


def logger_and_back(name: str) -> Scenario:
    def changed(world: World) -> list[Step]:
        wanted = logger((name, SET, "DEBUG"), validate_only=False)
        return [Step(CHANGE, 1, wanted(world)), Step(DESCRIBE, 4, describe(BROKER_LOGGER, "1", [name])(world))]

    return Scenario(f"{name}, and back", CHANGE, logger((name, SET, "INFO"), validate_only=False), before=changed)


LOGGERS = (
    *map(
        logger_and_back,
        ("kafka.request.logger", "state.change.logger", "org.apache.kafka.storage.internals.log.LogCleaner"),
    ),
    Scenario("a level of the request logger removed", CHANGE, logger(("kafka.request.logger", REMOVE, None))),
    Scenario("the request logger to no level", CHANGE, logger(("kafka.request.logger", SET, "LOUD"))),
    Scenario(
        "the request logger twice in one",
        CHANGE,
        logger(("kafka.request.logger", SET, "INFO"), ("kafka.request.logger", SET, "WARN")),
    ),
    Scenario(
        "the root logger, and back",
        CHANGE,
        logger(("root", SET, "INFO"), validate_only=False),
        before=root_logger_after(("root", SET, "ERROR")),
    ),
    Scenario(
        "the root logger to TRACE, and back",
        CHANGE,
        logger(("root", SET, "INFO"), validate_only=False),
        before=root_logger_after(("root", SET, "TRACE")),
    ),
    Scenario(
        "the root logger and another that is not there",
        CHANGE,
        logger(("root", SET, "ERROR"), ("no.such.logger", SET, "ERROR"), validate_only=False),
        before=root_logger_after(),
    ),
    Scenario("the root logger, only validated", CHANGE, logger(("root", SET, "ERROR")), before=root_logger_after()),
    Scenario("the root logger twice", CHANGE, logger(("root", SET, "INFO"), times=2)),
    Scenario("the root logger twice in one", CHANGE, logger(("root", SET, "INFO"), ("root", SET, "WARN"))),
    Scenario("the root logger in small letters", CHANGE, logger(("root", SET, "info"))),
    Scenario("the root logger with blanks", CHANGE, logger(("root", SET, " INFO "))),
    Scenario("the root logger off", CHANGE, logger(("root", SET, "OFF"))),
    Scenario("the root logger to no text", CHANGE, logger(("root", SET, ""))),
    Scenario("the root logger to no value", CHANGE, logger(("root", SET, None))),
    Scenario("the root logger removed", CHANGE, logger(("root", REMOVE, None))),
    Scenario("append to the root logger", CHANGE, logger(("root", APPEND, "INFO"))),
    Scenario("subtract from the root logger", CHANGE, logger(("root", SUBTRACT, "INFO"))),
    Scenario(
        "an operation that is none on the root logger",
        CHANGE,
        logger(("root", 9, "INFO")),
        differs=(Differs("alter-configs-unknown-operation", "responses.*.error_code", -1, 42),),
    ),
    Scenario("no logger", CHANGE, logger()),
    Scenario("a logger that is not there", CHANGE, logger(("no.such.logger", SET, "INFO"))),
    Scenario("a logger that is not there, removed", CHANGE, logger(("no.such.logger", REMOVE, None))),
    Scenario("a logger of no broker", CHANGE, logger(("root", SET, "INFO"), name="")),
    Scenario("a logger of a broker that is not there", CHANGE, logger(("root", SET, "INFO"), name="7")),
    Scenario("a logger of a broker that is no number", CHANGE, logger(("root", SET, "INFO"), name="seven")),
)


def replace(
    *configs: tuple[str, str | None], kind: int = TOPIC, name: str | None = None, times: int = 1, validate_only: bool = False
):
    def ask(world: World) -> Fields:
        resource = {
            "resource_type": kind,
            "resource_name": world.topic if name is None else name,
            "configs": [{"name": key, "value": value} for key, value in configs],
        }
        return {"resources": [resource] * times, "validate_only": validate_only}

    return ask


def described_after(world: World) -> list[Step]:
    keys = ["retention.ms", "max.message.bytes"]
    return [
        Step(REPLACE, 1, replace(("retention.ms", "5000"))(world)),
        Step(DESCRIBE, 4, describe(TOPIC, keys=keys, include_synonyms=True)(world)),
    ]


REPLACING = (
    Scenario("one, and back", REPLACE, replace(), before=described_after, partitions=1, configs={"max.message.bytes": "5000"}),
    Scenario("only validated", REPLACE, replace(("retention.ms", "5"), validate_only=True), partitions=1),
    Scenario("set to no value", REPLACE, replace(("retention.ms", None)), partitions=1),
    Scenario("an unknown config", REPLACE, replace(("no.such.config", "1")), partitions=1),
    Scenario("a config that is no number", REPLACE, replace(("retention.ms", "soon")), partitions=1),
    Scenario("a config twice", REPLACE, replace(("retention.ms", "5"), ("retention.ms", "6")), partitions=1),
    Scenario("nothing", REPLACE, lambda w: {"resources": []}),
    Scenario(
        "a topic twice",
        REPLACE,
        replace(("retention.ms", "5"), times=2),
        partitions=1,
        timeout_s=2.0,
        differs=(Differs("alter-configs-repeated-resource", "", kafka=STUCK),),
    ),
    Scenario("a topic that is not there", REPLACE, replace(("retention.ms", "5"), name="not-there")),
    Scenario("a topic with an illegal name", REPLACE, replace(("retention.ms", "5"), name="a/b")),
    Scenario("a topic without a name", REPLACE, replace(("retention.ms", "5"), name="")),
    Scenario("a kind that is none", REPLACE, replace(("retention.ms", "5"), kind=3, name="x")),
    Scenario(
        "compaction",
        REPLACE,
        replace(("cleanup.policy", "compact")),
        partitions=1,
    ),
    Scenario("a broker that is not there", REPLACE, replace(("log.retention.ms", "5"), kind=BROKER, name="7")),
    Scenario("a broker", REPLACE, replace(("log.retention.ms", "900000000"), kind=BROKER, name="1", validate_only=True)),
    *(
        Scenario(f"{name} of a broker", REPLACE, replace((name, "9"), kind=BROKER, name="1", validate_only=True))
        for name in ("no.such.config", "num.io.threads", "controller.quorum.fetch.timeout.ms", "ssl.keystore.location")
    ),
    Scenario(
        "a broker's loggers", REPLACE, replace(("no.such.logger", "INFO"), kind=BROKER_LOGGER, name="1", validate_only=True)
    ),
)

SCENARIOS = DESCRIBING + CHANGING + LOGGERS + REPLACING
