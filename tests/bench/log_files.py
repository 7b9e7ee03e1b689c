"""A partition's files, written as its leader would, without any client: ten gigabytes in the time the disk takes for them."""

import os
import shutil
import struct
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from libs.clock import SystemClock
from libs.commitlog.files.filesystem import OsFileSystem
from libs.commitlog.model.config import LogConfig
from libs.commitlog.partition_log.log import Log
from libs.commitlog.segments.segment import BatchMeta, FileRegistry

APPENDED_AT_ONCE = 64


def open_log(directory: Path, config: LogConfig) -> Log:
    return Log.open(str(directory), "t", 0, config, OsFileSystem(), registry=FileRegistry(), clock=SystemClock())


def write_log(directory: Path, batches: Iterable[tuple[bytes | bytearray, int]], config: LogConfig) -> int:
    """Each batch with its number of records, placed as a leader would. Returns the end offset."""
    log = open_log(directory, config)
    rest = iter(batches)
    while together := [(bytearray(batch), records) for batch, records in islice(rest, APPENDED_AT_ONCE)]:
        metas, offset = [], log.log_end_offset
        for placed, records in together:
            struct.pack_into(">q", placed, 0, offset)
            struct.pack_into(">i", placed, 12, 0)
            (latest,) = struct.unpack_from(">q", placed, 35)
            metas.append(BatchMeta(offset, offset + records - 1, len(placed), latest, offset + records - 1, 0))
            offset += records
        log.append([memoryview(placed) for placed, _ in together], metas)
    log.close(clean=True)
    return log.log_end_offset


def share_log(source: Path, target: Path, *, with_sidecars: bool) -> None:
    """The partition at `target`, whose server is stopped, gets the batches of `source`: the same `.log` files under a second name
    where that can be, so that neither the disk nor the page cache holds them twice. Whoever opens them only reads."""
    for file in target.iterdir():
        if file.name != "partition.metadata":
            file.unlink()
    for file in source.iterdir():
        if file.suffix == ".log":
            try:
                os.link(file, target / file.name)
            except OSError:
                shutil.copy(file, target / file.name)
        elif with_sidecars or file.suffix in (".index", ".timeindex"):
            shutil.copy(file, target / file.name)
