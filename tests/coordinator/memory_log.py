"""An `InternalLog` in memory, with its leader: it fences, and a test holds, loses or refuses appends."""

import asyncio
from collections.abc import Callable, Sequence

from libs.coordinator.core.shard import Fence, PlannedAppend
from libs.coordinator.log.internal_log import Cancel, Claimed, Read, Refused, Stored, Unknown
from libs.telemetry.tracing.span import SpanContext
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.records import Record, build_batch


class Partition:
    """The leader's side. `released` is unset to hold answers of appends back. `fate` decides about each append that arrives."""

    def __init__(self) -> None:
        self.epoch: int | None = 0
        self.batches: list[tuple[int, bytes]] = []
        self.end = 0
        self.committed: int | None = None
        """None: all of it."""
        self.unreadable = 0
        """Reads that come before the leader knows what is committed."""
        self.highest = -1
        self.claimed: Fence | None = None
        self.claims: list[Fence] = []
        self.appends: list[PlannedAppend] = []
        self.fate: Callable[[PlannedAppend], Refused | Unknown | None] = lambda _: None
        self.released = asyncio.Event()
        self.released.set()

    @property
    def high_watermark(self) -> int:
        return self.end if self.committed is None else self.committed

    def write(self, *records: tuple[bytes, bytes | None], codec: int = 0) -> None:
        """Writes records as a former owner did."""
        batch = build_batch([Record(key, value) for key, value in records], base_offset=self.end, codec=codec)
        self.batches.append((self.end, bytes(batch)))
        self.end += len(records)

    def log(self) -> "MemoryLog":
        return MemoryLog(self)


class MemoryLog:
    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._deliveries: set[asyncio.Task[None]] = set()

    def leader_epoch(self) -> int | None:
        return self._partition.epoch

    async def claim(self, fence: Fence) -> Claimed | Refused | Unknown:
        partition = self._partition
        partition.claims.append(fence)
        await asyncio.sleep(0)
        if fence.leader_epoch != partition.epoch:
            return Refused(ErrorCode.FENCED_LEADER_EPOCH)
        if fence.owner_epoch < partition.highest:
            return Refused(ErrorCode.NOT_COORDINATOR)
        partition.highest, partition.claimed = fence.owner_epoch, fence
        return Claimed(0, partition.end)

    async def read(self, fence: Fence, offset: int) -> Read | Refused | Unknown:
        partition = self._partition
        await asyncio.sleep(0)
        if fence.leader_epoch != partition.epoch:
            return Refused(ErrorCode.FENCED_LEADER_EPOCH)
        if partition.unreadable:
            partition.unreadable -= 1
            return Refused(78)
        if partition.high_watermark <= offset:
            await asyncio.sleep(0.001)
        matches = b"".join([batch for base, batch in partition.batches if offset <= base < partition.high_watermark])
        return Read(memoryview(matches), partition.high_watermark)

    def asked(self) -> None:
        """It is no process that has spans."""

    def append(
        self,
        planned: PlannedAppend,
        now_ms: int,
        on_result: Callable[[Stored | Refused | Unknown], None],
        traces: Sequence[SpanContext] = (),
    ) -> Cancel:
        self._partition.appends.append(planned)
        result = self._take(planned)

        async def deliver() -> None:
            await self._partition.released.wait()
            on_result(result)

        task = asyncio.get_running_loop().create_task(deliver())
        self._deliveries.add(task)
        task.add_done_callback(self._deliveries.discard)
        return task.cancel

    def _take(self, planned: PlannedAppend) -> Stored | Refused | Unknown:
        partition = self._partition
        if planned.fence.owner_epoch < partition.highest:
            return Refused(ErrorCode.NOT_COORDINATOR)
        if planned.fence != partition.claimed:
            return Refused(ErrorCode.FENCED_LEADER_EPOCH)
        if planned.offset != partition.end:
            return Refused(ErrorCode.OFFSET_OUT_OF_RANGE)
        fate = partition.fate(planned)
        if isinstance(fate, Refused):
            return fate
        if planned.records:
            partition.write(*planned.records)
        return fate or Stored(planned.offset)
