"""What a controller is told. Environment variables are `PENSTOCK_` and the field's name in capitals."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """`default_partitions`, `default_replication_factor` and `default_durability` are for the cluster's birth only: afterwards
    the metadata holds them, as the cluster-wide defaults of `num.partitions`, `default.replication.factor` and `log.durability`,
    and they are changed there."""

    node_id: int
    etcd: tuple[str, ...]  # host:port
    data_dir: str  # for the number of the last start
    rpc_unix: str = ""  # path of the socket for callers on this host
    rpc_tcp: str = ""  # host:port for callers from anywhere
    host_id: str = ""  # processes of one kernel share it; "": the kernel's boot id
    admin_host: str = "127.0.0.1"
    admin_port: int = 0  # 0: any free port
    log_level: str = "info"
    default_partitions: int = 1
    default_replication_factor: int = 0  # 0: three, or as many as there are storage nodes
    default_durability: str = "synced"
    request_partitions_max: int = 10_000
    election_ttl_s: int = 3
    member_ttl_s: int = 3
    patience_s: float = 10.0  # how long one write may take to be confirmed and seen

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
