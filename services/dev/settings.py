"""The settings of a cluster in one process, and the broker configs that it is given."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from libs.cluster.configs.definitions import ConfigError, UnknownConfig, require_dynamic, validate_static

if TYPE_CHECKING:
    from libs.cluster.scram_credentials import ScramCredential

HOST = "127.0.0.1"
PORT = 9092
NODE_ID = 1
"""Of each of its processes. The only broker has this id, and its port is the bootstrap port plus one."""

DEFAULTS: Final[Mapping[str, str]] = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}
"""Cluster-wide broker configs that differ from a cluster's, unless they are given. The first is also in the `server.properties`
that Kafka has for development. The others spare the first group and the first transaction 92 partitions."""


class WrongSetting(Exception):
    """A setting that is missing, wrong, or in contradiction to another one. It names the value and what is allowed."""


@dataclass(frozen=True, slots=True)
class BrokerConfigs:
    """`static`: as if from the broker's properties. `cluster_wide`: those that a broker reads from the metadata only."""

    static: Mapping[str, str] = field(default_factory=dict)
    cluster_wide: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    port: int = PORT
    """The bootstrap port. 0: any that is free, as is the port after it."""
    host: str = HOST
    """Where it listens."""
    advertised_host: str = HOST
    """The host that Metadata names to clients."""
    data: str = ""
    """The data folder. Empty: a temporary one."""
    admin_port: int | None = None
    """None: there is no admin port. 0: any free one."""
    admin_token_file: str = ""
    """The token of the admin port, unless PENSTOCK_ADMIN_TOKEN_FILE names another. Empty: none is needed."""
    broker_configs: BrokerConfigs = BrokerConfigs()
    security: bool = False
    """Whether clients need TLS, a user and ACLs."""
    super_users: tuple[str, ...] = ()
    """Principals who may do everything beside `User:admin`, where ACLs decide."""
    sasl: Mapping[str, object] = field(default_factory=dict)
    """The settings of the gateway's listener on which clients authenticate. Empty: there is none."""
    sasl_address: tuple[str, int] | None = None
    """The host and bootstrap port of that listener."""
    first_users: Mapping[tuple[str, str], "ScramCredential"] = field(default_factory=dict)
    """Users that a new cluster has, by (mechanism, user)."""


def broker_configs_of(given: Iterable[str]) -> BrokerConfigs:
    """From `NAME=VALUE` each. Raises WrongSetting."""
    static: dict[str, str] = {}
    cluster_wide: dict[str, str] = {}
    for entry in given:
        name, equals, value = (part.strip() for part in entry.partition("="))
        if not equals or not name:
            raise WrongSetting(f"--broker-config is {entry!r}; expected NAME=VALUE, such as log.retention.hours=1")
        if name in static or name in cluster_wide:
            raise WrongSetting(f"--broker-config gives {name} twice; expected one value")
        try:
            _sort_in(name, value, static, cluster_wide)
        except ConfigError as error:
            raise WrongSetting(f"--broker-config {name}={value}: {error}") from error
    return BrokerConfigs(static, cluster_wide)


def _sort_in(name: str, value: str, static: dict[str, str], cluster_wide: dict[str, str]) -> None:
    """Raises ConfigError."""
    try:
        validate_static(name, value)
        static[name] = value
    except UnknownConfig:
        raise
    except ConfigError as not_static:
        try:
            config = require_dynamic(name, per_broker=False)
        except ConfigError:
            raise not_static from None
        config.validate(value)
        cluster_wide[name] = value
