"""All slices of a gateway, and when it asks the quota manager for more.

One ask carries all entities in need. The next leaves `ASK_EVERY_S` later at the soonest, once the last is answered or given up.
An ask leaves every `CALL_EVERY_S` even if nobody is in need: the manager keeps back the part of a gateway that it does not hear.
A gateway that had no answer to an ask of the last `GRANT_S` is alone: its slices fill by themselves, at rate / N, until an answer
arrives.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from libs.rpc.contracts.quotas import GRANT_S, Ask, Entity, Grant, Need
from services.gateway.core.quota_slice import QuotaSlice

ASK_EVERY_S: Final = 0.05
CALL_EVERY_S: Final = 0.3
ANSWER_S_MAX: Final = 0.3
"""How long an ask is waited for. Its answer counts for nothing then."""
UNUSED_S: Final = 10.0
"""The time after which the slice of an entity that nobody used is forgotten, unless it is in debt."""


class QuotaSlices:
    """Times are seconds of one clock that never goes back. `gateways`: the number of registered gateways, this one included."""

    def __init__(self, now: float, gateways: int = 1) -> None:
        self.gateways = gateways
        self._slices: dict[Entity, QuotaSlice] = {}
        self._number = self._confirmed = 0
        self._asked: Ask | None = None
        self._asked_at = now - CALL_EVERY_S
        self._heard_until = now
        """Until when the last answer counts: `GRANT_S` after its ask left."""

    def __len__(self) -> int:
        return len(self._slices)

    def spend(self, entity: Entity, rate: float, tokens: float, now: float) -> float:
        """Takes tokens of an entity with that limit. Returns the seconds until its debt will be paid; 0.0: there is none."""
        found = self._slices.get(entity)
        if found is None:
            found = self._slices[entity] = QuotaSlice(entity, rate, now)
        found.rate = rate
        found.fill_alone(self.gateways, self._heard_until, now)
        return found.spend(tokens, now)

    def wait_s(self, entity: Entity, now: float) -> float:
        """The seconds until an entity's debt will be paid. 0.0: it has none."""
        found = self._slices.get(entity)
        if found is None:
            return 0.0
        found.fill_alone(self.gateways, self._heard_until, now)
        return found.wait_s(now)

    def is_alone(self, now: float) -> bool:
        return now > self._heard_until

    def next_ask(self, now: float) -> Ask | None:
        """The ask to send now. None: there is nothing to ask, or an answer is awaited."""
        if self._asked is not None and now - self._asked_at >= ANSWER_S_MAX:
            self._asked = None
        if self._asked is not None or now - self._asked_at < ASK_EVERY_S:
            return None
        needs = tuple(self._needs(now))
        if not needs and now - self._asked_at < CALL_EVERY_S:
            return None
        self._number += 1
        self._asked_at = now
        self._asked = Ask(self._number, self._confirmed, needs)
        return self._asked

    def answered(self, ask: Ask, grants: Sequence[Grant], now: float) -> None:
        """The answer to an ask, with a grant for each of its needs. One that comes late counts for nothing."""
        if ask is not self._asked:
            return
        self._asked = None
        for each in self._slices.values():
            each.fill_alone(self.gateways, self._heard_until, now)
        self._confirmed = ask.number
        self._heard_until = self._asked_at + GRANT_S
        for need, grant in zip(ask.needs, grants, strict=True):
            found = self._slices.get(need.entity)
            if found is not None and grant.limited:
                found.granted(grant.tokens, grant.owed_elsewhere, self._asked_at)

    def failed(self, ask: Ask) -> None:
        """No answer will come."""
        if ask is self._asked:
            self._asked = None

    def forget(self, entity: Entity) -> None:
        """The entity has no limit any more."""
        self._slices.pop(entity, None)

    def _needs(self, now: float) -> Iterator[Need]:
        for entity, found in list(self._slices.items()):
            need = found.take_need(now)
            if need is not None:
                yield need
            elif now - found.used_at > UNUSED_S:
                del self._slices[entity]
