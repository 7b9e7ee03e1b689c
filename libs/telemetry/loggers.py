"""The loggers of all services, each named for what it concerns, and Kafka's names for them.

`log = logging.getLogger("replication")` is the one of a module. A logger of a service that the table lacks is refused by
`tests/telemetry/test_loggers.py`.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Concern(NamedTuple):
    about: str
    """What its lines tell, for operators."""
    kafka: tuple[str, ...] = ()
    """The loggers of Kafka whose lines it has."""
    beside_brokers: tuple[str, ...] = ()
    """The roles, beside the gateway and the storage node of a broker, that do this work. Their processes are no brokers."""


CONCERNS: Final[Mapping[str, Concern]] = {
    "authorizer": Concern("what ACLs denied to clients", ("kafka.authorizer.logger",)),
    "cleaner": Concern(
        "compaction",
        ("kafka.log.LogCleaner", "org.apache.kafka.storage.internals.log.LogCleaner"),
    ),
    "controller": Concern(
        "terms of the active controller; topics, configs, placement and members that it changes; deaths that it detects",
        ("kafka.controller", "kafka.controller.KafkaController", "org.apache.kafka.controller"),
        ("controller",),
    ),
    "coordinators": Concern(
        "shards of group and transaction coordinators: loading, handing over, decisions",
        ("org.apache.kafka.coordinator.common.runtime",),
        ("group_coordinator", "transaction_coordinator"),
    ),
    "disks": Concern("log directories: failures, room, moves of replicas between them", ("kafka.server.LogDirFailureChannel",)),
    "elections": Concern(
        "elections of leaders, of the controller and of the quota manager; who leads and follows, and why",
        ("state.change.logger",),
        ("controller",),
    ),
    "groups": Concern(
        "consumer groups: members, rebalances, assignments, offsets",
        ("kafka.coordinator.group", "kafka.coordinator.group.GroupCoordinator", "org.apache.kafka.coordinator.group"),
        ("group_coordinator",),
    ),
    "log": Concern(
        "partition logs: opening and recovery, retention, deletion, appends",
        (
            "kafka.log",
            "kafka.log.LogManager",
            "kafka.log.UnifiedLog",
            "org.apache.kafka.storage.internals.log",
            "org.apache.kafka.storage.internals.log.UnifiedLog",
        ),
    ),
    "metadata": Concern("the cluster image and its store, memberships", ("org.apache.kafka.image",)),
    "network": Concern(
        "connections of clients and between processes",
        ("kafka.network", "kafka.network.Processor", "kafka.network.SocketServer", "org.apache.kafka.common.network"),
    ),
    "process": Concern("the life of a process, its admin port and log levels", ("kafka.server.KafkaServer",)),
    "quotas": Concern("client quotas: grants of tokens, muted clients", ("kafka.server.ClientQuotaManager",), ("quota_manager",)),
    "replication": Concern(
        "followers, truncation, the ISR",
        ("kafka.cluster.Partition", "kafka.server.ReplicaFetcherThread", "kafka.server.ReplicaManager"),
    ),
    "requests": Concern(
        "requests of clients, with the times of their stages and their sizes",
        ("kafka.network.RequestChannel$", "kafka.request.logger", "kafka.server.KafkaApis"),
    ),
    "transactions": Concern(
        "transactional ids: states of transactions, markers, producer ids",
        (
            "kafka.coordinator.transaction",
            "kafka.coordinator.transaction.TransactionCoordinator",
            "org.apache.kafka.coordinator.transaction",
        ),
        ("transaction_coordinator",),
    ),
}

ALIASES: Final[Mapping[str, str]] = {alias: name for name, concern in CONCERNS.items() for alias in concern.kafka}
"""Our logger by Kafka's name."""


def own_name(name: str) -> str:
    """Our name of a logger that may be given by Kafka's."""
    return ALIASES.get(name, name)
