"""Settings of a gateway. Environment variables are `PENSTOCK_` and the field's name in capitals."""

from typing import Final

from libs.cluster.configs.connection_table import (
    MAX_CONNECTION_CREATION_RATE,
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_PER_IP,
    MAX_CONNECTIONS_PER_IP_OVERRIDES,
)
from libs.cluster.configs.definitions import BROKER_CONFIGS, ConfigError
from libs.lean_dataclass import dataclass
from libs.rpc.transport.transport import KERNELS_CHOICE
from libs.runtime.service_config import PORT_MAX, ServiceConfig, host_problem

_CONNECTION_SETTINGS: Final = {
    MAX_CONNECTIONS: "connections_max",
    MAX_CONNECTIONS_PER_IP: "connections_per_ip_max",
    MAX_CONNECTIONS_PER_IP_OVERRIDES: "connections_per_ip_overrides",
    MAX_CONNECTION_CREATION_RATE: "connection_creation_rate_max",
}
"""Kafka's configs, and the settings that stand for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig(ServiceConfig):
    """The settings of one gateway.

    `port_base` is the bootstrap port. Broker id i has port `port_base + i`, both advertised and listened to. The advertised
    address is the one that clients reach. It is never guessed from the local socket, since port maps and NAT change it.
    """

    port_base: int
    """The bootstrap port. Broker id i has port `port_base` + i."""
    listen_host: str = "127.0.0.1"
    """The address of the listening sockets."""
    advertised_host: str = "127.0.0.1"
    """The host that Metadata names to clients."""
    advertised_port_base: int = 0
    """The bootstrap port as clients reach it. 0: `port_base`."""
    listener_name: str = "PLAINTEXT"
    """The listener's name, as in Kafka's `listeners`."""
    rack: str = ""
    """The rack or zone of this gateway."""
    member_ttl_s: int = 2
    """The lease of its registration, in seconds."""
    fenced_broker_s_max: float = 300.0
    """The time for which Metadata still names a storage node that is registered and not alive. Its port stays open, and clients
    keep their connections. 0: not at all, as in Kafka. DescribeCluster names only nodes that are alive."""

    connections_max: int = 0
    """The most client connections, as Kafka's `max.connections`, but 2 at least. One beyond is closed. 0, or more: what the limit
    of open files leaves beside `open_files_max` and the connections to other processes. The four limits of connections hold for
    this gateway, unless `kafka-configs --entity-type brokers --entity-default` has another value."""
    connections_per_ip_max: int = 0
    """The most connections from one address, as Kafka's `max.connections.per.ip`. One beyond is closed. 0: no limit."""
    connections_per_ip_overrides: tuple[str, ...] = ()
    """Addresses with a limit of their own, as Kafka's `max.connections.per.ip.overrides`: `10.0.0.7:200,::1:50`."""
    connection_creation_rate_max: int = 0
    """The most connections that are taken in a second, as Kafka's `max.connection.creation.rate`. Further ones wait. 0: no
    limit."""
    frame_bytes_max: int = 104_857_600
    """The longest request, as Kafka's `socket.request.max.bytes`."""
    connection_requests_max: int = 256
    """The unanswered requests of one connection. At the bound, no more are read."""
    connection_bytes_max: int = 33_554_432
    """The bytes of unanswered requests of one connection. At the bound, no more are read."""
    queued_request_bytes_max: int = 134_217_728
    """The bytes of unanswered and of incomplete requests, of all connections together, as Kafka's `queued.max.request.bytes`. At
    the bound, connections are not read until there is room. An eighth is kept for those that hold little. If `frame_bytes_max`
    does not fit in front of it, the bound is higher."""
    crowded_s_max: float = 2.0
    """While connections wait for room, a request must have arrived and begun within so long. Else its connection is closed. A
    request that arrives gets a second more for each 4 MiB."""
    parked_bytes_max: int = 67_108_864
    """The bytes of batches that wait for a leader, of all connections together."""
    half_frame_s_max: float = 30.0
    """The time in which a request must arrive completely, plus a second for each 16,384 bytes that have arrived. Also the longest
    wait for room in `queued_request_bytes_max`."""
    unread_answer_bytes_max: int = 67_108_864
    """The bytes of answers in memory that clients have not read, of all connections together. Above half, records leave by
    sendfile only, and a client that reads nothing for `crowded_s_max` is disconnected."""
    unread_answers_s_max: float = 30.0
    """A client that reads none of its answers for so long is disconnected."""
    idle_s_max: float = 600.0
    """The time without a request after which a connection is closed, as Kafka's `connections.max.idle.ms`."""
    drain_s_max: float = 10.0
    """The longest wait for outstanding requests when the gateway stops."""

    socket_send_buffer_bytes: int = 102_400
    """The send buffer of client connections, as Kafka's `socket.send.buffer.bytes`. The kernel takes twice as much. -1: the
    kernel sizes it, which clients far away need: a connection sends no more than one buffer in a round trip."""
    fetch_wait_ms_max: int = 60_000
    """The longest wait of a Fetch for records, whatever its client asks for. The requests behind it wait as long."""
    fetch_bytes_max: int = 57_671_680
    """The largest answer to a Fetch, as Kafka's `fetch.max.bytes`."""
    sendfile_bytes_min: int = 131_072
    """Records of at least so many bytes leave by sendfile, without being read into memory."""
    open_files_max: int = 512
    """The number of segment files that are kept open. At most one for sixteen of the limit of open files."""
    open_file_idle_s: float = 30.0
    """A file that is not read for so long is closed. A deleted segment takes disk space while it is open."""

    shortcuts: bool = True
    """Whether requests that repeat an earlier one are recognised, and begun without parsing them. false, for diagnosis: each is
    parsed, and each leader asked. Answers are the same."""

    @property
    def connection_configs(self) -> dict[str, str]:
        """The limits of connections that are set, under Kafka's names."""
        given = {name: getattr(self, setting) for name, setting in _CONNECTION_SETTINGS.items()}
        given[MAX_CONNECTIONS_PER_IP_OVERRIDES] = ",".join(self.connections_per_ip_overrides)
        return {name: str(value) for name, value in given.items() if value}

    def problem(self) -> str | None:
        if not 1 <= self.port_base < PORT_MAX:
            return f"PENSTOCK_PORT_BASE is {self.port_base}; expected 1 to {PORT_MAX - 1}"
        if self.socket_send_buffer_bytes < 1 and self.socket_send_buffer_bytes != KERNELS_CHOICE:
            return f"PENSTOCK_SOCKET_SEND_BUFFER_BYTES is {self.socket_send_buffer_bytes}; expected -1, or 1 or more"
        for name, value in self.connection_configs.items():
            try:
                BROKER_CONFIGS[name].validate(value)
            except ConfigError as error:
                return f"PENSTOCK_{_CONNECTION_SETTINGS[name].upper()}: {error}"
        return (
            host_problem("LISTEN_HOST", self.listen_host)
            or host_problem("ADVERTISED_HOST", self.advertised_host)
            or ServiceConfig.problem(self)
        )
