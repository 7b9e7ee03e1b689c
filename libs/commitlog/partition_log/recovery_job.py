"""Recovery as a job of its own: what a crash left is read, cut and synced, so that the next opening finds nothing to read.

Whoever may not read much (`read_bytes_max`) lets a child process do this first. It may die at any step: what it leaves is what a
crash during an opening leaves.
"""

import resource
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from libs.clock import Clock, SystemClock
from libs.commitlog.config import LogConfig
from libs.commitlog.filesystem import FileSystem
from libs.commitlog.log import Log
from libs.commitlog.open_files import OpenFiles, open_files_max
from libs.commitlog.segment import FileRegistry
from libs.commitlog.sync import sync_then_write, syncing

REPORT_BYTES = 8 << 20
REPORT_S = 2.0


@dataclass(frozen=True, slots=True)
class HowToOpen:
    """One log, and what its directory's checkpoints say of it."""

    path: str
    topic: str
    partition: int
    config: LogConfig
    fs: FileSystem
    clean: bool = False
    recovery_point: int = 0
    log_start_offset: int = 0
    committed_offset: int = 0
    is_start_known: bool = True

    def open(
        self,
        registry: FileRegistry,
        clock: Clock,
        *,
        read_bytes_max: int | None = None,
        on_read: Callable[[int], None] | None = None,
    ) -> Log:
        """Blocks. Raises LogDamaged, MuchToRead, OSError."""
        return Log.open(
            *(self.path, self.topic, self.partition, self.config, self.fs),
            registry=registry,
            clock=clock,
            clean=self.clean,
            recovery_point=self.recovery_point,
            log_start_offset=self.log_start_offset,
            committed_offset=self.committed_offset,
            is_start_known=self.is_start_known,
            read_bytes_max=read_bytes_max,
            on_read=on_read,
        )


class Recovered(NamedTuple):
    read_bytes: int
    cut_bytes: int
    end_offset: int


def recover(how: HowToOpen, report: Callable[[object], None]) -> Recovered:
    """For `libs.runtime.children`. Reports how many bytes were read since the last report.

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
    log = how.open(registry, clock, on_read=read)
    report(unreported)
    targets = log.sync_targets(resume_point=True)
    if targets is not None:
        with syncing():
            sync_then_write([targets], how.fs, how.path)
    log.close(clean=False)
    return Recovered(log.scanned_bytes, log.cut_bytes, log.log_end_offset)
