"""What a storage node is told at its start, by environment variables `PENSTOCK_<FIELD>` or the TOML file."""

from dataclasses import dataclass

from libs.cluster.configs.definitions import ConfigError, validate_static


@dataclass(frozen=True, slots=True)
class StorageConfig:
    """Times end in their unit. Addresses are "host:port"."""

    node_id: int
    data_dir: str
    etcd: tuple[str, ...]
    rpc_unix: str = ""
    """The path of the Unix socket for callers on this host."""
    rpc_tcp: str = ""
    """Where callers on other hosts connect; empty: nowhere."""
    log_dirs: tuple[str, ...] = ()
    """Empty: `logs` below the data directory."""
    admin_host: str = "127.0.0.1"
    admin_port: int = 0
    log_level: str = "info"
    rack: str = ""
    host_id: str = ""
    """Processes of one kernel share it, and so may share Unix sockets; empty: the kernel's boot id."""
    member_ttl_s: int = 10
    sync_hang_s: float = 10.0
    """A sync round that takes longer counts as hanging."""
    recovery_processes: int = 0
    """How many logs are read side by side after a crash, if they are large; 0: one for each core."""
    broker_configs: tuple[str, ...] = ()
    """Kafka's broker configs for this node, each `name=value`, until they are changed while it runs."""
    high_watermark_checkpoint_s: float = 5.0
    recovery_checkpoint_s: float = 60.0
    hand_over_s: float = 5.0
    """A node that is told to stop waits no longer for others to take over what they can."""
    rpc_max_frame: int = 128 << 20

    def __post_init__(self) -> None:
        for name, value in self.static.items():
            try:
                validate_static(name, value)
            except ConfigError as error:
                raise ValueError(f"broker_configs: {error}") from error

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
                raise ValueError(f"broker_configs: {entry!r} is not name=value")
        return found

    @property
    def directories(self) -> tuple[str, ...]:
        return self.log_dirs or (f"{self.data_dir}/logs",)
