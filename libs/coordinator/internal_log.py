"""The partition of an internal topic, as the owner of its shard reaches it. A seam: tests and the simulator have their own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from libs.runtime.shards.shard import Fence, PlannedAppend


@dataclass(frozen=True, slots=True)
class Claimed:
    log_start: int
    log_end: int


@dataclass(frozen=True, slots=True)
class Read:
    """Whole batches, all of them committed; perhaps none yet."""

    batches: memoryview
    high_watermark: int


@dataclass(frozen=True, slots=True)
class Stored:
    """And committed."""

    base_offset: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was done. `error` is the leader's."""

    error: int


@dataclass(frozen=True, slots=True)
class Unknown:
    """No answer, or one that does not tell."""

    reason: str


Cancel = Callable[[], object]


class InternalLog(Protocol):
    """Nothing raises but cancellation, which may come at any time: then the outcome is unknown."""

    def leader_epoch(self) -> int | None:
        """As far as is known here. None: there is no leader that could be asked."""
        ...

    async def claim(self, fence: Fence) -> Claimed | Refused | Unknown: ...

    async def read(self, fence: Fence, offset: int) -> Read | Refused | Unknown:
        """From `offset` on, in the fence's leader epoch. Waits a while where there is nothing yet."""
        ...

    def append(self, planned: PlannedAppend, now_ms: int, told: Callable[[Stored | Refused | Unknown], None]) -> Cancel:
        """`told` is called once, never from in here, and not any more once what this returns was called."""
        ...
