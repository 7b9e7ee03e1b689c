"""The quotas of a client: what limits it, and what one of its requests uses of them."""

from typing import NamedTuple

from libs.cluster.client_quotas import UNLIMITED, Entity, Limits


class KeptLimits(NamedTuple):
    """What limits the requests of a connection that name this client id. Quotas have changed since, if there is a newer
    `generation`."""

    generation: int
    client_id: str
    limits: Limits


NO_LIMITS = KeptLimits(-1, "", UNLIMITED)


class Throttle(NamedTuple):
    """How long a connection is muted, in seconds, and the entity whose debt that is. None: nobody's, another process said so."""

    seconds: float
    entity: Entity | None


class QuotaUse:
    """Exists for a request whose client has a limit, or whose answer tells it to wait."""

    __slots__ = ("generation", "limits", "throttle_time_ms", "working_since")

    def __init__(self, limits: Limits, generation: int = -1) -> None:
        self.limits = limits
        self.generation = generation
        self.working_since = 0.0
        """Since when, by `perf_counter`, the event loop works for it, where that is a quota. 0.0: it does not."""
        self.throttle_time_ms = 0
        """The time that another process told the client to wait: the controller, for changes of topics (KIP-599)."""
