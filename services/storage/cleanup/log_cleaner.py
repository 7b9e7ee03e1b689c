"""The log cleaner: it picks the dirtiest log that is worth cleaning, over all log directories that work.

A log whose run failed is skipped for a while (`services/storage/cleanup/uncleanable_partitions.py`). One with damaged segments is
skipped until it is opened again, as in Kafka. Reads and appends go on.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from libs.commitlog.cleaner.planning import CleanPlan, CompactionConfig, SealedSegment, plan
from libs.commitlog.model.errors import LogDamaged, LogWriteError
from libs.commitlog.partition_log.log import LONG_MAX
from libs.lean_dataclass import dataclass
from libs.runtime.children import ChildDied, Children, ChildStalled
from libs.telemetry.logs import fields
from services.storage.cleanup.believed_clock import BelievedClock
from services.storage.cleanup.cleaner_meters import CleanerMeters
from services.storage.cleanup.compaction import Allowance, Compaction, LogChanged
from services.storage.cleanup.uncleanable_partitions import UncleanablePartitions
from services.storage.config import BrokerConfigs
from services.storage.disks.disk_reads import PATIENCE_S, TooManyReads
from services.storage.disks.disks import Disk
from services.storage.logs.node_logs import NodeLogs
from services.storage.partition.partition import Partition
from services.storage.threads.turns import Turns

log = logging.getLogger("cleaner")

NO_LIMIT = 1e18
"""Kafka's default rate, in bytes a second, is the largest number that there is."""
ROLL_MS_MIN = 600_000
"""The least age at which a quiet active segment is rolled: its records may be old when they come."""


class Due(NamedTuple):
    partition: Partition
    disk: Disk
    plan: CleanPlan


@dataclass(slots=True)
class Run:
    partition: Partition
    disk: Disk
    started_ms: int
    progress: Mapping[str, object] = field(default_factory=dict)

    def on_progress(self, progress: object) -> None:
        if isinstance(progress, dict):
            self.progress = progress


class LogCleaner:
    """The cleaner. `run` until cancelled, then `close`."""

    def __init__(
        self,
        time: BelievedClock,
        broker_configs: BrokerConfigs,
        logs: NodeLogs,
        meters: CleanerMeters,
        compaction: Compaction,
        children: Callable[[int], Children],
    ) -> None:
        self._time = time
        self._broker_configs = broker_configs
        self._disks = logs.disks
        self._open_logs = logs.open_logs
        self._checkpoints = logs.checkpoints
        self._reads = logs.reads
        self._meters = meters
        self._compaction = compaction
        self._make_children = children
        self._children: Children | None = None
        self._threads = 0
        self._uncleanable = UncleanablePartitions(asyncio.get_running_loop().time)
        self._running: dict[asyncio.Task[None], Run] = {}
        self._loop = asyncio.get_running_loop()

    @property
    def runs(self) -> Sequence[Run]:
        """The compactions that are under way."""
        return tuple(self._running.values())

    @property
    def uncleanable(self) -> UncleanablePartitions:
        """Partitions whose compaction failed, or was put off."""
        return self._uncleanable

    async def run(self) -> None:
        while True:
            started = 0
            try:
                if self._is_enabled():
                    started = await self._start_due()
            except Exception:
                log.exception("choice of logs to clean failed")
            backoff_s = max(self._broker_configs.integer("log.cleaner.backoff.ms") / 1000, 0.05)
            if started:  # meanwhile another log may become due, and a child be free for it
                await asyncio.wait(self._running, timeout=backoff_s, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(backoff_s)

    async def check(self) -> None:
        """Cleans until nothing is left to clean."""
        while await self._start_due() or self._running:
            await asyncio.wait(self._running)

    async def close(self) -> None:
        """Ends runs where they are. Their output is swept at the next opening."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        if self._children is not None:
            self._children.close()

    def debug(self) -> object:
        return {
            "running": [
                {"partition": str(run.partition), "since_ms": self._time.now_ms() - run.started_ms, **run.progress}
                for run in self._running.values()
            ],
            "left_alone": self._uncleanable.debug(),
            "cleaned_offsets": {
                str(partition): offset
                for partition, disk in sorted(self._open_logs.all(), key=lambda each: str(each[0]))
                if (offset := disk.cleaned_offsets.get(partition.key)) is not None
            },
            "max_dirty_percent": round(100 * self._meters.max_dirty_ratio, 1),
        }

    # -- choosing -----------------------------------------------------------------------------------------------------------

    async def _start_due(self) -> int:
        """Starts runs, as many as are allowed, and returns their number."""
        due = await self._look()
        threads = self._broker_configs.integer("log.cleaner.threads")
        chosen = due[: max(threads - len(self._running), 0)]
        if chosen and (self._children is None or (threads != self._threads and not self._running)):
            if self._children is not None:
                self._children.close()
            self._children, self._threads = self._make_children(threads), threads
        for candidate in chosen:
            task = self._loop.create_task(self._clean(candidate), name=f"cleaning {candidate.partition}")
            self._running[task] = Run(candidate.partition, candidate.disk, self._time.now_ms())
            task.add_done_callback(self._ended)
        self._meters.running = len(self._running)
        return len(chosen)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        del self._running[task]
        self._meters.running = len(self._running)

    async def _look(self) -> list[Due]:
        """The logs that are worth cleaning, the dirtiest first."""
        logs = self._open_logs.all()
        here = {partition for partition, _ in logs}
        self._uncleanable.forget_all_but(here)
        busy = {run.partition for run in self._running.values()}
        candidates: list[Due] = []
        plans: list[CleanPlan] = []
        turns = Turns()
        silent: set[str] = set()
        for partition, disk in logs:
            await turns.taken()
            if not (partition.config.compacted and self._open_logs.is_in_use(partition)) or disk.sync.stalled:
                continue
            if disk.path in silent:
                continue
            if partition in busy or partition.moving:
                continue
            try:
                plan = await self._plan(partition, disk)
            except TimeoutError:
                log.error("the cleaner waits for a disk that does not answer", extra=fields(path=disk.path))
                silent.add(disk.path)
                continue
            if plan is not None:
                plans.append(plan)
                if plan.worthwhile and partition not in self._uncleanable:
                    candidates.append(Due(partition, disk, plan))
        self._meters.last_look_ms = self._time.now_ms()
        self._meters.max_dirty_ratio = max((plan.ratio for plan in plans), default=0.0)
        self._meters.overdue_ms_max = max((plan.overdue_ms for plan in plans if plan.cleanable_bytes), default=0)
        self._count_uncleanable()
        for disk in self._disks.usable:
            await self._checkpoints.write_cleaned_offsets(disk)
        return sorted(candidates, key=lambda due: due.plan.ratio, reverse=True)

    async def _plan(self, partition: Partition, disk: Disk) -> CleanPlan | None:
        """The plan for a log. None: the log cannot be read. An active segment that has waited for long enough is rolled. Raises
        TimeoutError if the disk does not answer."""
        partition_log, config, now_ms = partition.log, partition.config, self._time.now_ms()
        self._limit_to_truncation(partition, disk)
        try:
            await self._roll_if_quiet(partition, now_ms)
            asks_age, asks_first = config.min_compaction_lag_ms > 0, config.max_compaction_lag_ms < LONG_MAX
            checkpoint = disk.cleaned_offsets.get(partition.key)
            dirty_from = partition_log.log_start_offset if checkpoint is None else checkpoint

            def facts_of_segments() -> list[SealedSegment]:
                return [
                    SealedSegment(
                        segment.base_offset,
                        segment.next_offset,
                        segment.size,
                        segment.latest_ms if asks_age and segment.next_offset > dirty_from else 0,
                        segment.first_timestamp if asks_first and segment.next_offset > dirty_from else -1,
                    )
                    for segment in partition_log.segments[:-1]
                ]

            facts = await self._reads.look_up(facts_of_segments, PATIENCE_S)
        except TimeoutError:
            raise
        except TooManyReads:
            return None
        except (OSError, LogDamaged) as error:
            self._failed(partition, error)
            return None
        return plan(
            facts,
            CompactionConfig(config.min_cleanable_dirty_ratio, config.min_compaction_lag_ms, config.max_compaction_lag_ms),
            checkpoint=checkpoint,
            log_start_offset=partition_log.log_start_offset,
            log_end_offset=partition_log.log_end_offset,
            stable_offset=min(partition.high_watermark, partition.last_stable_offset),
            active_base_offset=partition_log.active.base_offset,
            now_ms=now_ms,
        )

    def _limit_to_truncation(self, partition: Partition, disk: Disk) -> None:
        """Lowers the cleaned offset to a truncation: what was written afterwards was not cleaned."""
        offset = disk.cleaned_offsets.get(partition.key)
        if offset is not None:
            disk.cleaned_offsets[partition.key] = min(offset, partition.log.truncated_to, partition.log.log_end_offset)
        partition.log.truncated_to = LONG_MAX

    async def _roll_if_quiet(self, partition: Partition, now_ms: int) -> None:
        """Rolls an old active segment without appends. Otherwise appends roll it; the active segment is never cleaned."""
        active, limit_ms = partition.log.active, min(partition.config.max_compaction_lag_ms, partition.config.segment_ms)
        if active.size and partition.log.active_age_ms > min(limit_ms, ROLL_MS_MIN):
            first_ms = await self._reads.look_up(lambda: active.first_timestamp, PATIENCE_S)
            if partition.log.active is not active or not self._open_logs.is_in_use(partition):
                return
            if (now_ms - first_ms if first_ms >= 0 else partition.log.active_age_ms) > limit_ms:
                partition.log.roll()
                partition.sync.request_round(partition)
                partition.sync.start_round()

    # -- running ------------------------------------------------------------------------------------------------------------

    async def _clean(self, due: Due) -> None:
        partition, disk, plan = due
        task = asyncio.current_task()
        assert task is not None
        assert self._children is not None
        run = self._running[task]
        now_ms = self._time.now_ms()
        log.info(
            "cleaning",
            extra=fields(partition=partition, dirty_from=plan.first_dirty_offset, to=plan.end_offset, ratio=round(plan.ratio, 3)),
        )
        try:
            result = await self._compaction.run(partition, disk, plan, self._allowance(self._children), now_ms, run.on_progress)
            await self._checkpoints.write_cleaned_offsets(disk)
        except LogChanged as change:
            self._meters.dropped += 1
            log.info("cleaning dropped", extra=fields(partition=partition, reason=change))
            self._uncleanable.put_off(partition, str(change), self._broker_configs.integer("log.cleaner.backoff.ms") / 1000)
        except (LogDamaged, LogWriteError, ChildDied, OSError) as error:
            self._meters.stalled += isinstance(error, ChildStalled)
            self._failed(partition, error)
        except Exception as error:
            log.exception("cleaning failed", extra=fields(partition=partition))
            self._failed(partition, error)
        else:
            self._uncleanable.settled(partition)
            self._meters.finished(str(partition), result)
            log.info(
                "cleaned",
                extra=fields(
                    partition=partition,
                    to=result.end_offset,
                    read=result.bytes_read,
                    written=result.bytes_written,
                    records=result.records_read,
                    kept=result.records_kept,
                    seconds=round(result.seconds, 3),
                ),
            )

            if result.unopened:
                log.warning(
                    "batches cannot be opened for compaction",
                    extra=fields(
                        partition=partition,
                        batches=result.unopened,
                        first_offset=result.first_unopened,
                        reason=result.why_unopened,
                    ),
                )

    def _allowance(self, children: Children) -> Allowance:
        threads, rate = max(self._threads, 1), self._rate()
        map_bytes = self._broker_configs.integer("log.cleaner.dedupe.buffer.size") // threads
        return Allowance(children, map_bytes, rate / threads if rate < NO_LIMIT else 0.0)

    def _failed(self, partition: Partition, error: Exception) -> None:
        trouble = self._uncleanable.failed(partition, error)
        self._meters.failed += 1
        log.error(
            "a log is not cleaned until it is opened again"
            if trouble.until is None
            else "cleaning failed, it is tried again later",
            extra=fields(partition=partition, reason=error, failures=trouble.failures),
        )

    def _count_uncleanable(self) -> None:
        counts = {disk.path: (0, 0) for disk in self._disks.usable}
        for partition, disk in self._open_logs.all():
            if self._uncleanable.has_failed(partition) and disk.path in counts:
                partitions, size = counts[disk.path]
                counts[disk.path] = partitions + 1, size + partition.log.size
        self._meters.uncleanable = counts
        if self._meters.unopened:
            self._meters.keep_unopened({str(partition) for partition, _ in self._open_logs.all()})

    def _is_enabled(self) -> bool:
        return self._broker_configs.flag("log.cleaner.enable")

    def _rate(self) -> float:
        return self._broker_configs.real("log.cleaner.io.max.bytes.per.second")
