"""Broker configs that limit client connections. Gateways act on them.

Those of numbers can be set while the cluster runs. The default of all brokers holds for all connections of each gateway. A
broker's own value holds for the connections to that broker's port at each gateway, beside the former.
"""

import re
from collections.abc import Mapping
from ipaddress import IPv6Address, ip_address
from typing import Final

from libs.cluster.configs.values import Check, ConfigDef, ConfigError, ConfigType, ConfigValue, at_least

MAX_CONNECTIONS: Final = "max.connections"
MAX_CONNECTIONS_PER_IP: Final = "max.connections.per.ip"
MAX_CONNECTIONS_PER_IP_OVERRIDES: Final = "max.connections.per.ip.overrides"
MAX_CONNECTION_CREATION_RATE: Final = "max.connection.creation.rate"
CONNECTIONS_MAX_IDLE_MS: Final = "connections.max.idle.ms"

NO_LIMIT: Final = (1 << 31) - 1
"""The default of each number of connections."""

OF_LISTENERS: Final = (MAX_CONNECTIONS, MAX_CONNECTION_CREATION_RATE)
"""The limits that a listener can have beside those without its prefix, as in Kafka."""

_COMMA = re.compile(r"\s*,\s*")
_HOST = re.compile(r"[0-9a-zA-Z\-%._:]*")
_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,10}")


def limits_of_addresses(text: str) -> dict[str, int]:
    """The limits of single addresses by the usual spelling of each. Names of hosts are left out. Raises ConfigError."""
    limits = {}
    for host, limit in _pairs(text).items():
        address = usual_address(host)
        if address is not None:
            limits[address] = limit
    return limits


def usual_address(text: str) -> str | None:
    """An IP address as `ipaddress` writes it, an IPv4 address as such where it is mapped into IPv6. None: it is none."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return str(address.ipv4_mapped or address) if isinstance(address, IPv6Address) else str(address)


def check_connection_limits(values: Mapping[str, str]) -> None:
    """Raises ConfigError if limits that are set at run time contradict each other, each of which is valid alone."""
    if _number(MAX_CONNECTIONS_PER_IP, values) == 0 and not values.get(MAX_CONNECTIONS_PER_IP_OVERRIDES, "").strip():
        needed = f"{MAX_CONNECTIONS_PER_IP} can be set to zero only if {MAX_CONNECTIONS_PER_IP_OVERRIDES} property is set."
        raise ConfigError(f"requirement failed: {needed}")
    for name in OF_LISTENERS:
        if _number(name, values) == 0:
            raise ConfigError(f"Invalid {name} 0: nobody could connect to change it back")


def _number(name: str, values: Mapping[str, str]) -> int | None:
    """A limit's value. None: it is not set, or a later version wrote one that this version cannot read."""
    try:
        number = _DEFINITIONS[name].parse(values[name]) if name in values else None
    except ConfigError:
        return None
    assert number is None or isinstance(number, int)
    return number


def _pairs(text: str) -> dict[str, int]:
    pairs = {}
    for pair in _COMMA.split(text.strip().rstrip(", ")) if text.strip(", ") else ():
        host, colon, limit = pair.rpartition(":")
        if not colon or not _WHOLE_NUMBER.fullmatch(limit.strip()) or not -NO_LIMIT - 1 <= int(limit) <= NO_LIMIT:
            raise ConfigError(f"Error parsing configuration property '{MAX_CONNECTIONS_PER_IP_OVERRIDES}': {pair[:128]}")
        pairs[host.strip()] = int(limit)
    return pairs


def _bad_overrides(value: ConfigValue) -> str | None:
    assert isinstance(value, str)
    try:
        hosts = _pairs(value)
    except ConfigError as error:
        return str(error)
    bad = [host for host in hosts if not _HOST.fullmatch(host)]
    return f"{MAX_CONNECTIONS_PER_IP_OVERRIDES} contains invalid addresses : {','.join(bad)[:128]}" if bad else None


def _names_of_hosts(value: ConfigValue) -> str | None:
    assert isinstance(value, str)
    names = [host for host in _pairs(value) if usual_address(host) is None]
    return f"{','.join(names)[:128]} is no IP address, and names of hosts are not resolved" if names else None


CONNECTION_CONFIGS: Final = (
    ConfigDef(
        MAX_CONNECTIONS,
        ConfigType.INT,
        str(NO_LIMIT),
        "The most connections of each gateway, and 2 at least, so that it can be changed back; of a broker, those to its port at "
        "each gateway. One beyond is closed. Lowered at run time, those that were silent longest are closed. Never more than the "
        "limit of open files leaves.",
        at_least(0),
    ),
    ConfigDef(
        MAX_CONNECTIONS_PER_IP,
        ConfigType.INT,
        str(NO_LIMIT),
        "The most connections from one address to each gateway; of a broker, to its port at each gateway. A client makes one or "
        "two to the port of each broker that it uses. One beyond is closed.",
        at_least(0),
    ),
    ConfigDef(
        MAX_CONNECTIONS_PER_IP_OVERRIDES,
        ConfigType.STRING,
        "",
        "Addresses with a limit of their own in the place of max.connections.per.ip: `10.0.0.7:200,::1:50`. Names of hosts are "
        "refused.",
        Check("pairs `address:number`", _bad_overrides),
        lacks=Check("addresses", _names_of_hosts),
    ),
    ConfigDef(
        MAX_CONNECTION_CREATION_RATE,
        ConfigType.INT,
        str(NO_LIMIT),
        "The most connections that each gateway takes in a second, after a burst of ten seconds' worth; of a broker, those to "
        "its port at each gateway. Further ones wait until they are taken.",
        at_least(0),
    ),
    ConfigDef(
        CONNECTIONS_MAX_IDLE_MS,
        ConfigType.LONG,
        "600000",
        "The time without a request after which gateways close a connection to this broker's port. Below 0: they never do. "
        "Where it is not set, PENSTOCK_IDLE_S_MAX of the gateway decides.",
        read_only=True,
    ),
)

_DEFINITIONS: Final = {config.name: config for config in CONNECTION_CONFIGS}
