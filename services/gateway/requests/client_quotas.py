"""Client quotas at this gateway: what requests use of them, and how long a client is muted after an answer (KIP-124, KIP-219).

The bytes of a Produce count when it begins: a client that hangs up owes them all the same. The bytes of a Fetch's answer count
when it is sent. The time of a request counts while the event loop works for it: until it has begun, and in each step of its
handler. Reading and sending bytes do not count, and neither do other processes.

A request over a quota is carried out, and the connection is muted after its answer. The debt is the entity's, wherever its
connections are. Two kinds of requests are not carried out while it lasts: a Fetch is answered without records at once, and the
first Produce of a connection waits.
"""

import hashlib
import logging
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Final

from libs.cluster.client_quotas import (
    CONTROLLER_MUTATION,
    FETCH,
    PRODUCE,
    REQUEST,
    SHARED,
    UNLIMITED,
    Entity,
    Limit,
    client_limits,
    has_limits,
    rate_of,
    user_of,
)
from libs.cluster.image import ClusterImage
from libs.telemetry.level_switches import Switches
from libs.telemetry.logs import fields
from libs.wire.api_keys import ApiKey
from libs.wire.messages.fetch import FetchResponseWriter
from libs.wire.throttle_time import throttle_time_at, with_throttle_time
from services.gateway.core.quota_slice import QuotaSlice
from services.gateway.core.quota_slices import LOCAL, QuotaSlices
from services.gateway.exchange.exchange import Answer, Exchange, FilePart
from services.gateway.exchange.quota_use import KeptLimits, QuotaUse, Throttle
from services.gateway.gateway_meters import GatewayMeters

log = logging.getLogger("quotas")

LOGGED: Final = Switches(log)

MUTED_S_MAX: Final = 10.0
"""The longest time that a client is told to wait. A connection stays muted for longer if its entity still owes something."""
BUSY_MUTED_S_MAX: Final = 1.0
"""The longest mute for a limit of time, as in Kafka: who is far beyond it must still be able to send heartbeats, and to remove
it."""
CLIENT_ID_MAX: Final = 255
"""A longer client id is not told to the quota manager: its limit is shared out evenly among gateways."""
MUTED_S_MIN: Final = 0.001
"""A shorter wait is none: `throttle_time_ms` could not tell it."""
PERCENT: Final = 100.0

QUOTA_NAMES: Final = {PRODUCE: "produce", FETCH: "fetch", REQUEST: "request", CONTROLLER_MUTATION: "controller_mutation"}
"""The label of each kind in the gateway's metrics."""

_PRODUCE_KEY: Final = int(ApiKey.PRODUCE)
_FETCH_KEY: Final = int(ApiKey.FETCH)
_API_OF: Final = {PRODUCE: _PRODUCE_KEY, FETCH: _FETCH_KEY}


class ClientQuotas:
    """Those of one process. Call `follow` with each image."""

    def __init__(self, slices: QuotaSlices, meters: GatewayMeters, now: Callable[[], float]) -> None:
        self.slices = slices
        self.configured = False
        """Whether any client has a limit."""
        self.limits_time = False
        """Whether the time of any client's requests is limited."""
        self.generation = 0
        self._image: ClusterImage | None = None
        self.on_need: Callable[[], None] = lambda: None
        """Called when an entity needs tokens."""
        self.busy_now: Callable[[], float] = perf_counter
        """The clock by which the event loop's work is measured, in seconds."""
        self._meters = meters
        self._now = now

    def follow(self, image: ClusterImage) -> bool:
        """Returns whether the quotas have changed."""
        before, self._image = self._image, image
        if before is not None and before.client_quotas is image.client_quotas:
            return False
        self.configured = has_limits(image, SHARED)
        self.limits_time = has_limits(image, (REQUEST,))
        self.generation += 1
        self.slices.follow(lambda entity: rate_of(image, entity))
        return True

    def keep_limits(self, exchange: Exchange) -> KeptLimits:
        """Looks up what limits a request's client, and keeps it in its connection."""
        kept = exchange.connection.kept_limits = self._limits_of(exchange.connection.principal, exchange.client_id)
        return kept

    def begin(self, exchange: Exchange, kept: KeptLimits, frame: memoryview, since: float) -> bool:
        """Counts a request that begins, and that the loop works for `since` then. `kept`: the limits of today, which are some.
        A Produce comes here unless `kept.produce` has paid for it.

        False: it does not begin. A Fetch over its quota is answered without records. The first Produce of a connection waits
        while its entity owes something: whoever connects anew for each request gains nothing. Both clients are muted.
        """
        api_key, connection, limits = exchange.api_key, exchange.connection, kept.limits
        before = exchange.quota_use
        use = exchange.quota_use = QuotaUse(limits, self.generation)
        use.postponed = before is not None
        if api_key == _PRODUCE_KEY and (produce := limits[PRODUCE]) is not None:
            now = self._now()
            owed_s = self.slices.wait_s(produce.entity, now)
            if owed_s >= MUTED_S_MIN:
                throttle = Throttle(min(owed_s, MUTED_S_MAX), (produce.entity,))
                if before is None and not connection.has_produced:
                    exchange.frame, use.postponed = frame, True
                    connection.postpone(exchange, throttle)
                    return False
                connection.mute(throttle)  # it has sent more requests before its answers
            connection.has_produced = True
            slice_ = self._spend(produce, len(frame), now)
            if limits[REQUEST] is None:
                kept.produce, kept.paid = slice_, QuotaUse(limits, self.generation, paid_from=slice_)
            if before is not None and (longer := self.longer(produce.entity)) is not None:
                connection.mute(longer)  # it has waited, and owes something again
        elif api_key == _FETCH_KEY and (fetch := limits[FETCH]) is not None:
            if kept.fetch is not None and kept.fetch.tokens >= 0.0:
                use.to_pay_from = kept.fetch
            elif self.slices.wait_s(fetch.entity, self._now()) >= MUTED_S_MIN:
                self._refuse(exchange)
                return False
        if limits[REQUEST] is not None:
            use.working_since = since
        return True

    def _limits_of(self, principal: str, client_id: str) -> KeptLimits:
        assert self._image is not None, "`follow` comes first"
        limits = client_limits(self._image, user_of(principal), client_id)
        if limits is not UNLIMITED and len(client_id) > CLIENT_ID_MAX:
            local = LOCAL + hashlib.sha256(client_id.encode()).hexdigest()
            produce, fetch, request, mutation = (_renamed(limit, client_id, local) for limit in limits)
            limits = produce, fetch, request, mutation
        return KeptLimits(self.generation, client_id, limits)

    def _refuse(self, exchange: Exchange) -> None:
        """Answers a Fetch without records, at once. Its client is muted as after any other answer."""
        writer: FetchResponseWriter[Any] = FetchResponseWriter(exchange.api_version, exchange.correlation_id, 0)
        exchange.finish(writer.finish().pieces)

    def counts_time(self, exchange: Exchange) -> bool:
        use = exchange.quota_use
        return use is not None and use.limits[REQUEST] is not None

    def works(self, exchange: Exchange, since: float) -> None:
        """The event loop works for a request, of which `counts_time` is true. `since`: by `busy_now`."""
        assert exchange.quota_use is not None, "only limited requests are counted"
        exchange.quota_use.working_since = since

    def rests(self, exchange: Exchange) -> None:
        """Counts the time since `works`, if it was called."""
        use = exchange.quota_use
        if use is not None and use.working_since:
            self._count_time(use, self._now())
            use.working_since = 0.0

    def _count_time(self, use: QuotaUse, now: float) -> None:
        request = use.limits[REQUEST]
        if request is not None and use.working_since:
            since, use.working_since = use.working_since, self.busy_now()
            self._spend(request, (use.working_since - since) * PERCENT, now)

    def throttle(self, exchange: Exchange, answer: Answer) -> Throttle | None:
        """Counts an answer. Returns how long its connection is muted after it. None: it is not."""
        use, now = exchange.quota_use, self._now()
        assert use is not None, "only limited requests are throttled"
        if use.to_pay_from is not None and use.generation == self.generation and use.to_pay_from.takes(size_of(answer), now):
            return None
        if use.generation != self.generation and use.limits is not UNLIMITED:
            principal = exchange.connection.principal
            use.limits, use.generation = self._limits_of(principal, exchange.client_id).limits, self.generation
        self._count_time(use, now)
        use.working_since = 0.0  # sending is not counted, and those that begin then count their own time
        if exchange.api_key == _FETCH_KEY and (fetch := use.limits[FETCH]) is not None:
            slice_, kept = self._spend(fetch, size_of(answer), now), exchange.connection.kept_limits
            if use.limits[REQUEST] is None and kept.generation == self.generation and kept.client_id == exchange.client_id:
                kept.fetch = slice_
        waits: list[tuple[float, Entity]] = []
        for limit in use.limits[: REQUEST + 1]:
            wait_s = self._wait_s(limit, exchange, now)
            if limit is not None and wait_s >= MUTED_S_MIN:
                told_s = min(wait_s, BUSY_MUTED_S_MAX if limit.entity[0] == REQUEST else MUTED_S_MAX)
                waits.append((told_s, limit.entity))
                self.slices.note_throttled(limit.entity, told_s)
        waits.sort(reverse=True)
        longest_s = max(use.throttle_time_ms / 1000, waits[0][0] if waits else 0.0)
        if longest_s < MUTED_S_MIN:
            return None
        throttle = Throttle(min(longest_s, MUTED_S_MAX), tuple(entity for _, entity in waits))
        name = _name_of(throttle.entities)
        self._meters.throttled[name] = self._meters.throttled.get(name, 0) + 1
        if LOGGED.debug:
            told = {"seconds": throttle.seconds, "entities": list(throttle.entities)}
            client = {"client_id": exchange.client_id, "peer": exchange.connection.peer}
            log.debug("client muted", extra=fields(**told, **client))
        return throttle

    def longer(self, entity: Entity) -> Throttle | None:
        """How much longer a connection is muted, since its entity still owes something. None: it is not."""
        longer_s = self.longer_s(entity)
        return Throttle(longer_s, (entity,)) if longer_s else None

    def longer_s(self, entity: Entity) -> float:
        """The seconds of `longer`. 0.0: the connection is not muted longer."""
        if entity[0] == REQUEST:
            return 0.0
        wait_s = self.slices.wait_s(entity, self._now())
        return min(wait_s, MUTED_S_MAX) if wait_s >= MUTED_S_MIN else 0.0

    def owes(self, entity: Entity) -> bool:
        return self.slices.wait_s(entity, self._now()) >= MUTED_S_MIN

    def note_muted(self, entities: Sequence[Entity], seconds: float) -> None:
        """Counts the time for which a connection was muted, as that of the first entity's quota."""
        name = _name_of(entities)
        self._meters.throttle_seconds[name] = self._meters.throttle_seconds.get(name, 0.0) + seconds

    def _spend(self, limit: Limit, tokens: float, now: float) -> QuotaSlice:
        slice_ = self.slices.spend(limit.entity, limit.rate, tokens, now)
        if self.slices.in_need:
            self.on_need()
        return slice_

    def _wait_s(self, limit: Limit | None, exchange: Exchange, now: float) -> float:
        if limit is None or _API_OF.get(limit.entity[0], exchange.api_key) != exchange.api_key:
            return 0.0
        return self.slices.wait_s(limit.entity, now)


def _renamed(limit: Limit | None, client_id: str, local: str) -> Limit | None:
    """The limit under another name of its client id, if that is a part of its entity."""
    if limit is None or limit.entity[2] != client_id:
        return limit
    kind, user, _ = limit.entity
    return Limit((kind, user, local), limit.rate)


def _name_of(entities: Sequence[Entity]) -> str:
    return QUOTA_NAMES[entities[0][0] if entities else CONTROLLER_MUTATION]


def size_of(answer: Answer) -> int:
    """The bytes of an answer."""
    if answer is None:
        return 0
    if isinstance(answer, (bytes, bytearray)):
        return len(answer)
    return sum(part.length if isinstance(part, FilePart) else len(part) for part in answer)


def telling(exchange: Exchange, answer: Answer, throttle_time_ms: int) -> Answer:
    """The answer with that throttle time, if its API and version have a place for it."""
    if not answer:
        return answer
    first = answer if isinstance(answer, (bytes, bytearray)) else answer[0]
    assert not isinstance(first, FilePart), "an answer begins with its header"
    at = throttle_time_at(ApiKey(exchange.api_key), exchange.api_version, first)
    if at < 0:
        return answer
    told = with_throttle_time(first, at, throttle_time_ms)
    return told if isinstance(answer, (bytes, bytearray)) else [told, *answer[1:]]
