"""The mute of one client connection: since when, until when, and for whose debts quotas keep it from being read."""

import asyncio
from collections.abc import Callable
from typing import Final

from libs.cluster.client_quotas import Entity
from services.gateway.core.quota_slice import CREDIT_S
from services.gateway.exchange.quota_use import Throttle
from services.gateway.requests.client_quotas import ClientQuotas

FIRST_LOOK_S: Final = 0.1
"""A client that was silent may find its debt paid so soon: the manager has kept tokens for it."""

LOOKS_APART_S: Final = CREDIT_S / 5
"""The least time between two looks at what is still owed. While grants of the manager are late, a debt stays as it is, be it a
millisecond's. The wait leaves out a credit, so clients lose no part of their rate by this."""


class Mute:
    """`on_end` is called when the debt is paid, unless `end` comes first."""

    __slots__ = ("_loop", "_on_end", "_quotas", "_since", "_timer", "_told_until", "entities", "until")

    def __init__(self, quotas: ClientQuotas, on_end: Callable[[], None]) -> None:
        self._quotas = quotas
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.entities: dict[Entity, None] = {}
        """Whose debts it waits for, in the order in which they became known: three at most for each of its client ids."""
        self._since = 0.0
        self._told_until = 0.0
        """Until when another process wants it, whatever entities owe."""
        self.until = 0.0
        """Loop time."""

    @property
    def holds(self) -> bool:
        return self._timer is not None

    def begin(self, throttle: Throttle) -> bool:
        """Begins it, or makes it longer. Returns whether it began."""
        now = self._loop.time()
        until = now + throttle.seconds
        self.until = max(self.until, until)
        if throttle.entities:
            self.entities.update(dict.fromkeys(throttle.entities))
        else:
            self._told_until = max(self._told_until, until)
        if self._timer is not None:
            return False
        self._since = now
        self._timer = self._loop.call_at(min(self.until, now + FIRST_LOOK_S), self._look_early)
        return True

    def look(self) -> None:
        """Ends it if nothing is owed any more: limits have changed, or tokens have come."""
        if self._timer is None or self._loop.time() < self._told_until:
            return
        if not any(map(self._quotas.owes, self.entities)):
            self._on_end()

    def _look_early(self) -> None:
        self._timer = self._loop.call_at(self.until, self._look)
        self.look()

    def end(self) -> bool:
        """Ends it. Returns whether there was one."""
        if self._timer is None:
            return False
        self._timer.cancel()
        self._quotas.note_muted([*self.entities], self._loop.time() - self._since)
        self._timer, self.until, self._told_until = None, 0.0, 0.0
        self.entities.clear()
        return True

    def _look(self) -> None:
        now = self._loop.time()
        if now >= self.until:
            longer_s = max(map(self._quotas.longer_s, self.entities), default=0.0)
            if not longer_s:
                self._on_end()
                return
            self.until = now + max(longer_s, LOOKS_APART_S)
        self._timer = self._loop.call_at(self.until, self._look)
