"""What a gateway is told. Environment variables are `PENSTOCK_` and the field's name in capitals."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """`port_base` is the bootstrap port; broker id i is at `port_base + i`, as advertised and as listened to.

    The advertised address is what clients reach, and is never guessed from the local socket: port maps and NAT change it.
    """

    node_id: int
    """From 1, of its own among processes of its kind."""
    etcd: tuple[str, ...]
    """`host:port` of each member of etcd."""
    port_base: int
    """The bootstrap port; broker id i is listened to at `port_base` + i."""
    data_dir: str
    """For the number of the last start, and for where others were last seen."""
    listen_host: str = "127.0.0.1"
    """The address that is listened to."""
    advertised_host: str = "127.0.0.1"
    """The host that clients are told."""
    advertised_port_base: int = 0
    """The bootstrap port as clients reach it. 0: `port_base`."""
    listener_name: str = "PLAINTEXT"
    """Its name, as in Kafka's `listeners`."""
    rpc_unix: str = ""
    """The path of the socket where controllers on this host find out whether it lives."""
    rpc_tcp: str = ""
    """`host:port` of the same, from anywhere. Without either, a gateway that ended is missed after its silence."""
    rack: str = ""
    """The rack or zone that it is in."""
    host_id: str = ""
    """Processes of one kernel share it, and so may share Unix sockets. Empty: the kernel's boot id."""
    admin_host: str = "127.0.0.1"
    """Where `/healthz`, `/readyz`, `/metrics` and `/debug` are served."""
    admin_port: int = 0
    """0: any free port."""
    log_level: str = "info"
    """`debug`, `info`, `warning` or `error`."""
    member_ttl_s: int = 2
    """The lease of its registration."""
    peers: tuple[str, ...] = ()
    """`host:port` of RPC: whom else to ask for the metadata at a start while etcd is away, when the data directory is new."""

    frame_bytes_max: int = 104_857_600
    """The longest request, as Kafka's `socket.request.max.bytes`."""
    connection_requests_max: int = 256
    """Requests of one connection that are not answered yet; no more are read meanwhile."""
    connection_bytes_max: int = 33_554_432
    """The same in bytes."""
    half_received_bytes_max: int = 268_435_456
    """What has arrived of unfinished requests, of all connections together."""
    parked_bytes_max: int = 67_108_864
    """Produces that wait for a leader, of all connections together."""
    half_frame_s_max: float = 30.0
    """So long after it began a request must have arrived in full: plus a second for each 16,384 bytes of it that are here."""
    unread_answers_s_max: float = 30.0
    """A client that reads none of its answers for so long is hung up on."""
    idle_s_max: float = 600.0
    """As Kafka's `connections.max.idle.ms`."""
    drain_s_max: float = 10.0
    """How long requests under way may take when it stops."""

    fetch_bytes_max: int = 57_671_680
    """The largest answer to a Fetch, as Kafka's `fetch.max.bytes`."""
    sendfile_bytes_min: int = 131_072
    """From here on batches go from the file to the client's socket, without being read."""
    open_files_max: int = 512
    """Segments that are kept open."""
    open_file_idle_s: float = 30.0
    """A deleted segment takes its space for as long as it is open."""
