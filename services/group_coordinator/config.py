"""What a group coordinator is told. Environment variables are `PENSTOCK_` and the field's name in capitals."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupCoordinatorConfig:
    """Settings of groups are Kafka's broker configs (`group.*`, `offsets.*`), which `kafka-configs` changes while all runs."""

    node_id: int
    """From 1, of its own among processes of its kind."""
    etcd: tuple[str, ...]
    """`host:port` of each member of etcd."""
    data_dir: str
    """For the number of the last start, and for where others were last seen. Groups are kept in `__consumer_offsets`."""
    rpc_unix: str = ""
    """The path of the socket for callers on this host."""
    rpc_tcp: str = ""
    """`host:port` for callers from anywhere. One of the two must be set."""
    host_id: str = ""
    """Processes of one kernel share it, and so may share Unix sockets. Empty: the kernel's boot id."""
    admin_host: str = "127.0.0.1"
    """Where `/healthz`, `/readyz`, `/metrics` and `/debug` are served."""
    admin_port: int = 0
    """0: any free port."""
    log_level: str = "info"
    """`debug`, `info`, `warning` or `error`."""
    member_ttl_s: int = 3
    """The lease of its registration: it is missed after that where no controller notices before."""
    peers: tuple[str, ...] = ()
    """`host:port` of RPC: whom else to ask for the metadata at a start while etcd is away, when the data directory is new."""
    hand_over_s: float = 5.0
    """A coordinator that is told to stop waits no longer for others to take its shards."""
    lag_series_max: int = 0
    """Of how many partitions of groups the lag is told as metrics: each is two time series. 0: of none, and nobody asks for it.
    `/debug/groups/NAME` tells it anyhow."""

    def __post_init__(self) -> None:
        if not self.rpc_unix and not self.rpc_tcp:
            raise ValueError("PENSTOCK_RPC_UNIX or PENSTOCK_RPC_TCP must be set: nobody could ask this coordinator anything")
