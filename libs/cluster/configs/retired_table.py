"""Configs that Kafka has removed, each with its successors, so that a refusal can name them.

Kafka 4.2 keeps such a name of a broker like any other that it does not know, and ignores it. Here it is refused, so that nobody
takes it for set. Kafka refuses such a name of a topic as well.
"""

from typing import Final

_ONE_FORMAT = "it has no successor, since records always have message format v2"
_LISTENERS = (
    "use listeners and advertised.listeners, which here PENSTOCK_LISTEN_HOST and PENSTOCK_ADVERTISED_HOST of a gateway set"
)
_QUOTAS = "use client quotas, which kafka-configs sets with --entity-type clients --entity-default"
_PASSWORDS = "it has no successor, since passwords of configs are not encoded"
_SHUTDOWN = "it has no successor. PENSTOCK_HAND_OVER_S bounds how long a storage node that stops hands over its leaderships"

RETIRED: Final = {
    "advertised.host.name": _LISTENERS,
    "advertised.port": _LISTENERS,
    "auto.include.jmx.reporter": "use metric.reporters",
    "broker.id.generation.enable": "use node.id, which here PENSTOCK_NODE_ID sets",
    "control.plane.listener.name": "use controller.listener.names",
    "controlled.shutdown.max.retries": _SHUTDOWN,
    "controlled.shutdown.retry.backoff.ms": _SHUTDOWN,
    "delegation.token.master.key": "use delegation.token.secret.key",
    "group.coordinator.new.enable": "use group.coordinator.rebalance.protocols",
    "host.name": _LISTENERS,
    "inter.broker.protocol.version": "it has no successor here. Kafka has the feature metadata.version in its place",
    "log.message.downconversion.enable": _ONE_FORMAT,
    "log.message.format.version": _ONE_FORMAT,
    "log.message.timestamp.difference.max.ms": "use log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms",
    "password.encoder.cipher.algorithm": _PASSWORDS,
    "password.encoder.iterations": _PASSWORDS,
    "password.encoder.key.length": _PASSWORDS,
    "password.encoder.keyfactory.algorithm": _PASSWORDS,
    "password.encoder.old.secret": _PASSWORDS,
    "password.encoder.secret": _PASSWORDS,
    "port": _LISTENERS,
    "quota.consumer.default": _QUOTAS,
    "quota.producer.default": _QUOTAS,
    "reserved.broker.max.id": "use node.id, which here PENSTOCK_NODE_ID sets",
}
"""By broker config: what takes its place, in words that go on after its name."""

RETIRED_OF_TOPICS: Final = {
    "message.downconversion.enable": _ONE_FORMAT,
    "message.format.version": _ONE_FORMAT,
    "message.timestamp.difference.max.ms": "use message.timestamp.before.max.ms and message.timestamp.after.max.ms",
}
"""The same by topic config."""

ZOOKEEPER: Final = "zookeeper."
"""The prefix of many more."""

_ETCD = "it has no successor, since there is no ZooKeeper. PENSTOCK_ETCD names the members of etcd, which keeps the metadata"


def successor_of(name: str) -> str | None:
    """What takes the place of a retired broker config. None: it is not retired."""
    return _ETCD if name.startswith(ZOOKEEPER) else RETIRED.get(name)
