"""The limits of client connections, and who exceeds them. No I/O.

Clients get the descriptors that the rest does not need (`descriptor_shares.py`). Within that, configs and quotas limit
connections as Kafka's do (KIP-402, KIP-612). The quota `connection_creation_rate` of an address holds for the cluster: each
gateway takes its part, and a connection beyond it is closed after a delay. Configs hold for each gateway
(`connection_configs.py`).
"""

from math import inf
from typing import NamedTuple

from libs.cluster.client_quotas import connection_limit
from libs.cluster.configs.connection_table import NO_LIMIT, usual_address
from libs.cluster.image import ClusterImage
from libs.cluster.records import GATEWAY
from services.gateway.core.connection_configs import UNLIMITED, ConfiguredLimits, ConnectionConfigs
from services.gateway.core.connection_rates import AddressRates, RateBucket

MAX_CONNECTIONS = "max-connections"
MAX_CONNECTIONS_PER_IP = "max-connections-per-ip"
CONNECTION_CREATION_RATE = "connection-creation-rate"
"""The quota of an address. The two above are configs."""
MAX_CONNECTION_CREATION_RATE = "max-connection-creation-rate"

DELAYED_MAX = 1024
DELAYED_PART = 16
"""The refused connections that are left alone for a while take at most one place for so many, and `DELAYED_MAX`."""


class Refusal(NamedTuple):
    """Why a connection is not served: the limit that it exceeds, in connections or connections a second."""

    reason: str
    limit: float
    broker_id: int | None = None
    """The broker to whose port the limit belongs. None: it is the whole gateway's."""
    delay_s: float = 0.0
    """How long the connection is left alone before it is closed, so that its client does not come back at once."""


class _Counts:
    """The connections of the gateway or of one port, and how fast new ones may be taken."""

    __slots__ = ("bucket", "by_host", "connections", "limits")

    def __init__(self, limits: ConfiguredLimits) -> None:
        self.limits = limits
        self.connections = 0
        self.by_host: dict[str, int] = {}
        self.bucket: RateBucket | None = None
        """None: there is no limit, or nothing came since there is one."""

    def change(self, limits: ConfiguredLimits) -> None:
        if limits.creation_rate != self.limits.creation_rate:
            self.bucket = None
        self.limits = limits

    def opened(self, host: str) -> None:
        self.connections += 1
        self.by_host[host] = self.by_host.get(host, 0) + 1

    def ended(self, host: str) -> None:
        self.connections -= 1
        left = self.by_host[host] - 1
        if left:
            self.by_host[host] = left
        else:
            del self.by_host[host]

    def per_ip_max(self, host: str) -> int:
        limits = self.limits
        return limits.of_addresses.get(address_of(host), limits.per_ip_max) if limits.of_addresses else limits.per_ip_max

    def debug(self) -> dict[str, object]:
        limits = self.limits
        numbers = {
            "connections_max": limits.connections_max,
            "per_ip_max": limits.per_ip_max,
            "creation_rate": limits.creation_rate,
        }
        set_ones = {name: limit for name, limit in numbers.items() if limit != NO_LIMIT}
        idle = {"idle_s_max": limits.idle_s_max} if limits.idle_s_max not in (None, inf) else {}
        addresses = {"addresses_with_a_limit": len(limits.of_addresses)} if limits.of_addresses else {}
        return {"connections": self.connections, **set_ones, **idle, **addresses}

    def took(self, now: float) -> None:
        if self.limits.creation_rate != NO_LIMIT:
            if self.bucket is None:
                self.bucket = RateBucket(self.limits.creation_rate, now)
            self.bucket.take(now)

    def wait_s(self, now: float) -> float:
        return self.bucket.wait_s(now) if self.bucket is not None else 0.0


class ConnectionLimits:
    """The connections that have a socket, by port and client address, and the limits of them. `follow` brings those of an image.

    A port is a broker id's, or the bootstrap port. Times are seconds of one clock that never goes back.
    """

    def __init__(self, places: int, configs: ConnectionConfigs) -> None:
        """`places`: the connections for which there are descriptors."""
        self.places = places
        self.delayed = 0
        """Refused connections that are left alone for a while. Each has a descriptor."""
        self.delayed_max = min(DELAYED_MAX, places // DELAYED_PART)
        self._configs = configs
        self._image = ClusterImage()
        self._gateways = 1
        self._all = _Counts(configs.gateway)
        self._ports: dict[int, _Counts] = {}
        """Of ports with a connection or a limit."""
        self._addresses = AddressRates()

    @property
    def connections_max(self) -> int:
        return min(self.places, self._configs.gateway.connections_max)

    def follow(self, image: ClusterImage) -> None:
        self._image = image
        self._gateways = max(1, len(image.members(GATEWAY)))
        if not self._configs.follow(image):
            return
        self._all.change(self._configs.gateway)
        for broker_id in {*self._ports, *self._configs.ports}:
            self._port(broker_id).change(self._configs.ports.get(broker_id, UNLIMITED))
            self._forget_unused(broker_id)

    def refusal(self, host: str, broker_id: int, now: float) -> Refusal | None:
        """The limit that one more connection from `host` to a broker's port exceeds. None: it is served. Each call is one
        connection that was made."""
        if self._all.connections + self.delayed >= self.places:
            return Refusal(MAX_CONNECTIONS, self.places)
        quota = connection_limit(self._image, address_of(host))
        if quota is not None and (delay_s := self._addresses.delay_s(quota.entity[1], quota.rate, self._gateways, now)):
            return Refusal(CONNECTION_CREATION_RATE, quota.rate, delay_s=delay_s if self.delayed < self.delayed_max else 0.0)
        scopes = self._scopes(broker_id)
        for _, counts in scopes:
            counts.took(now)
        for owner, counts in scopes:
            if counts.connections >= counts.limits.connections_max:
                return Refusal(MAX_CONNECTIONS, counts.limits.connections_max, owner)
        for owner, counts in scopes:
            if counts.by_host.get(host, 0) >= (per_ip_max := counts.per_ip_max(host)):
                return Refusal(MAX_CONNECTIONS_PER_IP, per_ip_max, owner)
        return None

    def opened(self, host: str, broker_id: int) -> None:
        self._all.opened(host)
        self._port(broker_id).opened(host)

    def ended(self, host: str, broker_id: int) -> None:
        self._all.ended(host)
        self._ports[broker_id].ended(host)
        self._forget_unused(broker_id)

    def wait_s(self, broker_id: int, now: float) -> float:
        """How long a port takes no connection, `connection_rates.DELAY_S_MAX` at most: they are made faster than
        `max.connection.creation.rate`."""
        return max(counts.wait_s(now) for _, counts in self._scopes(broker_id))

    def creation_rate(self, broker_id: int) -> int:
        """The connections that a port takes in a second."""
        return min(counts.limits.creation_rate for _, counts in self._scopes(broker_id))

    def exceeded(self) -> list[tuple[int | None, int]]:
        """The limits of numbers that were lowered below what is there: the broker of the port, or None for the gateway."""
        counted = [(None, self._all), *self._ports.items()]
        return [(owner, each.limits.connections_max) for owner, each in counted if each.connections > each.limits.connections_max]

    def idle_s_max(self, broker_id: int) -> float | None:
        """The time without a request after which a connection to a broker's port closes. None: the gateway's setting decides."""
        port = self._ports.get(broker_id)
        return port.limits.idle_s_max if port is not None else None

    @property
    def least_idle_s_max(self) -> float:
        """The shortest of those times that configs set. Infinite: none does."""
        return min((each.idle_s_max for each in self._configs.ports.values() if each.idle_s_max is not None), default=inf)

    def forget_full(self, now: float) -> None:
        """To be called now and then: forgets addresses that may connect as if they never had."""
        self._addresses.forget_full(now)

    def debug(self) -> dict[str, object]:
        """The limits in force, and how much of them is used. A limit that is not set is not there."""
        shown = {"gateway": self._all, **{f"port of broker {each}": self._ports[each] for each in self._configs.ports}}
        return {
            "places": self.places,
            "delayed": self.delayed,
            "addresses_with_a_rate": len(self._addresses),
            **{scope: counts.debug() for scope, counts in shown.items()},
        }

    def _scopes(self, broker_id: int) -> list[tuple[int | None, _Counts]]:
        port = self._ports.get(broker_id)
        return [(None, self._all)] if port is None else [(None, self._all), (broker_id, port)]

    def _port(self, broker_id: int) -> _Counts:
        port = self._ports.get(broker_id)
        if port is None:
            port = self._ports[broker_id] = _Counts(self._configs.ports.get(broker_id, UNLIMITED))
        return port

    def _forget_unused(self, broker_id: int) -> None:
        if not self._ports[broker_id].connections and broker_id not in self._configs.ports:
            del self._ports[broker_id]


def address_of(host: str) -> str:
    """The IP address of a client's host, `tcp:10.0.0.7` or `tcp:[::1]`, in its usual spelling."""
    bare = host.removeprefix("tcp:").strip("[]")
    return (usual_address(bare) or bare) if ":" in bare else bare
