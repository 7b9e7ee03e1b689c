"""The limits of connections that configs ask for, at a gateway as a whole and at each of its ports. No I/O.

Of the gateway: the default of all brokers, else the gateway's own setting. Of a broker's port: that broker's own config, else the
default of all brokers, else what its storage node was started with. Both hold. A listener's config, with the prefix
`listener.name.NAME.`, holds beside the one without it.
"""

from collections.abc import Mapping
from dataclasses import field, replace
from math import inf
from operator import is_
from typing import Final

from libs.cluster.configs.broker_names import of_listener
from libs.cluster.configs.connection_table import (
    CONNECTION_CONFIGS,
    CONNECTIONS_MAX_IDLE_MS,
    MAX_CONNECTION_CREATION_RATE,
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_PER_IP,
    MAX_CONNECTIONS_PER_IP_OVERRIDES,
    NO_LIMIT,
    OF_LISTENERS,
    limits_of_addresses,
)
from libs.cluster.configs.resolve import NO_BROKER, Source, broker_settings
from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE
from libs.lean_dataclass import dataclass

TOOL_CONNECTIONS: Final = 2
"""The connections of a tool that changes a config. A gateway takes so many, whatever `max.connections` says, and of an address,
whatever `max.connections.per.ip` says, but for 0: that shuts out addresses on purpose."""


@dataclass(frozen=True, slots=True)
class ConfiguredLimits:
    """The limits of a gateway's connections, or of those to one of its ports. `NO_LIMIT`: none is configured."""

    connections_max: int = NO_LIMIT
    per_ip_max: int = NO_LIMIT
    of_addresses: Mapping[str, int] = field(default_factory=dict)
    """In the place of `per_ip_max`, by the usual spelling of an address."""
    creation_rate: int = NO_LIMIT
    """The connections that are taken in a second."""
    idle_s_max: float | None = None
    """None: the gateway's own setting decides."""


UNLIMITED: Final = ConfiguredLimits()
_NAMES: Final = frozenset(config.name for config in CONNECTION_CONFIGS)


def _at_least_a_tool(per_ip: int) -> int:
    return max(TOOL_CONNECTIONS, per_ip) if per_ip > 0 else per_ip


class ConnectionConfigs:
    """Reads the limits from images. `gateway` and `ports` are those of the newest image; a port without a limit is not there."""

    def __init__(self, static: Mapping[str, str], listener: str) -> None:
        """`static`: the gateway's own settings under the names of Kafka's configs. `listener`: the name of its listener."""
        self._static = static
        self._of_listener = {name: of_listener(listener, name) for name in OF_LISTENERS}
        self._names = frozenset((*_NAMES, *self._of_listener.values()))
        self._read_from: tuple[object, ...] = ()
        self.gateway = UNLIMITED
        self.ports: dict[int, ConfiguredLimits] = {}

    def follow(self, image: ClusterImage) -> bool:
        """Whether a limit has changed."""
        members = image.members(STORAGE)
        read_from = members, image.nodes, image.overrides_by_resource
        if self._read_from and all(map(is_, read_from, self._read_from)):
            return False
        self._read_from = read_from
        before = self.gateway, self.ports
        gateway = self._limits(image, NO_BROKER, self._static)
        self.gateway = replace(
            gateway,
            connections_max=max(TOOL_CONNECTIONS, gateway.connections_max),
            per_ip_max=_at_least_a_tool(gateway.per_ip_max),
            of_addresses={address: _at_least_a_tool(limit) for address, limit in gateway.of_addresses.items()},
        )
        self.ports = {}
        for broker_id in {*image.nodes, *members}:
            static = members[broker_id].configs if broker_id in members else {}
            limits = self._limits(image, broker_id, static)
            if limits != UNLIMITED:
                self.ports[broker_id] = limits
        return (self.gateway, self.ports) != before

    def _limits(self, image: ClusterImage, broker_id: int, static: Mapping[str, str]) -> ConfiguredLimits:
        own = image.overrides("broker", str(broker_id))
        if (
            self._names.isdisjoint(own)
            and self._names.isdisjoint(static)
            and self._names.isdisjoint(image.overrides("broker", ""))
        ):
            return UNLIMITED

        def text(name: str) -> str:
            return broker_settings(image, (name,), broker_id, static)[0].value

        def number(name: str) -> int:
            beside = broker_settings(image, (self._of_listener[name],), broker_id, static) if name in self._of_listener else []
            return min([int(text(name)), *(int(setting.value) for setting in beside[:1])])

        def idle_s_max() -> float | None:
            setting = broker_settings(image, (CONNECTIONS_MAX_IDLE_MS,), broker_id, static)[0]
            idle_ms = int(setting.value)
            return None if setting.source is Source.DEFAULT else idle_ms / 1000 if idle_ms >= 0 else inf

        return ConfiguredLimits(
            number(MAX_CONNECTIONS),
            number(MAX_CONNECTIONS_PER_IP),
            limits_of_addresses(text(MAX_CONNECTIONS_PER_IP_OVERRIDES)),
            number(MAX_CONNECTION_CREATION_RATE),
            idle_s_max(),
        )
