"""The configs of group coordinators, which are broker configs, and those of single groups (KIP-848, `--entity-type groups`).

Kafka's brokers read the former at their start only. Here they hold for the whole cluster and can be changed while it runs, since
no single broker decides them. Configs of brokers for share and streams groups, threads and buffers are in `no_effect.json`.
"""

from typing import Final

from libs.cluster.configs.values import ConfigDef, ConfigType, any_case, at_least, some_of

INT, LONG, STRING, LIST = ConfigType.INT, ConfigType.LONG, ConfigType.STRING, ConfigType.LIST
INT_MAX: Final = (1 << 31) - 1

HEARTBEAT: Final = "heartbeat.interval.ms"
SESSION: Final = "session.timeout.ms"


def _of_coordinators(
    name: str, kind: ConfigType, default: int, doc: str, least: int | None, importance: str = "medium", hidden: bool = False
) -> ConfigDef:
    check = None if least is None else at_least(least)
    return ConfigDef(name, kind, str(default), doc, check, importance, cluster_wide=True, hidden=hidden)


_OFFSETS = (
    _of_coordinators("offset.metadata.max.bytes", INT, 4096, "The longest metadata of an offset in a commit.", None,
                     "high"),
    _of_coordinators("offsets.retention.minutes", INT, 10_080, "How long offsets are kept after their group lost its last member."
                     " For a topic that the group no longer reads, and for a group without members, the time runs from the "
                     "last commit.", 1, "high"),
    _of_coordinators("offsets.retention.check.interval.ms", LONG, 600_000, "How often a coordinator looks for expired offsets.",
                     1, "high"),
    _of_coordinators("offsets.commit.timeout.ms", INT, 5_000, "How long a coordinator waits until its write is committed.", 1,
                     "high"),
)  # fmt: skip

_CLASSIC = (
    _of_coordinators("group.initial.rebalance.delay.ms", INT, 3_000, "How long the first rebalance of an empty group waits for "
                     "more members.", None),
    # Kafka 4.2 has -4 as default of the first. It lets nobody change either while a broker runs; here both can be changed.
    _of_coordinators("group.min.session.timeout.ms", INT, 6_000, "The shortest session timeout that a member may ask for.", 1),
    _of_coordinators("group.max.session.timeout.ms", INT, 1_800_000, "The longest session timeout that a member may ask for.", 1),
    _of_coordinators("group.max.size", INT, INT_MAX, "The most members of one group of the classic protocol.", 1),
    ConfigDef("group.coordinator.rebalance.protocols", LIST, "classic,consumer", "The protocols by which groups are served.",
              some_of("classic", "consumer", "share", "streams"), cluster_wide=True,
              served_values=("classic,consumer", "consumer,classic", "classic")),
)  # fmt: skip

_CONSUMER = (
    _of_coordinators("group.consumer.heartbeat.interval.ms", INT, 5_000, "The heartbeat interval that a coordinator gives to "
                     "members of consumer groups.", 1),
    _of_coordinators("group.consumer.min.heartbeat.interval.ms", INT, 5_000, "The least that consumer.heartbeat.interval.ms of a "
                     "group may be.", 1),
    _of_coordinators("group.consumer.max.heartbeat.interval.ms", INT, 15_000, "The most that consumer.heartbeat.interval.ms of a "
                     "group may be.", 1),
    _of_coordinators("group.consumer.session.timeout.ms", INT, 45_000, "A coordinator removes a member from its consumer group "
                     "after this time without a heartbeat.", 1),
    _of_coordinators("group.consumer.min.session.timeout.ms", INT, 45_000, "The least that consumer.session.timeout.ms of a "
                     "group may be.", 1),
    _of_coordinators("group.consumer.max.session.timeout.ms", INT, 60_000, "The most that consumer.session.timeout.ms of a group "
                     "may be.", 1),
    _of_coordinators("group.consumer.max.size", INT, INT_MAX, "The most members of one consumer group.", 1),
    _of_coordinators("group.consumer.regex.refresh.interval.ms", INT, 600_000, "How often a coordinator matches the regular "
                     "expressions of its groups with the topics again.", 10_000, hidden=True),
    ConfigDef("group.consumer.assignors", LIST, "uniform,range", "The assignors that members of consumer groups may name. A "
              "member that names none gets the first.", some_of("uniform", "range"), cluster_wide=True),
    ConfigDef("group.consumer.migration.policy", STRING, "bidirectional", "Whether a group with members may go from the classic "
              "protocol to the consumer protocol (upgrade), back (downgrade), both (bidirectional) or neither (disabled).",
              any_case("bidirectional", "upgrade", "downgrade", "disabled"), cluster_wide=True),
)  # fmt: skip

COORDINATOR_CONFIGS: Final = (*_OFFSETS, *_CLASSIC, *_CONSUMER)
"""Broker configs, all of them cluster-wide."""


def _of_a_consumer_group(name: str, default: int, doc: str) -> ConfigDef:
    return ConfigDef(f"consumer.{name}", INT, str(default), doc, at_least(1), synonyms=(f"group.consumer.{name}",))


def _later(name: str, default: int | str, doc: str) -> ConfigDef:
    """A config of a kind of group that Penstock does not have. It is described as in Kafka, and accepts only its default."""
    return ConfigDef(name, INT if isinstance(default, int) else STRING, str(default), doc, served=False)


GROUP_CONFIGS: Final[dict[str, ConfigDef]] = {
    config.name: config
    for config in (
        _of_a_consumer_group(HEARTBEAT, 5_000, "The heartbeat interval that members of the group are given."),
        _of_a_consumer_group(SESSION, 45_000, "A coordinator removes a member from the group after this time "
                              "without a heartbeat."),
        _later("share.auto.offset.reset", "latest", "Where a share group begins to read."),
        _later("share.heartbeat.interval.ms", 5_000, "How often members of a share group send heartbeats."),
        _later("share.isolation.level", "read_uncommitted", "Whether a share group is given records of open transactions."),
        _later("share.record.lock.duration.ms", 30_000, "How long a share group's member may keep a record to itself."),
        _later("share.session.timeout.ms", 45_000, "A member leaves its share group after this time without a heartbeat."),
        _later("streams.heartbeat.interval.ms", 5_000, "How often members of a streams group send heartbeats."),
        _later("streams.initial.rebalance.delay.ms", 3_000, "How long the first rebalance of a streams group waits for members."),
        _later("streams.num.standby.replicas", 0, "The standby replicas of each task of a streams group."),
        _later("streams.session.timeout.ms", 45_000, "A member leaves its streams group after this time without a heartbeat."),
    )
}  # fmt: skip
"""The configs of one group. Where a group has no value of its own, the synonym's value holds."""
