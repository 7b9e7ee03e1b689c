"""What a controller is told. Environment variables are `PENSTOCK_` and the field's name in capitals."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """`default_partitions`, `default_replication_factor` and `default_durability` are for the cluster's birth only: afterwards
    the metadata holds them, as the cluster-wide defaults of `num.partitions`, `default.replication.factor` and `log.durability`,
    and they are changed there."""

    node_id: int
    """From 1, of its own among processes of its kind."""
    etcd: tuple[str, ...]
    """`host:port` of each member of etcd."""
    data_dir: str
    """For the number of the last start, and for where others were last seen."""
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
    default_partitions: int = 1
    """The cluster's `num.partitions`, at its birth."""
    default_replication_factor: int = 0
    """The cluster's `default.replication.factor`, at its birth. 0: three, or as many as there are storage nodes."""
    default_durability: str = "synced"
    """The cluster's `log.durability`, at its birth: `synced` or `replicated`."""
    request_partitions_max: int = 10_000
    """How many partitions one request may create."""
    election_ttl_s: int = 3
    """The lease of the office: a controller that cannot resign is succeeded after that."""
    member_ttl_s: int = 3
    """The lease of its registration."""
    peers: tuple[str, ...] = ()
    """`host:port` of RPC: whom else to ask for the metadata at a start while etcd is away, when the data directory is new."""
    patience_s: float = 10.0
    """How long one write may take to be confirmed and seen."""

    def __post_init__(self) -> None:
        if not self.rpc_unix and not self.rpc_tcp:
            raise ValueError("PENSTOCK_RPC_UNIX or PENSTOCK_RPC_TCP must be set: nobody could ask this controller anything")
        if self.default_partitions < 1:
            raise ValueError(f"PENSTOCK_DEFAULT_PARTITIONS is {self.default_partitions}; expected 1 or more")
        if self.default_replication_factor < 0:
            raise ValueError(f"PENSTOCK_DEFAULT_REPLICATION_FACTOR is {self.default_replication_factor}; expected 0 or more")
        if self.default_durability not in ("synced", "replicated"):
            raise ValueError(f"PENSTOCK_DEFAULT_DURABILITY is {self.default_durability!r}; expected synced or replicated")

    @property
    def cluster_defaults(self) -> dict[str, str]:
        """What the first controller writes as the cluster-wide default, where it differs from Kafka's."""
        defaults = {}
        if self.default_partitions != 1:
            defaults["num.partitions"] = str(self.default_partitions)
        if self.default_replication_factor:
            defaults["default.replication.factor"] = str(self.default_replication_factor)
        if self.default_durability != "synced":
            defaults["log.durability"] = self.default_durability
        return defaults
