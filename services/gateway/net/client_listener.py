"""What holds for all connections to one listener."""

from collections.abc import Callable

from libs.lean_dataclass import dataclass
from services.gateway.requests.authentication import SaslListener


@dataclass(frozen=True, slots=True)
class ClientListener:
    name: str
    """As in Kafka's `listeners`. Metadata names the addresses of the listener that its client uses."""
    sasl: SaslListener | None = None
    """Clients must authenticate first."""
    user_of: Callable[[bytes], str] | None = None
    """The user whom a certificate names, in DER. Raises ValueError for one that nobody may have. None: certificates name nobody.
    """
