"""The port through which a shard's owner reaches its partition of the internal topic. Storage nodes, tests and the simulator have
adapters."""

from collections.abc import Callable, Sequence
from typing import Protocol

from libs.coordinator.core.shard import Fence, PlannedAppend
from libs.lean_dataclass import dataclass
from libs.telemetry.tracing.ids import SentRequest
from libs.telemetry.tracing.span import SpanContext


@dataclass(frozen=True, slots=True)
class Claimed:
    log_start: int
    log_end: int


@dataclass(frozen=True, slots=True)
class Read:
    """Whole batches, all committed. There may be none yet."""

    batches: memoryview
    high_watermark: int


@dataclass(frozen=True, slots=True)
class Stored:
    """The append is stored and committed."""

    base_offset: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The leader did nothing. `error` is its error code."""

    error: int


@dataclass(frozen=True, slots=True)
class Unknown:
    """There is no answer, or the answer does not say whether the request was carried out."""

    reason: str


Outcome = Stored | Refused | Unknown
"""The outcome of an append."""
Cancel = Callable[[], object]


class InternalLog(Protocol):
    """The partition's log as its owner uses it. Methods raise nothing. A caller may cancel them at any time; the outcome is then
    unknown."""

    def leader_epoch(self) -> int | None:
        """The leader epoch as this process knows it. None if no leader can be reached."""
        ...

    def asked(self) -> SentRequest | None:
        """The RPC request of the last append. None: it was none."""
        ...

    async def claim(self, fence: Fence) -> Claimed | Refused | Unknown: ...

    async def read(self, fence: Fence, offset: int) -> Read | Refused | Unknown:
        """Batches from `offset` on, read in the fence's leader epoch. Waits a while if there are none yet."""
        ...

    def append(
        self,
        planned: PlannedAppend,
        now_ms: int,
        on_result: Callable[[Outcome], None],
        traces: Sequence[SpanContext] = (),
    ) -> Cancel:
        """Appends one batch. `on_result` is called once, after this returns, unless the caller calls what this returns. `traces`:
        the spans that it belongs to."""
        ...
