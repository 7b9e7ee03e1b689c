"""Settings of a quota manager. Environment variables are `PENSTOCK_` and the field's name in capitals."""

from libs.lean_dataclass import dataclass
from libs.runtime.service_config import ServiceConfig, require_rpc_address


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaManagerConfig(ServiceConfig):
    """The settings of one process. Limits themselves are client quotas, which `kafka-configs` changes at run time."""

    election_ttl_s: int = 3
    """The lease of the election: another quota manager is elected after that if this one cannot resign."""

    def __post_init__(self) -> None:
        require_rpc_address(self, "quota manager")
