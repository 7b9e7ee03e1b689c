"""The metadata of a cluster in one process, on disk: a snapshot, and a journal of all changes since.

The snapshot is a file as `make backup` writes it (`libs/cluster/saved_metadata.py`). A line of the journal holds a revision, its
changes, and a CRC-32. It is synced before the change is applied, so that nothing acts on metadata that a crash could take back.
The last line may be torn: its change was never applied.
"""

import errno
import json
import logging
import os
import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from libs.cluster.codec import RecordError
from libs.cluster.memory.memory_keyspace import Keyspace
from libs.cluster.memory.recorded_store import Change
from libs.cluster.saved_metadata import backup_of, parse_file
from libs.cluster.store import Delete, Put
from libs.commitlog.files.durable_files import read_file, replace_file
from libs.commitlog.files.filesystem import OsFileSystem
from libs.telemetry.logs import fields
from services.storage.threads.offload import Offload

log = logging.getLogger("metadata")

SNAPSHOT, JOURNAL = "metadata", "metadata-journal"
JOURNAL_BYTES_MAX = 16 << 20
"""At this size the journal is replaced by a snapshot."""
REVISIONS_SKIPPED = 1 << 20
"""Revisions of changes under leases are not recorded, and none of them may be given out again."""


class MetadataDamaged(Exception):
    """A file of the metadata that cannot be read."""


class Entry(NamedTuple):
    revision: int
    changes: tuple[Change, ...]


def line_of(entry: Entry) -> bytes:
    plain = [[change.key, None if change.value is None else change.value.decode("latin-1")] for change in entry.changes]
    text = json.dumps([entry.revision, plain]).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def entries_in(journal: bytes) -> list[Entry]:
    """The entries of a journal, without a torn last one. Raises MetadataDamaged for any other damage."""
    entries: list[Entry] = []
    *lines, _torn = journal.split(b"\n")
    for number, line in enumerate(lines):
        checksum, _, text = line.partition(b" ")
        if checksum != b"%08x" % zlib.crc32(text):
            if number == len(lines) - 1:
                break
            raise MetadataDamaged(f"line {number + 1} does not match its checksum")
        revision, changes = json.loads(text)
        values = [(key, None if value is None else value.encode("latin-1")) for key, value in changes]
        entries.append(Entry(revision, tuple(Change(key, value) for key, value in values)))
    return entries


class PrivateFiles(OsFileSystem):
    """New files, which only this user may read: users' SCRAM credentials are among the metadata."""

    def open_append(self, path: str, *, create: bool) -> int:
        fd = super().open_append(path, create=create)
        os.fchmod(fd, 0o600)
        return fd


class MetadataFiles:
    """The two files in `folder`. Call `load` once, then `record` for each change. `files` is a thread of its own."""

    def __init__(self, folder: str, files: Offload, wall_ms: int) -> None:
        self._fs = PrivateFiles()
        self._snapshot, self._journal = f"{folder}/{SNAPSHOT}", f"{folder}/{JOURNAL}"
        self._files = files
        self._started_ms = wall_ms
        self._descriptor = -1
        self._bytes = 0
        self._keyspace = Keyspace()
        self._failed: OSError | None = None

    def load(self) -> Keyspace:
        """The keyspace that the last process left; what its processes held under leases is gone. Raises OSError,
        MetadataDamaged."""
        snapshot = read_file(self._fs, self._snapshot)
        keyspace = Keyspace()
        if snapshot is not None:
            try:
                saved = parse_file(snapshot)
            except RecordError as error:
                raise MetadataDamaged(f"{self._snapshot}: {error}") from error
            keyspace = Keyspace.holding(saved.items, saved.image.revision)
        try:
            entries = entries_in(read_file(self._fs, self._journal) or b"")
        except MetadataDamaged as error:
            raise MetadataDamaged(f"{self._journal}: {error}") from error
        for entry in entries:
            if entry.revision > keyspace.revision:  # the rest was in a snapshot before the journal was emptied
                keyspace.revision = entry.revision - 1
                keyspace.write([Delete(key) if value is None else Put(key, value) for key, value in entry.changes])
        if snapshot is not None or entries:
            keyspace.revision += REVISIONS_SKIPPED
        keyspace.compact(keyspace.revision)
        self._keyspace = keyspace
        return keyspace

    def begin(self) -> None:
        """Starts with a new snapshot and an empty journal. Blocks. Raises OSError."""
        listed = self._keyspace.range("")
        replace_file(self._fs, self._snapshot, backup_of(listed, self._started_ms))
        former = self._descriptor
        self._descriptor = os.open(self._journal, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        if former >= 0:
            os.close(former)
        self._bytes = 0
        self._sync(lambda: os.fsync(self._descriptor))
        self._sync(lambda: self._fs.fsync_directory(os.path.dirname(self._journal)))

    async def record(self, revision: int, changes: Sequence[Change]) -> None:
        """Raises OSError. After a sync that failed, nobody knows what is on the disk: every later call raises, too."""
        if self._failed is not None:
            raise self._failed
        line = line_of(Entry(revision, tuple(changes)))
        if self._bytes + len(line) > JOURNAL_BYTES_MAX:
            await self._files.submit(self.begin)
        await self._files.submit(lambda: self._append(line))

    def _append(self, line: bytes) -> None:
        try:
            if os.pwrite(self._descriptor, line, self._bytes) < len(line):
                raise OSError(errno.ENOSPC, "no room for a change of the metadata", self._journal)
        except OSError:
            os.ftruncate(self._descriptor, self._bytes)
            raise
        self._sync(lambda: os.fdatasync(self._descriptor))
        self._bytes += len(line)

    def _sync(self, sync: Callable[[], None]) -> None:
        try:
            sync()
        except OSError as error:
            log.error(
                "the metadata cannot be synced: no change is taken any more", extra=fields(path=self._journal, reason=error)
            )
            self._failed = error
            raise

    async def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self._files.close()
