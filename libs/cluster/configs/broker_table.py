"""All broker configs. Here are those with an effect: defaults of topic configs, and configs of gateways, storage nodes and
controllers. The others are in `no_effect.json`.

One thing differs from Kafka: configs of the whole cluster (`num.partitions`, `auto.create.topics.enable`, all of groups, …) can
be changed while it runs, but only as the cluster-wide default, since no single broker decides them.
"""

from dataclasses import replace
from typing import Final

from libs.cluster.configs.connection_table import CONNECTION_CONFIGS
from libs.cluster.configs.group_table import COORDINATOR_CONFIGS
from libs.cluster.configs.no_effect import WITHOUT_EFFECT
from libs.cluster.configs.topic_table import MIB, TOPIC_CONFIGS
from libs.cluster.configs.values import Check, ConfigDef, ConfigType, at_least, not_zero, one_of

RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

INT, LONG, BOOLEAN, STRING, LIST = ConfigType.INT, ConfigType.LONG, ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.LIST
SHORT: Final = ConfigType.SHORT

UNITS_MS: Final = {
    "log.roll.hours": 3_600_000,
    "log.roll.jitter.hours": 3_600_000,
    "log.retention.hours": 3_600_000,
    "log.retention.minutes": 60_000,
}
"""Broker configs that give the default of a topic config in another unit than its milliseconds."""

_COARSE = {
    # name: (type, default, bound). Kafka has these beside configs in milliseconds. The ones in ms win, and only they can be
    # changed while a broker runs.
    "log.roll.hours": (INT, "168", at_least(1)),
    "log.roll.jitter.hours": (INT, "0", at_least(0)),
    "log.retention.hours": (INT, "168", not_zero),
    "log.retention.minutes": (INT, None, not_zero),
    "log.flush.scheduler.interval.ms": (LONG, str((1 << 63) - 1), None),
}

_OTHER_BOUNDS = {"log.retention.ms": not_zero, "log.flush.interval.ms": None}
"""Bounds of broker configs that differ from the bounds of the topic configs to which they give the default, as in Kafka."""


def _topic_defaults() -> list[ConfigDef]:
    """The synonyms of all topic configs. The first synonym of each can be changed while the cluster runs."""
    definitions: list[ConfigDef] = []
    for topic in TOPIC_CONFIGS.values():
        for name in topic.synonyms:
            base = replace(topic, name=name, synonyms=(name,) if name == "log.flush.scheduler.interval.ms" else topic.synonyms)
            if name in _COARSE:
                kind, default, check = _COARSE[name]
                base = replace(base, type=kind, default=default, check=check, read_only=True)
            elif len(topic.synonyms) > 1:
                base = replace(base, default=None)  # the config with the coarser unit holds the default
            if name in _OTHER_BOUNDS:
                base = replace(base, check=_OTHER_BOUNDS[name])
            definitions.append(base)
    return definitions


_CLUSTER_WIDE = (
    ConfigDef("num.partitions", INT, "1", "The partitions of a topic whose creator does not say how many.", at_least(1),
              cluster_wide=True),
    ConfigDef("default.replication.factor", INT, "3", "The replicas of a topic whose creator does not say how many. Where nobody "
              "sets it, no more than there are storage nodes.", at_least(1), cluster_wide=True),
    ConfigDef("auto.create.topics.enable", BOOLEAN, "true", "Create a topic when a client first asks for it.", None, "high",
              cluster_wide=True),
    ConfigDef("delete.topic.enable", BOOLEAN, "true", "Let clients delete topics.", None, "high", cluster_wide=True),
    ConfigDef("auto.leader.rebalance.enable", BOOLEAN, "true", "Let leadership return to preferred replicas by itself.", None,
              "high", cluster_wide=True),
    ConfigDef("leader.imbalance.check.interval.seconds", LONG, "300", "How often the controller checks whether leadership should "
              "return.", at_least(1), "high", cluster_wide=True),
    ConfigDef("leader.imbalance.per.broker.percentage", INT, "10", "Leadership returns to a node that misses more than this "
              "share of the partitions that prefer it.", at_least(0), "high", cluster_wide=True),
)  # fmt: skip

_COORDINATORS = (
    ConfigDef("offsets.topic.num.partitions", INT, "50", "The partitions that __consumer_offsets is created with. Their "
              "number never changes, since it decides which partition holds a group.", at_least(1), "high", cluster_wide=True),
    ConfigDef("offsets.topic.replication.factor", SHORT, "3", "The replicas that __consumer_offsets is created with. Where "
              "nobody sets it, no more than there are storage nodes.", at_least(1), "high", cluster_wide=True),
    ConfigDef("offsets.topic.segment.bytes", INT, "104857600", "The segment.bytes that __consumer_offsets is created with.",
              at_least(MIB), "high", cluster_wide=True),
    ConfigDef("transaction.state.log.num.partitions", INT, "50", "The partitions that __transaction_state is created with. Their "
              "number never changes, since it decides which partition holds a transactional id.", at_least(1), "high",
              cluster_wide=True),
    ConfigDef("transaction.state.log.replication.factor", SHORT, "3", "The replicas that __transaction_state is created with. "
              "Where nobody sets it, no more than there are storage nodes.", at_least(1), "high", cluster_wide=True),
    ConfigDef("transaction.state.log.min.isr", INT, "2", "The min.insync.replicas that __transaction_state is created with. "
              "Where nobody sets it, no more than it has replicas.", at_least(1), "high", cluster_wide=True),
    ConfigDef("transaction.state.log.segment.bytes", INT, "104857600", "The segment.bytes that __transaction_state is created "
              "with.", at_least(1), "high", cluster_wide=True),
    ConfigDef("transactional.id.expiration.ms", INT, "604800000", "A transactional id is forgotten when it was not used for this "
              "long, and has no open transaction.", at_least(1), "high", cluster_wide=True),
    ConfigDef("transaction.remove.expired.transaction.cleanup.interval.ms", INT, "3600000", "How often unused transactional ids "
              "are looked for.", at_least(1), "low", cluster_wide=True),
)  # fmt: skip
"""Configs of coordinators, and of the topics that they write."""

_BALANCING = (
    ConfigDef("self.balancing.mode", STRING, "off", "What the controller does when storage nodes come, or are gone for good. "
              "off: nothing. suggest: it shows the moves that it would make. apply: it spreads replicas and leaderships anew.",
              one_of("off", "suggest", "apply"),
              "high", cluster_wide=True),
    ConfigDef("self.balancing.moves.max", INT, "10", "The most partitions that self-balancing moves at the same time.",
              at_least(1), cluster_wide=True),
    ConfigDef("self.balancing.bytes.per.second", LONG, str(50 << 20), "The most bytes that each node copies in a second for "
              "all moves of self-balancing together.", at_least(1), cluster_wide=True),
    ConfigDef("self.balancing.away.ms", LONG, "600000", "A storage node counts as gone after this time. Before, nothing is moved "
              "on its account.", at_least(0), cluster_wide=True),
    ConfigDef("self.balancing.imbalance.percentage", INT, "10", "Balancing begins where two nodes differ by more replicas or "
              "leaderships than this share of a node's average, and by 2 at least. Then it goes on until they are even.",
              at_least(0), cluster_wide=True),
    ConfigDef("decommission", BOOLEAN, "false", "The node gets no new replicas, and its leaderships and replicas move to other "
              "nodes. It goes on serving until it has none.", None, "high", one_broker=True),
)  # fmt: skip
"""Configs of the moves that the controller begins by itself."""

_CLEANER = (
    ConfigDef("log.cleaner.enable", BOOLEAN, "true", "Whether topics with cleanup.policy=compact are compacted."),
    ConfigDef("log.cleaner.threads", INT, "1", "How many logs are compacted at the same time, each in a process of its own.",
              at_least(0)),
    ConfigDef("log.cleaner.io.max.bytes.per.second", ConfigType.DOUBLE, "1.7976931348623157E308", "The most bytes that "
              "compaction reads and writes in a second, in all logs together."),
    ConfigDef("log.cleaner.dedupe.buffer.size", LONG, str(128 << 20), "The memory in which compaction keeps keys, for all "
              "threads together. When it is full, the rest of a log waits for the next pass."),
    ConfigDef("log.cleaner.backoff.ms", LONG, "15000", "How long compaction waits when there is nothing to do.", at_least(0)),
)  # fmt: skip
"""The configs of log.cleaner.* that have an effect."""

_STATIC = (
    ConfigDef("node.id", INT, None, "The storage node's id, which is the broker id that clients see.", at_least(0), "high"),
    ConfigDef("broker.id", INT, "-1", "The same as node.id.", None, "high"),
    ConfigDef("broker.rack", STRING, None, "The rack or zone of this storage node."),
    ConfigDef("listeners", LIST, None, "The addresses that the gateway listens on for this broker id.", None, "high"),
    ConfigDef("advertised.listeners", LIST, None, "The addresses that clients are told for this broker id.", None, "high"),
    ConfigDef("log.dir", LIST, None, "The same as log.dirs.", None, "high"),
    ConfigDef("log.dirs", LIST, None, "The directories in which the storage node keeps its logs.", None, "high"),
    ConfigDef("socket.request.max.bytes", INT, "104857600", "The largest request that a gateway reads.", at_least(1), "high"),
    ConfigDef("fetch.max.bytes", INT, "57671680", "The most bytes in the answer to one Fetch.", at_least(1024)),
    ConfigDef("max.request.partition.size.limit", INT, "2000", "The most partitions in one DescribeTopicPartitions answer.",
              at_least(1)),
    ConfigDef("transaction.max.timeout.ms", INT, "900000", "The longest transaction timeout that a producer may ask for.",
              at_least(1), "high"),
)  # fmt: skip

_PRODUCERS = (
    ConfigDef("producer.id.expiration.ms", INT, "86400000", "A partition forgets an idempotent producer that is silent for "
              "this long.",
              at_least(1), "low"),
)  # fmt: skip


_is_rack_aware: Final = Check(
    f"`{RACK_AWARE}`", lambda value: None if value == RACK_AWARE else f"the only replica selector is {RACK_AWARE}"
)


_REPLICATION = (
    ConfigDef("replica.selector.class", STRING, None, "With " + RACK_AWARE + ", the leader sends a consumer with client.rack to "
              "an in-sync replica in that rack. Without it, all consumers read from leaders.", _is_rack_aware, read_only=True),
    ConfigDef("replica.lag.time.max.ms", LONG, "30000", "A follower leaves the ISR when it has not caught up with its leader "
              "for this time.", at_least(1), "high"),
    ConfigDef("replica.fetch.max.bytes", INT, str(MIB), "The most bytes of one partition that a follower asks for in one pull. "
              "A larger batch is sent all the same.", at_least(0)),
    ConfigDef("replica.fetch.response.max.bytes", INT, str(10 * MIB), "The most bytes that a follower asks one leader for in one "
              "pull, and never more than 64 MiB. A larger batch is sent all the same.", at_least(0)),
    ConfigDef("replica.fetch.min.bytes", INT, "1", "A leader waits for so many bytes of records before it answers a follower, "
              "or for replica.fetch.wait.max.ms. Above 1, it delays acks=all.", None, "high"),
    ConfigDef("replica.fetch.wait.max.ms", INT, "500", "How long a leader waits for records before it answers a follower. "
              "Never longer than 10 s, nor than half of replica.lag.time.max.ms.", None, "high"),
    ConfigDef("replica.lag.max.messages", LONG, "0", "A follower leaves the ISR at once when it is more records than this "
              "behind. 0 sets no limit. Kafka removed this config, since a burst of records threw healthy followers out.",
              at_least(0)),
    ConfigDef("leader.replication.throttled.rate", LONG, str((1 << 63) - 1), "The most bytes in a second that a node sends to "
              "followers that are not in sync. It holds for the replicas in leader.replication.throttled.replicas.",
              at_least(1), hidden=True),
    ConfigDef("follower.replication.throttled.rate", LONG, str((1 << 63) - 1), "The most bytes in a second that a node copies "
              "until it has caught up. It holds for the replicas in follower.replication.throttled.replicas.",
              at_least(1), hidden=True),
    ConfigDef("replica.alter.log.dirs.io.max.bytes.per.second", LONG, str((1 << 63) - 1), "The most bytes that a "
              "node copies in a second between its log directories, for all moving replicas together.", at_least(1), hidden=True),
)  # fmt: skip

_INTERVALS = (
    ConfigDef("producer.id.expiration.check.interval.ms", INT, "600000", "How often a node looks for silent producers.",
              at_least(1), "low", read_only=True, hidden=True),
    ConfigDef("log.retention.check.interval.ms", LONG, "300000", "How often retention looks for files to remove.", at_least(1),
              read_only=True),
)  # fmt: skip

_OF_STORAGE = (*_topic_defaults(), *_CLEANER, *_PRODUCERS, *_REPLICATION, *_INTERVALS)

BROKER_CONFIGS: Final[dict[str, ConfigDef]] = {
    config.name: config
    for config in sorted(
        [
            *_OF_STORAGE,
            *_CLUSTER_WIDE,
            *_COORDINATORS,
            *COORDINATOR_CONFIGS,
            *_BALANCING,
            *CONNECTION_CONFIGS,
            *WITHOUT_EFFECT,
            *(replace(config, read_only=True) for config in _STATIC),
        ],
        key=lambda c: c.name,
    )
}

AT_START: Final = frozenset(config.name for config in (*_OF_STORAGE, *CONNECTION_CONFIGS, *WITHOUT_EFFECT))
"""The broker configs that may be given to a storage node at its start: it acts on them, gateways do for its port, or nothing
does."""
