"""A Fetch call, from its first lookup to its answer."""

import asyncio

from libs.rpc.contracts.storage import Fetch
from libs.rpc.server.call import Call


class AcceptedFetch:
    """Times are those of `loop.time()`."""

    __slots__ = ("call", "disk_at", "failed", "looked_up_at", "parked", "request", "timer")

    def __init__(self, call: Call, request: Fetch, looked_up_at: float) -> None:
        self.call = call
        self.request = request
        self.looked_up_at = looked_up_at
        """When the first lookup ended. Waits begin then."""
        self.parked = False
        """Whether it has had to wait."""
        self.disk_at = 0.0
        """Since when it waits for a disk. 0.0: it does not."""
        self.failed = False
        """Whether its answer has an error."""
        self.timer: asyncio.TimerHandle | None = None

    def waited_s(self, now: float) -> float:
        """The seconds for which it waited as it was asked to, if it is answered now."""
        return min((self.disk_at or now) - self.looked_up_at, self.request.max_wait_ms / 1000) if self.parked else 0.0
