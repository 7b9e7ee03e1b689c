"""Logs of several segments, whose indexes have an entry for each page."""

from pathlib import Path

from libs.commitlog.model.config import LogConfig
from libs.commitlog.partition_log.log import Log
from tests.commitlog.harness import (
    QuickFileSystem,
    batch_at,
    open_log,
    sync,
)
from tests.commitlog.harness import append as append_batches

LARGE = 1 << 20
PAGE = 4096
PAGES = LogConfig(segment_bytes=20 * PAGE, segment_index_bytes=16 * PAGE, index_interval_bytes=1)


def filled(path: Path, fs: QuickFileSystem | None = None, segments: int = 4) -> Log:
    log = open_log(path, fs, config=PAGES)
    while len(log.segments) < segments:
        append_batches(log, *(batch_at(log.log_end_offset + i, size=60) for i in range(50)))
        sync(log)
    return log
