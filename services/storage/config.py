"""What a storage node is told at its start, by environment variables `PENSTOCK_<FIELD>` or the TOML file."""

from dataclasses import dataclass

from libs.cluster.configs.definitions import ConfigError, validate_static


@dataclass(frozen=True, slots=True)
class StorageConfig:
    """Times end in their unit. Addresses are "host:port"."""

    node_id: int
    """From 1: the broker id."""
    data_dir: str
    """For the number of the last start, and whether the kernel has lived since. One process at a time uses it."""
    etcd: tuple[str, ...]
    """`host:port` of each member of etcd."""
    rpc_unix: str = ""
    """The path of the socket for callers on this host."""
    rpc_tcp: str = ""
    """`host:port` where callers on other hosts connect. Empty: nowhere."""
    log_dirs: tuple[str, ...] = ()
    """Where partitions lie. Empty: `logs` below the data directory."""
    admin_host: str = "127.0.0.1"
    """Where `/healthz`, `/readyz`, `/metrics` and `/debug` are served."""
    admin_port: int = 0
    """0: any free port."""
    log_level: str = "info"
    """`debug`, `info`, `warning` or `error`."""
    rack: str = ""
    """The rack or zone that it is in: replicas are spread over racks."""
    host_id: str = ""
    """Processes of one kernel share it, and so may share Unix sockets. Empty: the kernel's boot id."""
    member_ttl_s: int = 10
    """The lease of its registration: a node is missed after that where no controller notices before."""
    sync_hang_s: float = 10.0
    """A sync round that takes longer counts as hanging."""
    recovery_processes: int = 0
    """How many logs are read side by side after a crash, if they are large. 0: one for each core."""
    broker_configs: tuple[str, ...] = ()
    """Kafka's broker configs for this node, each `name=value`, until they are changed while it runs."""
    high_watermark_checkpoint_s: float = 5.0
    """How often high watermarks are written down."""
    recovery_checkpoint_s: float = 60.0
    """How often is written down from where a crash makes logs be read again."""
    hand_over_s: float = 5.0
    """A node that is told to stop waits no longer for others to take over what they can."""
    rpc_max_frame: int = 128 << 20
    """The longest message between processes, in bytes."""

    def __post_init__(self) -> None:
        for name, value in self.static.items():
            try:
                validate_static(name, value)
            except ConfigError as error:
                raise ValueError(f"PENSTOCK_BROKER_CONFIGS: {error}") from error

    @property
    def static(self) -> dict[str, str]:
        """`broker_configs` by name. What has no name goes on with the list before it: the environment splits at each comma."""
        found: dict[str, str] = {}
        name = ""
        for entry in self.broker_configs:
            head, equals, value = entry.partition("=")
            if equals:
                name = head.strip()
                found[name] = value.strip()
            elif name:
                found[name] += f",{entry}"
            else:
                raise ValueError(f"PENSTOCK_BROKER_CONFIGS has {entry!r}; expected name=value")
        return found

    @property
    def directories(self) -> tuple[str, ...]:
        return self.log_dirs or (f"{self.data_dir}/logs",)
