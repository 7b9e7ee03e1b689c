"""The valid values of each config: the same many texts for every one, whatever its bounds may be."""

from libs.cluster.configs.definitions import GROUP_CONFIGS, TOPIC_CONFIGS
from tests.compat.differential.scenario import Differs, Fields, Scenario, Step, World

API = "incremental_alter_configs"
TOPIC, BROKER, GROUP = 2, 4, 32
SET = 0

NUMBERS = (
    *(str(number) for number in (*range(-3, 6), 9, 10, 13, 14, 17, 18, 22, 23, 1024)),
    *(str(number) for number in (-131_073, -131_072, (1 << 20) - 1, 1 << 20, 60_000, 604_800_000)),
    *(str(number) for number in ((1 << 31) - 1, 1 << 31, -(1 << 31), -(1 << 31) - 1)),
    *(str(number) for number in ((1 << 63) - 1, 1 << 63, -(1 << 63), -(1 << 63) - 1)),
    *("", " ", " 5 ", "+5", "0x10", "1e3", "5.0", "5L", "five", "٥", "1,5"),
)
FRACTIONS = (
    *("-0.1", "0", "0.0", "0.5", ".5", "1", "1.0", "1.01", "1e-1", "", "half"),
    *("0.5f", "0.5F", "0.5d", "5D", "1e-1d", "1.", "+.5", "-.5", "0.5ff", "0.5 f", "1e", ".", "f", "1_0", "٥", "0,5"),
    *("0x1p-1", "0X1P-1", "0x.8p0", "0x1.8p-2f", "0x1.p-1", "0x1", "0xp1", "0x1p", "-0x1p-1", "0x1p-1d", "0x1p99"),
    *("1e400", "-1e400", "1e-400", "0x1p-9999", "infinity", "nan", "0.00000000000000000000000000000000000001"),
    *("Infinity", "-Infinity"),
)
"""Java's texts of doubles, and texts that are almost such."""
SWITCHES = ("true", "false", "TRUE", " False ", "", "yes", "1", "true,false")
POLICIES = ("delete", "compact", "compact,delete", " delete , compact ", "", "delete,delete", "Delete", "delete,", "burn")
OVERRIDES = (
    *("127.0.0.1:5", " 127.0.0.1:5 , ::1:7 ", "10.0.0.1", "", ":", ",", "10.0.0.1:5,", "10.0.0.1:5,,", ",10.0.0.1:5"),
    *("10.0.0.1:-5", "10.0.0.1:+5", "10.0.0.1:5:", "10.0.0.1:99999999999", "10.0.0.1:٥", "10.0.0.1: 5", "10.0.0.1 :5"),
    *("10.0.0.1:5,10.0.0.1:6", "10.0.0.1:2147483647", "10.0.0.1:2147483648", "10.0.0.1:0", "a/b:5", "[::1]:5", "::1:"),
)
"""Limits of addresses, and texts that are almost such."""
REPLICAS = ("", "*", "0:1", "0:1,1:2", "0:1, 1:2", "*,0:1", "0", "a:b", "0:1,", "0:")

OF_A_TOPIC = {
    "cleanup.policy": POLICIES,
    "compression.gzip.level": NUMBERS,
    "compression.lz4.level": NUMBERS,
    "compression.type": ("producer", "gzip", "snappy", "lz4", "zstd", "uncompressed", "none", "", "GZIP"),
    "compression.zstd.level": NUMBERS,
    "delete.retention.ms": NUMBERS,
    "file.delete.delay.ms": NUMBERS,
    "flush.messages": NUMBERS,
    "flush.ms": NUMBERS,
    "follower.replication.throttled.replicas": REPLICAS,
    "index.interval.bytes": NUMBERS,
    "leader.replication.throttled.replicas": REPLICAS,
    "local.retention.bytes": NUMBERS,
    "local.retention.ms": NUMBERS,
    "max.compaction.lag.ms": NUMBERS,
    "max.message.bytes": NUMBERS,
    "message.timestamp.after.max.ms": NUMBERS,
    "message.timestamp.before.max.ms": NUMBERS,
    "message.timestamp.type": ("CreateTime", "LogAppendTime", "createtime", "", " CreateTime ", "1"),
    "min.cleanable.dirty.ratio": FRACTIONS,
    "min.compaction.lag.ms": NUMBERS,
    "min.insync.replicas": NUMBERS,
    "preallocate": SWITCHES,
    "remote.log.copy.disable": SWITCHES,
    "remote.log.delete.on.disable": SWITCHES,
    "remote.storage.enable": SWITCHES,
    "retention.bytes": NUMBERS,
    "retention.ms": NUMBERS,
    "segment.bytes": NUMBERS,
    "segment.index.bytes": NUMBERS,
    "segment.jitter.ms": NUMBERS,
    "segment.ms": NUMBERS,
    "unclean.leader.election.enable": SWITCHES,
}

OF_A_BROKER = {
    "log.cleaner.backoff.ms": NUMBERS,
    "log.cleaner.delete.retention.ms": NUMBERS,
    "log.cleaner.max.compaction.lag.ms": NUMBERS,
    "log.cleaner.min.cleanable.ratio": FRACTIONS,
    "log.cleaner.min.compaction.lag.ms": NUMBERS,
    "log.cleanup.policy": POLICIES,
    "log.flush.interval.messages": NUMBERS,
    "log.flush.interval.ms": NUMBERS,
    "log.index.interval.bytes": NUMBERS,
    "log.index.size.max.bytes": NUMBERS,
    "log.message.timestamp.after.max.ms": NUMBERS,
    "log.message.timestamp.before.max.ms": NUMBERS,
    "log.message.timestamp.type": ("CreateTime", "LogAppendTime", "logappendtime", ""),
    "log.preallocate": SWITCHES,
    "log.retention.bytes": NUMBERS,
    "log.retention.ms": NUMBERS,
    "log.roll.jitter.ms": NUMBERS,
    "log.roll.ms": NUMBERS,
    "log.segment.bytes": NUMBERS,
    "log.segment.delete.delay.ms": NUMBERS,
    "max.connection.creation.rate": NUMBERS,
    "max.connections": NUMBERS,
    "max.connections.per.ip": NUMBERS,
    "max.connections.per.ip.overrides": OVERRIDES,
    "message.max.bytes": NUMBERS,
    "producer.id.expiration.ms": NUMBERS,
}


OF_A_GROUP = {
    "consumer.heartbeat.interval.ms": (*NUMBERS, "4999", "5000", "15000", "15001"),
    "consumer.session.timeout.ms": (*NUMBERS, "44999", "45000", "60001"),
    "share.auto.offset.reset": ("latest", "earliest", "by_duration:PT1H", "by_duration:soon", "LATEST", ""),
    "share.heartbeat.interval.ms": (*NUMBERS, "5000", "15000", "15001"),
    "share.isolation.level": ("read_committed", "read_uncommitted", "READ_COMMITTED", ""),
    "share.record.lock.duration.ms": (*NUMBERS, "14999", "15000", "30000"),
    "share.session.timeout.ms": (*NUMBERS, "45000"),
    "streams.heartbeat.interval.ms": (*NUMBERS, "5000", "15000", "15001"),
    "streams.initial.rebalance.delay.ms": (*NUMBERS, "3000"),
    "streams.num.standby.replicas": NUMBERS,
    "streams.session.timeout.ms": (*NUMBERS, "45000"),
}


def change(kind: int, resource: str, name: str, value: str) -> Fields:
    configs = [{"name": name, "config_operation": SET, "value": value}]
    return {"resources": [{"resource_type": kind, "resource_name": resource, "configs": configs}], "validate_only": True}


def _of_a_topic(name: str, values: tuple[str, ...], *differs: Differs) -> Scenario:
    def all_but_the_last(world: World) -> list[Step]:
        return [Step(API, 1, change(TOPIC, world.topic, name, value)) for value in values[:-1]]

    return Scenario(
        f"every value of {name}",
        API,
        lambda world: change(TOPIC, world.topic, name, values[-1]),
        versions=(1,),
        before=all_but_the_last,
        partitions=1,
        differs=differs,
    )


def _of_a_broker(resource: str, name: str, values: tuple[str, ...]) -> Scenario:
    return Scenario(
        f"every value of {name} of {'a broker' if resource else 'all brokers'}",
        API,
        lambda world: change(BROKER, resource, name, values[-1]),
        versions=(1,),
        before=lambda world: [Step(API, 1, change(BROKER, resource, name, value)) for value in values[:-1]],
    )


def _of_a_group(name: str, values: tuple[str, ...]) -> Scenario:
    return Scenario(
        f"every value of {name} of a group",
        API,
        lambda world: change(GROUP, "valued", name, values[-1]),
        versions=(1,),
        before=lambda world: [Step(API, 1, change(GROUP, "valued", name, value)) for value in values[:-1]],
        differs=() if GROUP_CONFIGS[name].served else (OF_GROUPS_TO_COME,),
    )


OF_GROUPS_TO_COME = Differs("group-configs-not-acted-on", "*.responses.*.error_code", 0, 40)
REFUSED = Differs("topic-configs-not-acted-on", "*.responses.*.error_code", 0, 40)


def _refused(name: str) -> tuple[Differs, ...]:
    """The values that Kafka takes and Penstock refuses."""
    config = TOPIC_CONFIGS[name]
    done = config.served and not config.served_values
    return () if done or name == "remote.storage.enable" else (REFUSED,)  # Kafka refuses that one too, as it was started


SCENARIOS = (
    *(_of_a_topic(name, values, *_refused(name)) for name, values in OF_A_TOPIC.items()),
    *(_of_a_broker(resource, name, values) for name, values in OF_A_BROKER.items() for resource in ("1", "")),
    *(_of_a_group(name, values) for name, values in OF_A_GROUP.items()),
)
