"""The quotas of a client: what limits it, and what one of its requests uses of them."""

from typing import NamedTuple

from libs.cluster.client_quotas import UNLIMITED, Entity, Limits
from services.gateway.core.quota_slice import QuotaSlice


class KeptLimits:
    """What limits the requests of a connection that name this client id. Quotas have changed since, if there is a newer
    `generation`."""

    __slots__ = ("client_id", "fetch", "generation", "limits", "paid", "produce")

    def __init__(self, generation: int, client_id: str, limits: Limits) -> None:
        self.generation = generation
        self.client_id = client_id
        self.limits = limits
        self.produce: QuotaSlice | None = None
        self.fetch: QuotaSlice | None = None
        """The slices that earlier requests of this connection were paid from. None: there were none, or time is limited, too."""
        self.paid: QuotaUse | None = None
        """The use of every Produce that `produce` has paid for without a debt."""


NO_LIMITS = KeptLimits(-1, "", UNLIMITED)


class Throttle(NamedTuple):
    """How long a connection is muted, in seconds, and the entities that owe something, who waits longest first. None do: another
    process said so."""

    seconds: float
    entities: tuple[Entity, ...] = ()


class QuotaUse:
    """Exists for a request whose client has a limit, or whose answer tells it to wait."""

    __slots__ = ("generation", "limits", "paid_from", "postponed", "throttle_time_ms", "to_pay_from", "working_since")

    def __init__(
        self,
        limits: Limits,
        generation: int = -1,
        *,
        paid_from: QuotaSlice | None = None,
        to_pay_from: QuotaSlice | None = None,
    ) -> None:
        """`paid_from`: the slice that a Produce took its bytes from; nobody waits unless it owes something meanwhile.
        `to_pay_from`: the slice that the answer to a Fetch may take its bytes from."""
        self.paid_from = paid_from
        self.to_pay_from = to_pay_from
        self.limits = limits
        self.generation = generation
        self.working_since = 0.0
        """Since when, by `ClientQuotas.busy_now`, the event loop works for it, where that is a quota. 0.0: it does not."""
        self.postponed = False
        """Whether it waited before it began, since its client owed something."""
        self.throttle_time_ms = 0
        """The time that another process told the client to wait: the controller, for changes of topics (KIP-599)."""
