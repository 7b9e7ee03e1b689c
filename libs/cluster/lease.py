"""A lease that is kept alive, and the moment from which its holder may no longer rely on it."""

import asyncio
from collections.abc import Callable

from libs.cluster.store import MetadataStore, StoreUnavailable


class HeldLease:
    """A lease that is refreshed at a third of its time to live, until the store says that it is gone or its deadline has passed.

    The deadline counts from before a request was sent, so this process gives up the lease no later than the store does. `on_lost`
    is called once, with the reason, and never after `stop`.
    """

    def __init__(
        self, store: MetadataStore, lease_id: int, ttl_s: int, granted_at: float, on_lost: Callable[[str], None]
    ) -> None:
        self.lease_id = lease_id
        self._store = store
        self._ttl_s = ttl_s
        self._deadline = granted_at + ttl_s
        self._on_lost = on_lost
        self._held = True
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(self._deadline, self._expired)
        self._task = loop.create_task(self._refresh(), name=f"lease {lease_id:x}")

    @property
    def held(self) -> bool:
        """False once the lease may have expired. It tells which work to stop; safety comes from guards alone."""
        return self._held and asyncio.get_running_loop().time() < self._deadline

    def stop(self) -> None:
        """Ends the refreshing. The lease itself lives on until it expires or is revoked."""
        self._held = False
        self._timer.cancel()
        self._task.cancel()

    async def _refresh(self) -> None:
        loop = asyncio.get_running_loop()
        pause = self._ttl_s / 3
        while True:
            await asyncio.sleep(pause)
            sent = loop.time()
            try:
                async with asyncio.timeout(self._ttl_s / 3):
                    remaining = await self._store.keep_alive(self.lease_id)
            except (StoreUnavailable, TimeoutError):
                pause = self._ttl_s / 20  # soon: an outage of half the time to live must not cost the lease
                continue
            if remaining <= 0:
                self._lose("the lease is gone")
                return
            pause = self._ttl_s / 3
            self._deadline = sent + remaining
            self._timer.cancel()
            self._timer = loop.call_at(self._deadline, self._expired)

    def _expired(self) -> None:
        self._task.cancel()
        self._lose("the lease could not be refreshed in time")

    def _lose(self, reason: str) -> None:
        if self._held:
            self._held = False
            self._timer.cancel()
            self._on_lost(reason)


async def grant(store: MetadataStore, ttl_s: int, on_lost: Callable[[str], None]) -> HeldLease:
    """Raises StoreUnavailable."""
    granted_at = asyncio.get_running_loop().time()
    return HeldLease(store, await store.grant_lease(ttl_s), ttl_s, granted_at, on_lost)
