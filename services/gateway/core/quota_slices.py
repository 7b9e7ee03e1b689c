"""All slices of a gateway, and when it asks the quota manager for more.

One ask carries all entities in need, of the `LOOKED_AT_MAX` at most that it looks at in turn. The next leaves `ASK_EVERY_S` later
at the soonest, once the last is answered or given up. An ask leaves every `CALL_EVERY_S` even if nobody is in need: the manager
keeps back the part of a gateway that it does not hear. A gateway that had no answer to an ask of the last `GRANT_S` is alone: its
slices fill by themselves, at rate / N, until an answer arrives.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from libs.rpc.contracts.quotas import GRANT_S, Ask, Entity, Grant, Need
from services.gateway.core.quota_slice import QuotaSlice

ASK_EVERY_S: Final = 0.05
CALL_EVERY_S: Final = 0.3
ANSWER_S_MAX: Final = 0.3
"""How long an ask is waited for. Its answer counts for nothing then."""
LOOKED_AT_MAX: Final = 1_000
"""The slices that one ask looks at, in turn. Clients choose their ids, and so their number. If more are in need, each asks for as
much more as it waits longer for its turn."""
SLICES_MAX: Final = 10_000
"""The entities that are known at a time. Beyond them the one that was not looked at for longest is forgotten, with its debt."""
LOCAL: Final = "\0"
"""The first character of a client id that only this gateway knows: it stands for one that is too long to be told. Such an entity
has limit / N at each gateway, and nobody is asked for it."""
ROUNDS_MAX: Final = 5
"""The most slices that an entity asks for at once: half a second of its rate, which is all that the manager keeps."""
UNUSED_S: Final = 10.0
"""The time after which the slice of an entity that nobody used is forgotten, unless it is in debt."""


class QuotaSlices:
    """Times are seconds of one clock that never goes back. `gateways`: the number of registered gateways, this one included."""

    def __init__(self, now: float, gateways: int = 1) -> None:
        self.gateways = gateways
        self._slices: OrderedDict[Entity, QuotaSlice] = OrderedDict()
        self._number = self._confirmed = 0
        self._in_need: OrderedDict[Entity, None] = OrderedDict()
        """In the order in which they are asked for."""
        self._generation = 0
        self._rate_of: Callable[[Entity], float | None] = lambda _: None
        self._asked: Ask | None = None
        self._asked_at = now - CALL_EVERY_S
        self._heard_until = now
        """Until when the last answer counts: `GRANT_S` after its ask left."""

    def __len__(self) -> int:
        return len(self._slices)

    def spend(self, entity: Entity, rate: float, tokens: float, now: float) -> QuotaSlice:
        """Takes tokens of an entity with that limit, into debt if need be. Returns its slice.

        The caller may call `QuotaSlice.takes` until limits change, and `spend` where that is False.
        """
        found = self._current(entity)
        if found is None:
            found = self._slices[entity] = QuotaSlice(entity, rate, now, is_local=entity[2].startswith(LOCAL))
            if len(self._slices) > SLICES_MAX:
                self._slices.popitem(last=False)[1].end()
        self._slices.move_to_end(entity)
        found.limit(rate, self._generation)
        self._fill(found, now)
        found.spend(tokens, now)
        if found.is_in_need and not found.is_local:
            self._in_need[entity] = None
        return found

    def wait_s(self, entity: Entity, now: float) -> float:
        """The seconds that an entity's clients must wait, for its debt to be paid."""
        found = self._current(entity)
        if found is None:
            return 0.0
        self._fill(found, now)
        return found.wait_s(now, self.gateways if found.is_local or now > self._heard_until else 1)

    def _fill(self, found: QuotaSlice, now: float) -> None:
        found.fill_alone(self.gateways, 0.0 if found.is_local else self._heard_until, now)

    def _current(self, entity: Entity) -> QuotaSlice | None:
        """The slice of an entity, with its limit of today. None: it has none."""
        found = self._slices.get(entity)
        if found is not None and found.generation != self._generation:
            rate = self._rate_of(entity)
            if rate is None:
                self._slices.pop(entity).end()
                return None
            found.limit(rate, self._generation)
        return found

    @property
    def in_need(self) -> bool:
        """An entity has less than half of its slice, and the next ask will tell so."""
        return bool(self._in_need)

    def note_throttled(self, entity: Entity, seconds: float) -> None:
        """A client of an entity in debt was told that throttle time."""
        self._slices[entity].note_throttled(seconds)

    def owed_s(self, entity: Entity) -> float:
        """The debt of an entity, here and as far as known elsewhere, in seconds of its rate. 0.0: nothing is owed here."""
        found = self._slices.get(entity)
        return (found.owed_elsewhere - found.tokens) / found.rate if found is not None and found.tokens < 0.0 else 0.0

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
        if self.is_alone(now):
            for each in self._slices.values():
                self._fill(each, now)
        self._confirmed = ask.number
        self._heard_until = self._asked_at + GRANT_S
        for need, grant in zip(ask.needs, grants, strict=True):
            found = self._slices.get(need.entity)
            if found is not None and grant.limited:
                found.granted(grant.tokens, grant.owed_elsewhere, self._asked_at)
                if not found.is_in_need:
                    self._in_need.pop(need.entity, None)

    def failed(self, ask: Ask) -> None:
        """No answer will come."""
        if ask is self._asked:
            self._asked = None

    def debug(self, now: float) -> dict[str, object]:
        """How many entities have a slice, and whether this gateway hears the quota manager."""
        return {"entities": len(self._slices), "gateways": self.gateways, "alone": bool(self._slices) and self.is_alone(now)}

    def follow(self, rate_of: Callable[[Entity], float | None]) -> None:
        """The limits have changed: entities without one are forgotten, and the others take theirs, when they are looked at."""
        self._rate_of = rate_of
        self._generation += 1

    def _needs(self, now: float) -> Iterator[Need]:
        """Those of entities in need, in turn. Then other slices are looked at, in turn, for what goes back or is forgotten."""
        asked: set[Entity] = set()
        rounds = min(ROUNDS_MAX, 1 + len(self._in_need) // LOOKED_AT_MAX)
        for _ in range(min(LOOKED_AT_MAX, len(self._in_need))):
            entity, _none = self._in_need.popitem(last=False)
            found = self._current(entity)
            if found is None:
                continue
            need = found.take_need(now, rounds)
            if need is not None:
                asked.add(entity)
                yield need
                self._in_need[entity] = None
        for _ in range(min(LOOKED_AT_MAX - len(asked), len(self._slices))):
            entity, found = next(iter(self._slices.items()))
            self._slices.move_to_end(entity)
            if entity in asked or self._current(entity) is None:
                continue
            need = found.take_need(now) if not found.is_local else None
            if need is not None:
                if found.is_in_need:
                    self._in_need[entity] = None
                yield need
            elif now - found.used_at > UNUSED_S:
                self._slices.pop(entity).end()
