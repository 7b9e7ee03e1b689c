"""Gateways, one quota manager and clients on virtual time, over the real cores: how much of a limit gets through.

Clients send as fast as they may: each waits as long as its gateway mutes it, then sends the next request, perhaps by another
gateway. RPC takes 0.3 to 3 ms a way.
"""

import heapq
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from libs.rpc.contracts.quotas import Ask, Grant
from services.gateway.core.quota_slice import QuotaSlice
from services.gateway.core.quota_slices import QuotaSlices
from services.quota_manager.core.ledger import Ledger
from services.quota_manager.core.registered_gateways import RegisteredGateways

ENTITY = (0, "tenant", "")
TICK_S = 0.01


@dataclass(frozen=True)
class Outage:
    """A time in which the manager does not hear these gateways, or they do not hear it. None: all of them."""

    start: float
    end: float
    gateways: tuple[int, ...] | None = None
    answers_only: bool = False
    """Asks arrive, and answers do not."""

    def cuts(self, gateway: int, now: float) -> bool:
        return self.start <= now < self.end and (self.gateways is None or gateway in self.gateways)


@dataclass
class Load:
    rate: float = 10e6
    clients: int = 10
    request_sizes: tuple[float, float] = (1e3, 1e6)
    moves_every_s: float = 2.0
    """How often clients choose another gateway, unevenly. 0.0: they stay."""
    seconds: float = 20.0


@dataclass
class Admitted:
    requests: list[tuple[float, float]] = field(default_factory=list)
    asks: int = 0

    def between(self, start: float, end: float) -> float:
        return sum(size for at, size in self.requests if start <= at < end)

    def excess(self, rate: float) -> float:
        """The most by which any time from one request to another admitted more than `rate` gives in it."""
        worst = lowest = total = 0.0
        for at, size in self.requests:
            lowest = min(lowest, total - rate * at)
            total += size
            worst = max(worst, total - rate * at - lowest)
        return worst


class SharedQuota:
    """One run. `new_manager` makes what a term begins with."""

    def __init__(
        self, seed: int, load: Load, gateways: int = 2, outages: tuple[Outage, ...] = (), successions: tuple[float, ...] = ()
    ) -> None:
        self._random = random.Random(seed)
        self._load, self._outages = load, outages
        self._now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._incarnations = dict.fromkeys(range(gateways), 1)
        self.slices = [QuotaSlices(0.0, gateways) for _ in range(gateways)]
        self._known: list[QuotaSlice | None] = [None] * gateways
        self._become_manager()
        self._places = [self._random.randrange(gateways) for _ in range(load.clients)]
        self.admitted = Admitted()
        for gateway in range(gateways):
            self._after(self._random.uniform(0, TICK_S), partial(self._tick, gateway))
        for client in range(load.clients):
            self._after(self._random.uniform(0, 0.1), partial(self._send, client))
        for at in successions:
            self._after(at, self._become_manager)
        if load.moves_every_s:
            self._move()

    def run(self) -> Admitted:
        while self._events and self._events[0][0] < self._load.seconds:
            self._now, _, event = heapq.heappop(self._events)
            event()
        return self.admitted

    def _after(self, seconds: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self._now + seconds, next(self._numbers), event))

    def _become_manager(self) -> None:
        self._ledger = Ledger(lambda _: self._load.rate)
        self._registered = RegisteredGateways(self._now)
        self._registered.register(self._incarnations, self._now)

    def _move(self) -> None:
        crowded = self._random.random()
        for client in range(len(self._places)):
            self._places[client] = 0 if self._random.random() < crowded else self._random.randrange(len(self.slices))
        self._after(self._load.moves_every_s, self._move)

    # -- clients ------------------------------------------------------------------------------------------------------------

    def _send(self, client: int) -> None:
        gateway = self._places[client]
        size = self._random.uniform(*self._load.request_sizes)
        slices, now = self.slices[gateway], self._now
        known = self._known[gateway]
        if known is None or not known.takes(size, now):
            self._known[gateway] = slices.spend(ENTITY, self._load.rate, size, now)
        wait_s = slices.wait_s(ENTITY, now)
        self.admitted.requests.append((self._now, size))
        if wait_s > 0.0:
            self._after(wait_s, lambda: self._muted(client, gateway))
        else:
            self._after(size / self._load.rate, partial(self._send, client))  # each client alone could use the whole limit

    def _muted(self, client: int, gateway: int) -> None:
        wait_s = self.slices[gateway].wait_s(ENTITY, self._now)
        if wait_s > 0.0:
            self._after(max(wait_s, 0.005), lambda: self._muted(client, gateway))
        else:
            self._send(client)

    # -- RPC ----------------------------------------------------------------------------------------------------------------

    def _cuts(self, gateway: int) -> Iterator[Outage]:
        return (outage for outage in self._outages if outage.cuts(gateway, self._now))

    def _tick(self, gateway: int) -> None:
        ask = self.slices[gateway].next_ask(self._now)
        if ask is not None:
            self.admitted.asks += 1
            if all(cut.answers_only for cut in self._cuts(gateway)):
                self._after(self._random.uniform(0.0003, 0.003), lambda: self._serve(gateway, ask))
        self._after(TICK_S, lambda: self._tick(gateway))

    def _serve(self, gateway: int, ask: Ask) -> None:
        now = self._now
        if not self._registered.asked(gateway, 1, ask.number, ask.confirmed, now):
            return
        grants = self._ledger.grant(gateway, ask.needs, now, self._registered.filled_s(now))
        if not any(self._cuts(gateway)):
            self._after(self._random.uniform(0.0003, 0.003), lambda: self._answer(gateway, ask, grants))

    def _answer(self, gateway: int, ask: Ask, grants: list[Grant]) -> None:
        self.slices[gateway].answered(ask, grants, self._now)
