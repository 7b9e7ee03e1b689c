"""What a gateway is told. Environment variables are `PENSTOCK_` and the field's name in capitals."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """`port_base` is the bootstrap port; broker id i is at `port_base + i`, as advertised and as listened to.

    The advertised address is what clients reach, and is never guessed from the local socket: port maps and NAT change it.
    """

    node_id: int
    etcd: tuple[str, ...]  # host:port
    port_base: int
    data_dir: str  # for the number of the last start
    listen_host: str = "127.0.0.1"
    advertised_host: str = "127.0.0.1"
    advertised_port_base: int = 0  # 0: port_base
    listener_name: str = "PLAINTEXT"
    rpc_unix: str = ""  # path of the socket where controllers on this host find out whether it lives
    rpc_tcp: str = ""  # host:port of the same, from anywhere; without either a gateway that ended is missed after its silence
    rack: str = ""
    host_id: str = ""  # processes of one kernel share it; "": the kernel's boot id
    admin_host: str = "127.0.0.1"
    admin_port: int = 0  # 0: any free port
    log_level: str = "info"
    member_ttl_s: int = 2

    frame_bytes_max: int = 104_857_600  # socket.request.max.bytes
    connection_requests_max: int = 256
    connection_bytes_max: int = 33_554_432
    half_received_bytes_max: int = 268_435_456  # of all connections together
    parked_bytes_max: int = 67_108_864  # produces that wait for a leader, all connections together
    half_frame_s_max: float = 30.0
    unread_answers_s_max: float = 30.0
    idle_s_max: float = 600.0
    drain_s_max: float = 10.0

    fetch_bytes_max: int = 57_671_680  # fetch.max.bytes
    sendfile_bytes_min: int = 131_072
    open_files_max: int = 512
    open_file_idle_s: float = 30.0  # a deleted segment takes its space for as long as it is open
