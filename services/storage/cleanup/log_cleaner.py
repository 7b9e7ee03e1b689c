"""Decides which compacted log is cleaned when: the dirtiest that is worth it, over all log directories that work.

What failed is left alone for a while (`services/storage/left_alone.py`), a log whose segments are damaged until it is opened
again, as in Kafka; reads and appends go on.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from libs.cluster.configs.resolve import effective_broker_bool, effective_broker_float, effective_broker_int
from libs.cluster.follower import ImageFollower
from libs.commitlog.cleaner.planning import CleanPlan, CompactionConfig, SealedSegment, plan
from libs.commitlog.errors import LogDamaged, LogWriteError
from libs.commitlog.log import LONG_MAX
from libs.runtime.children import ChildDied, Children, ChildStalled
from libs.telemetry.logs import fields
from services.storage.checkpoints import Checkpoints
from services.storage.cleaner_meters import CleanerMeters
from services.storage.compaction import Allowance, Compaction, LogChanged
from services.storage.deletion_time import DeletionTime
from services.storage.disks import Disk, Disks
from services.storage.hosted import Hosted
from services.storage.left_alone import LeftAlone
from services.storage.residents import Residents
from services.storage.turns import Turns

log = logging.getLogger(__name__)

NO_LIMIT = 1e18
"""Bytes a second: Kafka's default is the largest number that there is."""
ROLL_MS_MIN = 600_000
"""A quiet active segment is not closed before: its records may be old when they come."""


class Due(NamedTuple):
    hosted: Hosted
    disk: Disk
    plan: CleanPlan


@dataclass(slots=True)
class Run:
    hosted: Hosted
    disk: Disk
    started_ms: int
    progress: Mapping[str, object] = field(default_factory=dict)

    def tell(self, progress: object) -> None:
        if isinstance(progress, dict):
            self.progress = progress


class Cleaning:
    """`run` until cancelled, then `close`."""

    def __init__(
        self,
        time: DeletionTime,
        follower: ImageFollower,
        disks: Disks,
        residents: Residents,
        meters: CleanerMeters,
        compaction: Compaction,
        checkpoints: Checkpoints,
        children: Callable[[int], Children],
        *,
        node_id: int,
        static: Mapping[str, str],
    ) -> None:
        self._time = time
        self._follower = follower
        self._disks = disks
        self._residents = residents
        self._meters = meters
        self._compaction = compaction
        self._checkpoints = checkpoints
        self._make_children = children
        self._node_id = node_id
        self._static = static
        self._children: Children | None = None
        self._threads = 0
        self._left_alone = LeftAlone(asyncio.get_running_loop().time)
        self._running: dict[asyncio.Task[None], Run] = {}
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        while True:
            started = 0
            try:
                if self._is_enabled():
                    started = await self._start_due()
            except Exception:
                log.exception("looking for logs to clean failed")
            backoff_s = max(self._int("log.cleaner.backoff.ms") / 1000, 0.05)
            if started:  # while they run, another may become due, and a thread be free for it
                await asyncio.wait(self._running, timeout=backoff_s, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(backoff_s)

    async def check(self) -> None:
        """Cleans until there is nothing to clean."""
        while await self._start_due() or self._running:
            await asyncio.wait(self._running)

    async def close(self) -> None:
        """Runs end where they are: what they wrote is swept at the next opening."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        if self._children is not None:
            self._children.close()

    def debug(self) -> object:
        return {
            "running": [
                {"partition": str(run.hosted), "since_ms": self._time.now_ms() - run.started_ms, **run.progress}
                for run in self._running.values()
            ],
            "left_alone": self._left_alone.debug(),
            "cleaned_offsets": {
                f"{topic}-{index}": offset
                for disk in self._disks.usable
                for (topic, index), offset in sorted(disk.cleaned_offsets.items())
            },
            "max_dirty_percent": round(100 * self._meters.max_dirty_ratio, 1),
        }

    # -- choosing -----------------------------------------------------------------------------------------------------------

    async def _start_due(self) -> int:
        """Starts as many runs as may be, and returns how many."""
        due = await self._look()
        threads = self._int("log.cleaner.threads")
        chosen = due[: max(threads - len(self._running), 0)]
        if chosen and (self._children is None or (threads != self._threads and not self._running)):
            if self._children is not None:
                self._children.close()
            self._children, self._threads = self._make_children(threads), threads
        for one in chosen:
            task = self._loop.create_task(self._clean(one), name=f"cleaning {one.hosted}")
            self._running[task] = Run(one.hosted, one.disk, self._time.now_ms())
            task.add_done_callback(self._ended)
        self._meters.running = len(self._running)
        return len(chosen)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        del self._running[task]
        self._meters.running = len(self._running)

    async def _look(self) -> list[Due]:
        """What is worth cleaning, the dirtiest first."""
        logs = self._residents.open_logs()
        here = {hosted for hosted, _ in logs}
        self._left_alone.forget_all_but(here)
        busy = {run.hosted for run in self._running.values()}
        found: list[Due] = []
        plans: list[CleanPlan] = []
        turns = Turns()
        for hosted, disk in logs:
            await turns.taken()
            if not (hosted.config.compacted and self._residents.has_open(hosted)) or disk.sync.stalled:
                continue
            if hosted in busy or hosted.moving:
                continue
            plan = self._plan(hosted, disk)
            if plan is not None:
                plans.append(plan)
                if plan.worthwhile and hosted not in self._left_alone:
                    found.append(Due(hosted, disk, plan))
        self._meters.last_look_ms = self._time.now_ms()
        self._meters.max_dirty_ratio = max((plan.ratio for plan in plans), default=0.0)
        self._meters.overdue_ms_max = max((plan.overdue_ms for plan in plans if plan.cleanable_bytes), default=0)
        self._count_uncleanable()
        for disk in self._disks.usable:
            await self._forget_what_is_gone(disk)
        return sorted(found, key=lambda due: due.plan.ratio, reverse=True)

    def _plan(self, hosted: Hosted, disk: Disk) -> CleanPlan | None:
        """None if the log cannot be looked at. Closes an active segment that has waited for long enough."""
        found, config, now_ms = hosted.log, hosted.config, self._time.now_ms()
        self._cap(hosted, disk)
        try:
            self._roll_if_quiet(hosted, now_ms)
            asks_age, asks_first = config.min_compaction_lag_ms > 0, config.max_compaction_lag_ms < LONG_MAX
            checkpoint = disk.cleaned_offsets.get((hosted.topic, hosted.key[1]))
            dirty_from = found.log_start_offset if checkpoint is None else checkpoint
            facts = [
                SealedSegment(
                    *(segment.base_offset, segment.next_offset, segment.size),
                    segment.latest_ms if asks_age and segment.next_offset > dirty_from else 0,
                    segment.first_timestamp if asks_first and segment.next_offset > dirty_from else -1,
                )
                for segment in found.segments[:-1]
            ]
        except (OSError, LogDamaged) as error:
            self._failed(hosted, error)
            return None
        return plan(
            facts,
            CompactionConfig(config.min_cleanable_dirty_ratio, config.min_compaction_lag_ms, config.max_compaction_lag_ms),
            checkpoint=checkpoint,
            log_start_offset=found.log_start_offset,
            log_end_offset=found.log_end_offset,
            stable_offset=min(hosted.high_watermark, hosted.last_stable_offset),
            active_base_offset=found.active.base_offset,
            now_ms=now_ms,
        )

    def _cap(self, hosted: Hosted, disk: Disk) -> None:
        """What was written after a truncation was not cleaned, wherever it lies."""
        name = hosted.topic, hosted.key[1]
        offset = disk.cleaned_offsets.get(name)
        if offset is not None:
            disk.cleaned_offsets[name] = min(offset, hosted.log.cut_to, hosted.log.log_end_offset)
        hosted.log.cut_to = LONG_MAX

    def _roll_if_quiet(self, hosted: Hosted, now_ms: int) -> None:
        """Appends roll a segment that is old enough; nothing comes to this one, and the active one is never cleaned."""
        active, limit_ms = hosted.log.active, min(hosted.config.max_compaction_lag_ms, hosted.config.segment_ms)
        if active.size and hosted.log.active_age_ms > min(limit_ms, ROLL_MS_MIN):
            first_ms = active.first_timestamp
            if (now_ms - first_ms if first_ms >= 0 else hosted.log.active_age_ms) > limit_ms:
                hosted.log.roll()
                hosted.sync.owe(hosted)
                hosted.sync.kick()

    async def _forget_what_is_gone(self, disk: Disk) -> None:
        logs = [hosted for hosted, home in self._residents.open_logs() if home is disk]
        here = {(topic, key[1]) for key, topic in disk.unopened()}
        turns = Turns()
        for hosted in logs:
            await turns.taken()
            here.add((hosted.topic, hosted.key[1]))
        for name in [name for name in disk.cleaned_offsets if name not in here]:
            del disk.cleaned_offsets[name]
        await self._checkpoints.write_cleaned_offsets(disk)

    # -- running ------------------------------------------------------------------------------------------------------------

    async def _clean(self, due: Due) -> None:
        hosted, disk, plan = due
        task = asyncio.current_task()
        assert task is not None
        assert self._children is not None
        run = self._running[task]
        now_ms = self._time.now_ms()
        log.info(
            "cleaning",
            extra=fields(partition=hosted, dirty_from=plan.first_dirty_offset, to=plan.end_offset, ratio=round(plan.ratio, 3)),
        )
        try:
            result = await self._compaction.run(hosted, disk, plan, self._allowance(self._children), now_ms, run.tell)
            await self._checkpoints.write_cleaned_offsets(disk)
        except LogChanged as change:
            self._meters.dropped += 1
            log.info("cleaning dropped", extra=fields(partition=hosted, reason=change))
            self._left_alone.put_off(hosted, str(change), self._int("log.cleaner.backoff.ms") / 1000)
        except (LogDamaged, LogWriteError, ChildDied, OSError) as error:
            self._meters.stalled += isinstance(error, ChildStalled)
            self._failed(hosted, error)
        except Exception as error:
            log.exception("cleaning failed", extra=fields(partition=hosted))
            self._failed(hosted, error)
        else:
            self._left_alone.settled(hosted)
            self._meters.finished(result)
            log.info(
                "cleaned",
                extra=fields(
                    partition=hosted,
                    to=result.end_offset,
                    read=result.bytes_read,
                    written=result.bytes_written,
                    records=result.records_read,
                    kept=result.records_kept,
                    seconds=round(result.seconds, 3),
                ),
            )

    def _allowance(self, children: Children) -> Allowance:
        threads, rate = max(self._threads, 1), self._rate()
        map_bytes = self._int("log.cleaner.dedupe.buffer.size") // threads
        return Allowance(children, map_bytes, rate / threads if rate < NO_LIMIT else 0.0)

    def _failed(self, hosted: Hosted, error: Exception) -> None:
        trouble = self._left_alone.failed(hosted, error)
        self._meters.failed += 1
        log.error(
            "a log is not cleaned until it is opened again"
            if trouble.until is None
            else "cleaning failed, it is tried again later",
            extra=fields(partition=hosted, reason=error, failures=trouble.failures),
        )

    def _count_uncleanable(self) -> None:
        counts = {disk.path: (0, 0) for disk in self._disks.usable}
        for hosted, disk in self._residents.open_logs():
            if self._left_alone.has_failed(hosted) and disk.path in counts:
                partitions, size = counts[disk.path]
                counts[disk.path] = partitions + 1, size + hosted.log.size
        self._meters.uncleanable = counts

    def _is_enabled(self) -> bool:
        image = self._follower.image
        return effective_broker_bool(image, "log.cleaner.enable", broker_id=self._node_id, static=self._static)

    def _rate(self) -> float:
        name = "log.cleaner.io.max.bytes.per.second"
        return effective_broker_float(self._follower.image, name, broker_id=self._node_id, static=self._static)

    def _int(self, name: str) -> int:
        return effective_broker_int(self._follower.image, name, broker_id=self._node_id, static=self._static)
