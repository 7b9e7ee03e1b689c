"""A log directory, opened as a storage node does, with other content in one of its files.

Byte 0: the file. The rest is its content.
"""

import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from libs.commitlog.checkpoints.offset_checkpoint import Entry
from libs.commitlog.inspection.directory import verify
from libs.commitlog.inspection.findings import Findings
from libs.commitlog.model.errors import DirectoryDamaged, DirectoryOwnerMismatch, LogDamaged, OffsetOutOfRange
from libs.commitlog.partition_log.directory import LOG_START_OFFSETS, RECOVERY_POINTS, LogDirectory
from libs.wire.record_batches.batches import BatchError, iter_batches
from tests.commitlog.harness import QuickFileSystem, append_some, content, open_log, sync

_ID: Final = bytes(range(16))
_PIECES_MAX: Final = 1_000
_REFUSED: Final = (LogDamaged, DirectoryDamaged, DirectoryOwnerMismatch, BatchError, OffsetOutOfRange)


def check(data: bytes) -> None:
    if not data:
        return
    files = _files()
    path = _folder() / "opened"
    shutil.rmtree(path, ignore_errors=True)
    for name, before in files.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(before)
    (path / sorted(files)[data[0] % len(files)]).write_bytes(data[1:])
    verify(QuickFileSystem(), str(path), Findings(), records=True)
    try:
        _read_all(path)
    except _REFUSED:
        pass


def _read_all(path: Path) -> None:
    """Reads the log from its start to its end. Each read gets further."""
    directory = LogDirectory.open(str(path), QuickFileSystem(), new_id=_ID, node_id=1)
    try:
        for partition in directory.list_partitions():
            log = open_log(
                Path(partition.path),
                clean=directory.was_clean,
                recovery_point=directory.read_checkpoint(RECOVERY_POINTS).get(("t", 0), Entry(0)).offset,
                log_start_offset=directory.read_checkpoint(LOG_START_OFFSETS).get(("t", 0), Entry(0)).offset,
            )
            offset = log.log_start_offset
            for _ in range(_PIECES_MAX):
                piece = log.read(offset, 1 << 20, log.log_end_offset, at_least_one_batch=True)
                if piece is None:
                    break
                last = [batch.header.last_offset for batch in iter_batches(content(piece))][-1]
                assert last >= offset, f"a consumer at {offset} would read for ever"
                offset = last + 1
            log.close(clean=True)
    finally:
        directory.close()


@cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="penstock-fuzz-")


def _folder() -> Path:
    return Path(_temporary().name)


@cache
def _files() -> dict[str, bytes]:
    """The content of each file of a sound directory, by its path."""
    path, fs = _folder() / "sound", QuickFileSystem()
    directory = LogDirectory.open(str(path), fs, new_id=_ID, node_id=1)
    log = open_log(Path(directory.create_partition("t", 0, _ID)), fs)
    for epoch in range(3):
        append_some(log, 4, producer_id=epoch, producer_epoch=0, base_sequence=0, epoch=epoch)
        sync(log, resume_point=epoch == 1)
    directory.write_checkpoint(RECOVERY_POINTS, {("t", 0): Entry(log.recovery_point)})
    directory.write_checkpoint(LOG_START_OFFSETS, {("t", 0): Entry(0)})
    directory.close()
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def seeds() -> Iterator[bytes]:
    files = _files()
    for number, name in enumerate(sorted(files)):
        yield bytes((number,)) + files[name]
