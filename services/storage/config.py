"""Settings of a storage node, from environment variables `PENSTOCK_<FIELD>` or the TOML file."""

from collections.abc import Callable, Mapping

from libs.cluster.configs.definitions import ConfigError, validate_static
from libs.cluster.configs.resolve import (
    effective_broker_value,
)
from libs.cluster.configs.values import ConfigValue
from libs.cluster.image import ClusterImage
from libs.lean_dataclass import dataclass
from libs.runtime.service_config import ServiceConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageConfig(ServiceConfig):
    """Times end in their unit. Addresses are "host:port"."""

    log_dirs: tuple[str, ...] = ()
    """Where partitions lie. Empty: `logs` below the data directory."""
    rack: str = ""
    """The rack or zone that it is in: replicas are spread over racks."""
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
    volume_stamp_s: float = 10.0
    """How often is noted, here and in the metadata store, that a log directory has new records. By that a directory is recognised
    whose volume was restored from an older snapshot."""
    free_disk_percent_min: int = 10
    """A warning is logged while a log directory's volume has less of its size free, in percent. 0: never."""
    topic_series_max: int = 300
    """Maximum number of topics with metrics of their own, three time series each. The others are counted as the topic
    `(other)`."""
    partition_series_max: int = 300
    """Maximum number of led partitions with metrics of their own, four time series each. A scrape holds up requests for 10 µs a
    time series. 0: none."""
    producer_ids_max: int = 1_000_000
    """Maximum number of idempotent producers that the logs of the node remember, 200 to 300 bytes each. Beyond it, the log with
    the most forgets about the longest silent. The topic config `producer.ids.max` bounds each log."""
    hand_over_s: float = 5.0
    """A node that is told to stop waits no longer for others to take over what they can."""
    rpc_max_frame: int = 128 << 20
    """The longest message between processes, in bytes."""

    def __post_init__(self) -> None:
        for path in self.log_dirs:
            if self.log_dirs.count(path) > 1:
                raise ValueError(f"PENSTOCK_LOG_DIRS names {path} twice")
        if not 0 <= self.free_disk_percent_min <= 100:
            raise ValueError(f"PENSTOCK_FREE_DISK_PERCENT_MIN is {self.free_disk_percent_min}; expected 0 to 100")
        for name, value in self.static.items():
            try:
                validate_static(name, value)
            except ConfigError as error:
                raise ValueError(f"PENSTOCK_BROKER_CONFIGS: {error}") from error

    @property
    def static(self) -> dict[str, str]:
        """`broker_configs` by name. What has no name goes on with the list before it: the environment splits at each comma."""
        values: dict[str, str] = {}
        name = ""
        for entry in self.broker_configs:
            head, equals, value = entry.partition("=")
            if equals:
                name = head.strip()
                values[name] = value.strip()
            elif name:
                values[name] += f",{entry}"
            else:
                raise ValueError(f"PENSTOCK_BROKER_CONFIGS has {entry!r}; expected name=value")
        return values

    @property
    def directories(self) -> tuple[str, ...]:
        return self.log_dirs or (f"{self.data_dir}/logs",)


class BrokerConfigs:
    """Kafka's broker configs that are in force on this node now: those of the image, then the static ones, then the defaults.

    What was read is kept until the image's overrides change: checks each second ask for the same ones.
    """

    __slots__ = ("_kept", "_kept_of", "image", "node_id", "static")

    def __init__(self, image: Callable[[], ClusterImage], node_id: int, static: Mapping[str, str]) -> None:
        self.image, self.node_id, self.static = image, node_id, static
        self._kept: dict[str, ConfigValue | None] = {}
        self._kept_of: object = None

    def value(self, name: str) -> ConfigValue | None:
        """None if nobody set it and it has no default."""
        image = self.image()
        if self._kept_of is not image.overrides_by_resource:
            self._kept_of, self._kept = image.overrides_by_resource, {}
        if name not in self._kept:
            self._kept[name] = effective_broker_value(image, name, broker_id=self.node_id, static=self.static)
        return self._kept[name]

    def integer(self, name: str) -> int:
        value = self.value(name)
        assert isinstance(value, int)
        return value

    def real(self, name: str) -> float:
        value = self.value(name)
        assert isinstance(value, float)
        return value

    def flag(self, name: str) -> bool:
        value = self.value(name)
        assert isinstance(value, bool)
        return value
