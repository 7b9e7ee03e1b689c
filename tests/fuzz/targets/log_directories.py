"""A log directory, opened as a storage node does, with other content in one of its files.

Byte 0: the file, and whether its checksums are put right, those of its batches if it is a segment. The rest is its content.
"""

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

from crc32c import crc32c

from libs.commitlog.checkpoints.offset_checkpoint import Entry
from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.inspection.directory import verify
from libs.commitlog.inspection.findings import Findings
from libs.commitlog.model.errors import DirectoryDamaged, DirectoryOwnerMismatch, LogDamaged, OffsetOutOfRange
from libs.commitlog.partition_log.directory import LOG_START_OFFSETS, RECOVERY_POINTS, LogDirectory
from libs.commitlog.segments.reading import Slice
from libs.wire.record_batches.batches import CRC_START, HEADER, HEADER_SIZE, BatchError, BatchHeader, iter_batches
from tests.commitlog.harness import SMALL, QuickFileSystem, append_some, open_log, sync
from tests.fuzz.targets.log_files import OFFSETS, RESUME, SNAPSHOT, mended
from tests.simulation.disk import SimulatedDisk
from tests.simulation.inodes import SimDirectory, SimFile
from tests.simulation.sometimes import Sometimes

_ID: Final = bytes(range(16))
_PIECES_MAX: Final = 1_000
_CONFIG: Final = replace(SMALL, segment_bytes=200, index_interval_bytes=50)
_REFUSED: Final = (LogDamaged, DirectoryDamaged, DirectoryOwnerMismatch, BatchError, OffsetOutOfRange)
_CHECKED: Final = {"offset-checkpoint": OFFSETS, ".snapshot": SNAPSHOT, ".resume": RESUME}
_ON_DISK: Final = 64
"""One input of so many goes through the operating system's files, which take longer than all the rest. Its bytes decide."""


def check(data: bytes) -> None:
    if not data:
        return
    contents = _files()
    is_mended, number = divmod(data[0] % (2 * len(contents)), len(contents))
    changed = sorted(contents)[number]
    content = _mended(changed, data[1:]) if is_mended else data[1:]
    fs, path = (_on_disk if crc32c(data) % _ON_DISK == 0 else _in_memory)(contents | {changed: content})
    verify(fs, path, Findings(), records=True)
    try:
        _read_all(fs, path)
    except _REFUSED:
        pass


def _mended(name: str, content: bytes) -> bytes:
    if name.endswith(".log"):
        return _mended_batches(content)
    kind = next((kind for suffix, kind in _CHECKED.items() if name.endswith(suffix)), None)
    return mended(kind, content) if kind is not None else content


def _mended_batches(content: bytes) -> bytes:
    batches, at = bytearray(content), 0
    while at + HEADER_SIZE <= len(batches):
        header = BatchHeader.at(batches, at)
        end = at + header.size
        if not at + HEADER_SIZE <= end <= len(batches):
            break
        HEADER.pack_into(batches, at, *header._replace(crc=crc32c(memoryview(batches)[at + CRC_START : end])))
        at = end
    return bytes(batches)


def _on_disk(contents: dict[str, bytes]) -> tuple[FileSystem, str]:
    path = _folder() / "opened"
    shutil.rmtree(path, ignore_errors=True)
    for name, content in contents.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return QuickFileSystem(), str(path)


def _in_memory(contents: dict[str, bytes]) -> tuple[FileSystem, str]:
    disk = SimulatedDisk(Sometimes())
    for name, content in contents.items():
        directory = disk.root
        *folders, file = f"opened/{name}".split("/")
        for folder in folders:
            found = directory.entries.setdefault(folder, SimDirectory())
            assert isinstance(found, SimDirectory)
            directory = found
        directory.entries[file] = SimFile(content, len(content))
    return disk, "/opened"


def _read_all(fs: FileSystem, path: str) -> None:
    """Reads the log from its start to its end. Each read gets further."""
    directory = LogDirectory.open(path, fs, new_id=_ID, node_id=1)
    try:
        for partition in directory.list_partitions():
            log = open_log(
                Path(partition.path),
                fs,
                _CONFIG,
                clean=directory.was_clean,
                recovery_point=directory.read_checkpoint(RECOVERY_POINTS).get(("t", 0), Entry(0)).offset,
                log_start_offset=directory.read_checkpoint(LOG_START_OFFSETS).get(("t", 0), Entry(0)).offset,
            )
            offset = log.log_start_offset
            for _ in range(_PIECES_MAX):
                piece = log.read(offset, 1 << 20, log.log_end_offset, at_least_one_batch=True)
                if piece is None:
                    break
                last = [batch.header.last_offset for batch in iter_batches(_content(fs, piece))][-1]
                assert last >= offset, f"a consumer at {offset} would read for ever"
                offset = last + 1
            log.close(clean=True)
    finally:
        directory.close()


def _content(fs: FileSystem, piece: Slice) -> bytes:
    fd = piece.file.open_readonly()
    try:
        return fs.pread(fd, piece.length, piece.position)
    finally:
        fs.close(fd)


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
    log = open_log(Path(directory.create_partition("t", 0, _ID)), fs, _CONFIG)
    for epoch, batches in enumerate((2, 1, 1)):
        append_some(log, batches, producer_id=epoch, producer_epoch=0, base_sequence=0, epoch=epoch)
        sync(log, resume_point=epoch >= 1)
    directory.write_checkpoint(RECOVERY_POINTS, {("t", 0): Entry(log.recovery_point)})
    directory.write_checkpoint(LOG_START_OFFSETS, {("t", 0): Entry(0)})
    directory.close()
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def seeds() -> Iterator[bytes]:
    files = _files()
    for number, name in enumerate(sorted(files)):
        yield bytes((number,)) + files[name]
        yield bytes((number + len(files),)) + files[name]
