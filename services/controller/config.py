"""Settings of a controller. Environment variables are `PENSTOCK_` and the field's name in capitals."""

from libs.lean_dataclass import dataclass
from libs.runtime.service_config import ServiceConfig, require_rpc_address


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig(ServiceConfig):
    """The settings of one controller process.

    `default_partitions`, `default_replication_factor` and `default_durability` count only when the cluster is created. Afterwards
    the metadata holds them, as the cluster-wide defaults of `num.partitions`, `default.replication.factor` and `log.durability`.
    They are changed there.
    """

    default_partitions: int = 1
    """The cluster's `num.partitions` when it is created."""
    default_replication_factor: int = 0
    """The cluster's `default.replication.factor` when it is created. 0: three, or as many as there are storage nodes."""
    default_durability: str = "synced"
    """The cluster's `log.durability` when it is created: `synced` or `replicated`."""
    add_scram_file: str = ""
    """The path of a file with users that the cluster has from its beginning, written as for `kafka-storage --add-scram` of Kafka.
    It is read only while there is no cluster ([first users](security.md#the-first-users)). Empty: none."""
    request_partitions_max: int = 10_000
    """Partitions that one request may create."""
    election_ttl_s: int = 3
    """The lease of the election: another controller is elected after that if this one cannot resign."""
    patience_s: float = 10.0
    """How long one write may take until it is confirmed and the image shows it."""

    def __post_init__(self) -> None:
        require_rpc_address(self, "controller")
        if self.default_partitions < 1:
            raise ValueError(f"PENSTOCK_DEFAULT_PARTITIONS is {self.default_partitions}; expected 1 or more")
        if self.default_replication_factor < 0:
            raise ValueError(f"PENSTOCK_DEFAULT_REPLICATION_FACTOR is {self.default_replication_factor}; expected 0 or more")
        if self.default_durability not in ("synced", "replicated"):
            raise ValueError(f"PENSTOCK_DEFAULT_DURABILITY is {self.default_durability!r}; expected synced or replicated")

    @property
    def cluster_defaults(self) -> dict[str, str]:
        """Cluster-wide defaults that the first controller writes: those that differ from Kafka's."""
        defaults = {}
        if self.default_partitions != 1:
            defaults["num.partitions"] = str(self.default_partitions)
        if self.default_replication_factor:
            defaults["default.replication.factor"] = str(self.default_replication_factor)
        if self.default_durability != "synced":
            defaults["log.durability"] = self.default_durability
        return defaults
