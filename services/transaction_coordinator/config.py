"""Settings of a transaction coordinator. Environment variables are `PENSTOCK_` and the field's name in capitals."""

from libs.lean_dataclass import dataclass
from libs.runtime.service_config import ServiceConfig, require_rpc_address


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCoordinatorConfig(ServiceConfig):
    """The settings of one process. Settings of transactions are Kafka's broker configs (`transaction.*`,
    `transactional.id.expiration.ms`), which `kafka-configs` changes at run time."""

    hand_over_s: float = 5.0
    """How long a stopping coordinator waits for others to take its shards."""

    def __post_init__(self) -> None:
        require_rpc_address(self, "transaction coordinator")
