"""The storage service's own work on logs, in its order of effects: retention, DeleteRecords, compaction.

Each is a generator that stops where the service waits, so that anything may happen in between. What is synchronous there is
called here too. No `finally` and no `with` around work on the disk: a process that is killed runs none.
"""

import contextlib
import errno
from collections.abc import Callable, Generator
from random import Random
from types import SimpleNamespace
from typing import Any, Literal, TypeVar, cast

from libs.commitlog.cleaner.cleaning import clean_with, remove_cleaned
from libs.commitlog.cleaner.job import CleanedSegment, CleanJob, CleanResult, ProducerEnds
from libs.commitlog.cleaner.pace import JobTime
from libs.commitlog.cleaner.planning import CleanPlan, CompactionConfig, SealedSegment, plan
from libs.commitlog.files.sync import NO_ROOM
from libs.commitlog.model.errors import LogDamaged, LogWriteError, OffsetOutOfRange
from libs.commitlog.partition_log.log import LONG_MAX, Log
from libs.commitlog.partition_log.retention import RetentionPolicy
from libs.commitlog.segments.segment import Segment
from libs.commitlog.segments.segment_removal import remove_retired
from services.storage.cleanup.compaction import ROUNDS_MAX, Allowance, job_of
from services.storage.partition.partition import Partition
from tests.simulation.compacted import check_cleaned, read_cleaned
from tests.simulation.model import DiskModel, PartitionModel
from tests.simulation.node import ChildKilled, Node

DELETE_RETENTION_MS = 20_000
Wait = Literal["turn", "round"]
"""What a job waits for: that others have their turn, or sync rounds."""
Job = Generator[Wait, None, None]
Result = TypeVar("Result")


class Cleanup:
    def __init__(self, node: Node, model: DiskModel, random: Random, now_ms: int) -> None:
        self.node, self.model, self.random, self.now_ms = node, model, random, now_ms
        self.busy: set[bytes] = set()
        """Partitions that are being compacted."""

    def _log(self, partition: PartitionModel) -> Log | None:
        """None: it is not here to stay, or its disk has failed."""
        return None if self.node.retired or partition.stage != "present" else self.node.logs.get(partition.topic_id)

    # --- services/storage/cleanup/retention.py, delete_records.py and logs/log_start_offsets.py

    def retention(self, partitions: list[PartitionModel], policy: RetentionPolicy) -> Job:
        shorter = [partition for partition in partitions if self._announce_retention(partition, policy)]
        return self._shorten(shorter)

    def delete_records(self, partition: PartitionModel, offset: int) -> Job:
        log = self._log(partition)
        assert log is not None
        partition.start_said = max(partition.start_said, offset)
        log.delete_before(offset, self.node.high_watermark(partition.topic_id))
        return self._shorten([partition])

    def _announce_retention(self, partition: PartitionModel, policy: RetentionPolicy) -> bool:
        """`Retention._expire_segments`."""
        log = self._log(partition)
        if log is None:
            return False
        try:
            high_watermark = self.node.high_watermark(partition.topic_id)
            reasons = log.expired(policy, high_watermark, self.now_ms)
            if not reasons:
                return False
            if len(reasons) == len(log.segments):
                log.roll()
            start = log.segments[len(reasons)].base_offset
            partition.start_said = max(partition.start_said, start)
            log.delete_before(start, high_watermark)
        except (OSError, OffsetOutOfRange):
            return False
        return True

    def _shorten(self, shorter: list[PartitionModel]) -> Job:
        """`LogStartOffsets.advance` and `retire`."""
        if not shorter:
            return
        yield "turn"
        starts = [(partition, log.next_start_offset) for partition in shorter if (log := self._log(partition)) is not None]
        try:
            self._off_the_loop("a log start is written", lambda: self.node.write_log_starts(self.model))
        except OSError:
            return
        yield "turn"
        for partition, start in starts:
            log = self._log(partition)
            if log is not None:
                log.advance_start(start)
                partition.start_seen = log.log_start_offset
        yield "round"
        for partition in shorter:
            yield from self._retire(partition)

    def _retire(self, partition: PartitionModel) -> Job:
        log = self._log(partition)
        retired = log.retire_segments() if log is not None else None
        if retired is None:
            return
        self.node.disk.sometimes("segments retired")
        yield "turn"
        try:
            paths = self._off_the_loop("segments retire", lambda: retired.rename(self.node.disk))
        except OSError:
            return
        yield from self._remove_later(paths)

    def _remove_later(self, paths: list[str]) -> Job:
        yield "turn"
        try:
            self._off_the_loop("old files are removed", lambda: remove_retired(self.node.disk, paths))
            self._off_the_loop("old files are removed", self.node.directory.reserve_space)
        except OSError:
            return

    # --- services/storage/cleanup/log_cleaner.py and compaction.py

    def compact(self, partition: PartitionModel) -> Job:
        """`LogCleaner._clean` of what `_plan` finds, worthwhile or not; one at a time, as there."""
        self.busy.add(partition.topic_id)
        return self._clean(partition)

    def _clean(self, partition: PartitionModel) -> Job:
        log = self._log(partition)
        if log is not None:
            self._cap(partition, log)
            due = self._plan(partition, log)
            if due.cleanable_bytes:
                yield from self._clean_what_is(due, partition)
        self.busy.discard(partition.topic_id)

    def _clean_what_is(self, due: CleanPlan, partition: PartitionModel) -> Job:
        before = self._log(partition)
        lineage = before.lineage if before is not None else None
        try:
            result = yield from self._compact(partition, due)
        except (OSError, LogWriteError):
            result = None
        except LogDamaged:  # another of its name is there now, or it was cut while it was read
            now = self._log(partition)
            if now is not None and now.lineage is lineage:
                raise
            result = None
        log = self._log(partition)
        if log is not None:
            try:
                self._off_the_loop("a log is cleaned", lambda: remove_cleaned(self.node.disk, log.directory))
                if result is not None:
                    self.node.cleaned_offsets[partition.key] = min(result.end_offset, log.truncated_to)
                    partition.claimed = max(partition.claimed, self.node.cleaned_offsets[partition.key])
                    self._off_the_loop("a cleaned offset is written", lambda: self.node.write_cleaned_offsets(self.model))
            except OSError:
                return

    def _cap(self, partition: PartitionModel, log: Log) -> None:
        offset = self.node.cleaned_offsets.get(partition.key)
        if offset is not None:
            self.node.cleaned_offsets[partition.key] = min(offset, log.truncated_to, log.log_end_offset)
        log.truncated_to = LONG_MAX

    def _plan(self, partition: PartitionModel, log: Log) -> CleanPlan:
        high_watermark = self.node.high_watermark(partition.topic_id)
        facts = [SealedSegment(one.base_offset, one.next_offset, one.size, 0, -1) for one in log.segments[:-1]]
        return plan(
            facts,
            CompactionConfig(),
            checkpoint=self.node.cleaned_offsets.get(partition.key),
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            stable_offset=min(high_watermark, log.last_stable_offset(high_watermark)),
            active_base_offset=log.active.base_offset,
            now_ms=self.now_ms,
        )

    def _compact(self, partition: PartitionModel, due: CleanPlan) -> Generator[Wait, None, CleanResult | None]:
        """`Compaction.run`. None: the log has changed, or is not ready."""
        for _ in range(ROUNDS_MAX):
            log = self._log(partition)
            if log is None or log.want_resume_point(due.end_offset):
                break
            yield "round"
        log = self._log(partition)
        if log is None or not log.want_resume_point(due.end_offset):
            return None
        bases = {source.base_offset for source in due.sources}
        sources = {segment.base_offset: segment for segment in log.segments if segment.base_offset in bases}
        if len(sources) != len(bases):
            return None
        job = self._job(log, due)
        yield "turn"
        self.node.disk.sometimes("compaction began")
        disk, still = self.node.disk, JobTime(lambda: 0.0, lambda _: None)
        kill = disk.kill_after(self.random.randrange(40), ChildKilled) if self.random.random() < 0.1 else None
        try:
            result = self._off_the_loop("a log is cleaned", lambda: clean_with(disk, job, lambda _: None, still))
        except ChildKilled:
            disk.sometimes("cleaner process killed")
            return None
        finally:
            if kill is not None:
                kill()
        outputs = [read_cleaned(disk, job.directory, cleaned.base_offset) for cleaned in result.segments]
        log = self._log(partition)
        if log is not None and all(any(segment is one for one in log.segments) for segment in sources.values()):
            check_cleaned(disk, partition, job, result, outputs)
        for cleaned, output in zip(result.segments, outputs, strict=True):
            yield "turn"
            paths = yield from self._swap(partition, cleaned, [sources[base] for base in cleaned.sources], output)
            if paths is None:
                return None
            yield from self._remove_later(paths)
        return result

    def _swap(
        self, partition: PartitionModel, cleaned: CleanedSegment, sources: list[Segment], output: list[bytes]
    ) -> Generator[Wait, None, list[str] | None]:
        """`Compaction._swap`."""
        log, disk = self._log(partition), self.node.disk
        swap = log.plan_swap(sources, cleaned.size) if log is not None else None
        if log is None or swap is None:
            return None
        before = partition.content
        partition.cleaned = max(partition.cleaned, swap.end_offset)
        partition.others.append(before.replaced(swap.base_offset, swap.end_offset, output))
        try:
            staged = self._off_the_loop("a swap is staged", lambda: swap.stage(disk))
            yield "turn"
            self.node.swapping = True
            replaced = staged and self._log(partition) is log and log.replace_segments(swap, sources)
            self.node.swapping = False
            if not replaced:
                self._off_the_loop("a swap is discarded", lambda: swap.discard(disk))
                return None
            # Appends that came meanwhile are in both; what others there are was given up before.
            partition.others.append(partition.content)
            partition.content = partition.others.pop(-2)
            paths = self._off_the_loop("a swap is settled", lambda: swap.settle(disk))
        except OSError as error:
            self.node.swapping = False
            disk.sometimes("a swap was refused")
            if error.errno not in (*NO_ROOM, errno.ENOENT):
                self.node.retired = True
            with contextlib.suppress(OSError):
                self._off_the_loop("a swap is discarded", lambda: swap.discard(disk))
            raise
        except LogWriteError:
            self.node.retired = True
            raise
        partition.others.clear()
        disk.sometimes("segments swapped")
        return paths

    def _job(self, log: Log, due: CleanPlan) -> CleanJob:
        config = self.node.config
        settings = SimpleNamespace(
            delete_retention_ms=DELETE_RETENTION_MS,
            segment_bytes=config.segment_bytes,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            max_message_bytes=1 << 20,
        )
        partition = cast(Partition, SimpleNamespace(log=log, config=settings))
        aborted = log.aborted.between(log.segments, due.sources[0].base_offset, due.end_offset)
        producers = ProducerEnds.of(log.producers.view())
        return job_of(partition, due, Allowance(cast(Any, None), 1 << 20, 0), self.now_ms, aborted, producers)

    # ---

    def _off_the_loop(self, name: str, work: Callable[[], Result]) -> Result:
        """Work in a thread or a child process: other work goes on meanwhile."""
        self.node.working = name
        try:
            return work()
        finally:
            self.node.working = ""
