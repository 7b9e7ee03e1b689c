"""Settings of a group coordinator. Environment variables are `PENSTOCK_` and the field's name in capitals."""

from libs.lean_dataclass import dataclass
from libs.runtime.service_config import ServiceConfig, require_rpc_address


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCoordinatorConfig(ServiceConfig):
    """The settings of one process. Settings of groups are Kafka's broker configs (`group.*`, `offsets.*`), which `kafka-configs`
    changes at run time."""

    hand_over_s: float = 5.0
    """How long a stopping coordinator waits for others to take its shards."""
    lag_series_max: int = 300
    """Maximum number of group partitions exported as lag metrics, three time series each. 0 disables them. `/debug/groups/NAME`
    shows the lag in any case."""
    shortcuts: bool = True
    """Whether OffsetCommits that repeat an earlier one of their member are recognised. false, for diagnosis: each is parsed.
    Answers are the same."""

    def __post_init__(self) -> None:
        require_rpc_address(self, "group coordinator")
