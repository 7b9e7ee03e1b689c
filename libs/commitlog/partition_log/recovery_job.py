"""Recovery as a job for a child process: it reads, cuts and syncs a log after a crash, so that the next opening reads nothing.

A process with a bound on reading (`read_bytes_max`) lets a child process do this first. The child may die at any step: the result
is that of a crash during an opening.
"""

import resource
from collections.abc import Callable
from typing import NamedTuple

from libs.clock import Clock, SystemClock
from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.files.open_files import OpenFiles, open_files_max
from libs.commitlog.files.sync import sync_then_write, syncing
from libs.commitlog.model.config import LogConfig
from libs.commitlog.model.log_checkpoints import NO_CHECKPOINTS, LogCheckpoints
from libs.commitlog.partition_log.log import Log
from libs.commitlog.segments.segment import FileRegistry
from libs.lean_dataclass import dataclass

REPORT_BYTES = 8 << 20
REPORT_S = 2.0


@dataclass(frozen=True, slots=True)
class OpenLogRequest:
    """A log to be opened, with what its directory's checkpoints say of it."""

    path: str
    topic: str
    partition: int
    config: LogConfig
    fs: FileSystem
    checkpoints: LogCheckpoints = NO_CHECKPOINTS

    def open(
        self,
        registry: FileRegistry,
        clock: Clock,
        *,
        read_bytes_max: int | None = None,
        on_read: Callable[[int], None] | None = None,
    ) -> Log:
        """Opens the log. It blocks. Raises LogDamaged, RecoveryTooLarge, OSError."""
        return Log.open(
            self.path,
            self.topic,
            self.partition,
            self.config,
            self.fs,
            registry=registry,
            clock=clock,
            checkpoints=self.checkpoints,
            read_bytes_max=read_bytes_max,
            on_read=on_read,
        )


class Recovered(NamedTuple):
    read_bytes: int
    truncated_bytes: int
    end_offset: int


def recover(request: OpenLogRequest, report: Callable[[object], None]) -> Recovered:
    """Recovers a log, as a job of `libs.runtime.children`. It reports the bytes that were read since the last report.

    Raises LogDamaged, OSError, SyncFailed. On a full disk it leaves no resume point: the next opening then reads all of it again.
    """
    unreported, clock = 0, SystemClock()
    reported_at = clock.monotonic()

    def read(count: int) -> None:
        nonlocal unreported, reported_at
        unreported += count
        if unreported >= REPORT_BYTES or clock.monotonic() - reported_at >= REPORT_S:
            report(unreported)
            unreported, reported_at = 0, clock.monotonic()

    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    registry = FileRegistry(OpenFiles(open_files_max(descriptors)))
    log = request.open(registry, clock, on_read=read)
    report(unreported)
    targets = log.sync_targets(resume_point=True)
    if targets is not None:
        with syncing():
            sync_then_write([targets], request.fs, request.path)
    log.close(clean=False)
    return Recovered(log.scanned_bytes, log.truncated_bytes, log.log_end_offset)
