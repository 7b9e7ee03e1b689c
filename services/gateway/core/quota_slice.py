"""What a gateway may still spend of one entity's quota: its slice. The quota manager grants it (`services/quota_manager/core`).

Requests are carried out first and paid for afterwards (KIP-219), so a slice may be negative: a debt. A debt of up to `CREDIT_S`
makes nobody wait, since an entity below its limit has it after each pause. It is paid like any other.
"""

from typing import Final

from libs.rpc.contracts.quotas import GRANT_S, Entity, Need

SLICE_S: Final = 0.1
"""A whole slice, in seconds of the entity's rate. Below half of it a gateway asks for more."""
CREDIT_S: Final = SLICE_S
"""The debt, in seconds of the entity's rate, that is not waited for."""
RETURN_S: Final = 0.2
"""The time after which tokens that nobody uses go back to the manager, for other gateways."""


class QuotaSlice:
    """The slice of one entity at this gateway. Times are seconds of one clock that never goes back."""

    __slots__ = (
        "_enough",
        "_entity",
        "_filled_at",
        "_granted_until",
        "_had",
        "_throttle_s",
        "_throttled",
        "generation",
        "is_local",
        "owed_elsewhere",
        "rate",
        "tokens",
        "used_at",
    )

    def __init__(self, entity: Entity, rate: float, now: float, *, is_local: bool = False) -> None:
        """`rate`: the entity's limit in the whole cluster, in tokens a second. `is_local`: the manager does not know it."""
        self.is_local = is_local
        self._entity = entity
        self.rate, self.generation, self._enough = rate, 0, SLICE_S * rate / 2
        self.tokens = self._had = 0.0
        """`_had`: the tokens after the last need, and those that came and went unused since. The rest was used."""
        self._throttled, self._throttle_s = 0, 0.0
        self.owed_elsewhere = 0.0
        """What the entity owes at other gateways, by the manager's last answer."""
        self.used_at = now
        self._granted_until = now
        self._filled_at = now

    def limit(self, rate: float, generation: int) -> None:
        """`generation`: the limits by which that rate is right. Of tokens of a higher rate a whole slice stays."""
        if rate < self.rate and self.tokens > SLICE_S * rate:
            self._receive(SLICE_S * rate - self.tokens)
        self.rate, self.generation = rate, generation
        self._enough = SLICE_S * rate / 2

    def takes(self, tokens: float, now: float) -> bool:
        """Takes tokens, if half of the slice is left then. False: it takes none, and `QuotaSlices.spend` must.

        That is all that a request of an entity below its limit costs. `now` may be when the request was received.
        """
        left = self.tokens - tokens
        if left < self._enough or now > self._granted_until:
            return False
        self.tokens = left
        self.used_at = now
        return True

    def may_take(self, tokens: float, now: float) -> bool:
        """What `takes` would return."""
        return self.tokens - tokens >= self._enough and now <= self._granted_until

    def spend(self, tokens: float, now: float) -> None:
        """Takes tokens, into debt if need be."""
        self._drop_old(now)
        self.used_at = now
        self.tokens -= tokens

    def wait_s(self, now: float, gateways_alone: int = 1) -> float:
        """The seconds until the debt will be paid down to the credit, if nobody spends meanwhile. 0.0: it is.

        `gateways_alone`: the number of gateways, while this one pays its debt at rate / N.
        """
        if self.tokens >= 0.0:
            self._drop_old(now)
            return 0.0
        owed = max(self.owed_elsewhere - self.tokens, -self.tokens * gateways_alone)
        return max(0.0, owed / self.rate - CREDIT_S)

    @property
    def is_in_need(self) -> bool:
        """Whether less than half of the slice is left."""
        return self.tokens < self._enough

    def note_throttled(self, seconds: float) -> None:
        """An answer told that throttle time."""
        self._throttled += 1
        self._throttle_s += seconds

    def granted(self, tokens: float, owed_elsewhere: float, asked_at: float) -> None:
        """Adds what the manager granted to an ask that left at `asked_at`."""
        self._receive(tokens)
        self.owed_elsewhere = owed_elsewhere
        self._granted_until = max(self._granted_until, asked_at + GRANT_S)

    def take_need(self, now: float, slices: int = 1) -> Need | None:
        """What to tell the manager now: that it wants so many slices. Tokens that go back are taken. None: it has enough."""
        self._drop_old(now)
        whole = SLICE_S * self.rate
        if self.tokens < 0.0:
            return self._need(slices * whole, -self.tokens)
        if now - self.used_at > RETURN_S:
            if not self.tokens:
                return None
            returned = self.tokens
            self._receive(-returned)
            return self._need(returned=returned)
        return self._need(slices * whole - self.tokens) if self.is_in_need else None

    def _need(self, wanted: float = 0.0, debt: float = 0.0, returned: float = 0.0) -> Need:
        used = max(0.0, self._had - self.tokens)
        need = Need(self._entity, wanted, debt, returned, used, self._throttled, self._throttle_s)
        self._had, self._throttled, self._throttle_s = self.tokens, 0, 0.0
        return need

    def fill_alone(self, gateways: int, since: float, now: float) -> None:
        """Fills it at rate / `gateways` for the time from `since` to `now`, if there is any: the manager was silent."""
        start = max(self._filled_at, since)
        if now > start:
            part = self.rate / gateways
            whole = SLICE_S * part
            if self.tokens < whole:
                self._receive(min(whole - self.tokens, part * (now - start)))
                self._granted_until = now + GRANT_S
            self._filled_at = now

    def end(self) -> None:
        """The entity is forgotten. Whoever has its slice still finds nothing in it."""
        self.tokens = 0.0

    def _drop_old(self, now: float) -> None:
        if self.tokens > 0.0 and now > self._granted_until:
            self._receive(-self.tokens)

    def _receive(self, tokens: float) -> None:
        """Tokens come, or go unused."""
        self.tokens += tokens
        self._had += tokens
