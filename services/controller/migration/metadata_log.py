"""Kafka's metadata log on a disk: `__cluster_metadata-0`, its newest snapshot and the records after it. Nothing is changed."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from libs.commitlog.files.durable_files import read_file
from libs.commitlog.files.file_names import LOG, offsets_of, path_of
from libs.commitlog.files.filesystem import FileSystem
from libs.wire.record_batches.batches import BatchError, BatchView, iter_batches
from libs.wire.record_batches.records import iter_records
from services.controller.core.migration.kraft_metadata import KraftMetadata
from services.controller.core.migration.kraft_records import KraftRecord, UnreadableRecord, decode
from services.controller.recovery.store_contents import RecoveryRefused

DIRECTORY = "__cluster_metadata-0"
_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class LogEnd(NamedTuple):
    """How far a metadata log goes. Of several voters' logs the greatest is the one that a quorum would elect."""

    epoch: int
    offset: int


class MetadataLog:
    """One voter's metadata log."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs, self._path = fs, path
        self.end = LogEnd(-1, 0)

    def read(self) -> KraftMetadata:
        """The metadata that the log comes to; `end` is its end then. Raises RecoveryRefused, OSError."""
        metadata = KraftMetadata()
        try:
            metadata.replay(self._records())
        except (BatchError, UnreadableRecord) as error:
            raise RecoveryRefused(f"{self._path} cannot be read: {error}") from error
        return metadata

    def _records(self) -> Iterator[KraftRecord]:
        names = self._fs.list_directory(self._path)
        snapshots = sorted(match.groups() for name in names if (match := _SNAPSHOT.fullmatch(name)))
        if snapshots:
            offset, epoch = snapshots[-1]
            for batch in self._batches(f"{self._path}/{offset}-{epoch}.checkpoint"):
                yield from _records_of(batch, 0)
            self.end = LogEnd(int(epoch), int(offset))
        for base in sorted(offsets_of(names, LOG)):
            for batch in self._batches(path_of(self._path, base, LOG)):
                if batch.header.last_offset >= self.end.offset:
                    yield from _records_of(batch, self.end.offset)
                    self.end = LogEnd(batch.header.leader_epoch, batch.header.last_offset + 1)

    def _batches(self, file: str) -> Iterator[BatchView]:
        content = read_file(self._fs, file) or b""
        read = 0
        for batch in iter_batches(content):
            if not batch.crc_matches:
                raise RecoveryRefused(f"{file} is damaged: the checksum of the batch at byte {read} is wrong")
            read += batch.header.size
            yield batch
        if read != len(content):
            raise RecoveryRefused(f"{file} is damaged: no whole batch begins at byte {read}")


def _records_of(batch: BatchView, first: int) -> Iterator[KraftRecord]:
    """The records of a batch at `first` or later. Control batches have none."""
    if not batch.header.is_control:
        for each in iter_records(batch.view):
            record = decode(each.value) if each.value is not None and each.offset >= first else None
            if record is not None:
                yield record
