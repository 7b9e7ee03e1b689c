"""A cleaned segment's files: written from front to back, with the indexes that an appended segment would have."""

from libs.commitlog.cleaner.job import CleanedSegment, CleanJob
from libs.commitlog.cleaner.pace import Progress
from libs.commitlog.cleaner.source import Batch
from libs.commitlog.files.file_names import CLEANED, INDEX, LOG, TIME_INDEX, TRANSACTION_INDEX, path_of
from libs.commitlog.files.filesystem import Buffer, FileSystem
from libs.commitlog.files.sync import syncing
from libs.commitlog.producers.transaction_index import ENTRY as TRANSACTION_ENTRY
from libs.commitlog.producers.transaction_index import AbortedTransaction
from libs.commitlog.segments.index import OFFSET_ENTRY, TIME_ENTRY
from libs.wire.record_batches.batches import NO_TIMESTAMP

POSITION_MAX = 0x7FFF_FFFF
_FLUSH_BYTES = 1 << 20
_BUFFERS_MAX = 512  # in one write; the kernel accepts 1024
_VIEW_MIN = 64 * 1024


class Output:
    def __init__(self, fs: FileSystem, job: CleanJob, base_offset: int, progress: Progress) -> None:
        """Creates the `.log.cleaned`. Close it, whatever happens."""
        self._fs, self._progress = fs, progress
        self._directory = job.directory
        self.base_offset = base_offset
        self.size = 0
        """The bytes that were added, written or not."""
        self._written = 0
        self._fd = fs.open_append(self._path(LOG), create=True)
        self._buffers: list[Buffer] = []
        self._run = memoryview(b"")  # a piece of a source whose bytes [start, stop) stay as they are
        self._run_start = self._run_stop = 0
        self._interval = job.index_interval_bytes
        self._since_index = 0
        self._offsets = bytearray()
        self._times = bytearray()
        self._max_timestamp = self._indexed_timestamp = NO_TIMESTAMP
        self._offset_of_max_timestamp = base_offset
        self._aborted: list[bytes] = []

    def keep(self, batch: Batch) -> None:
        """Adds a batch unchanged."""
        header, _, view, start, stop = batch
        if view is not self._run or start != self._run_stop:
            self._end_run()
            self._run, self._run_start = view, start
        self._run_stop = stop
        self._note(header.base_offset + header.last_offset_delta, header.max_timestamp, stop - start)

    def add(self, batch: Buffer, last_offset: int, max_timestamp: int) -> None:
        self._end_run()
        self._buffers.append(batch)
        self._note(last_offset, max_timestamp, len(batch))

    def add_aborted(self, entry: AbortedTransaction) -> None:
        self._aborted.append(TRANSACTION_ENTRY.pack(0, *entry))

    def finish(self, sources: tuple[int, ...], modified_ms: int) -> CleanedSegment:
        """Ends the output. Its files are on disk afterwards, without their final names."""
        self._end_run()
        self._flush()
        self._note_max_timestamp()
        for suffix, content in ((INDEX, self._offsets), (TIME_INDEX, self._times)):
            self._write_file(suffix, bytes(content), modified_ms)
        if self._aborted:
            self._write_file(TRANSACTION_INDEX, b"".join(self._aborted), modified_ms)
        self._fs.set_modified_ms(self._path(LOG), modified_ms)
        with syncing():
            self._fs.fdatasync(self._fd)
        return CleanedSegment(self.base_offset, sources, self.size, modified_ms)

    def close(self) -> None:
        self._fs.close(self._fd)

    def _note(self, last_offset: int, max_timestamp: int, size: int) -> None:
        """Adds index entries as `Segment.note_batches` does: with the first batch after the interval, never with the first of
        all."""
        if max_timestamp > self._max_timestamp:
            self._max_timestamp, self._offset_of_max_timestamp = max_timestamp, last_offset
        if self._since_index > self._interval:
            self._offsets += OFFSET_ENTRY.pack(last_offset - self.base_offset, self.size)
            self._note_max_timestamp()
            self._since_index = 0
        self.size += size
        self._since_index += size
        if self.size - self._written >= _FLUSH_BYTES or len(self._buffers) >= _BUFFERS_MAX:
            self._end_run()
            self._flush()

    def _note_max_timestamp(self) -> None:
        if self._max_timestamp > self._indexed_timestamp:
            self._indexed_timestamp = self._max_timestamp
            self._times += TIME_ENTRY.pack(self._max_timestamp, self._offset_of_max_timestamp - self.base_offset)

    def _end_run(self) -> None:
        if self._run_stop > self._run_start:
            run = self._run[self._run_start : self._run_stop]
            # A view keeps its whole piece of the source in memory until the view is written.
            self._buffers.append(run if len(run) >= _VIEW_MIN else bytes(run))
        self._run_start = self._run_stop

    def _flush(self) -> None:
        if self._buffers:
            write_fully(self._fs, self._fd, self._buffers, self._written)
            self._progress.wrote(self.size - self._written)
            self._written = self.size
            self._buffers = []

    def _path(self, suffix: str) -> str:
        return path_of(self._directory, self.base_offset, suffix + CLEANED)

    def _write_file(self, suffix: str, content: bytes, modified_ms: int) -> None:
        path = self._path(suffix)
        fd = self._fs.open_append(path, create=True)
        try:
            write_fully(self._fs, fd, [content], 0)
            self._fs.set_modified_ms(path, modified_ms)
            with syncing():
                self._fs.fdatasync(fd)
        finally:
            self._fs.close(fd)


def write_fully(fs: FileSystem, fd: int, buffers: list[Buffer], position: int) -> None:
    """Writes all buffers, in as many writes as the kernel needs. Raises OSError."""
    rest = [memoryview(buffer) for buffer in buffers if len(buffer)]
    while rest:
        written = fs.pwritev(fd, rest, position)
        if written <= 0:
            raise OSError(5, "the disk took none of a write")
        position += written
        while rest and written >= len(rest[0]):
            written -= len(rest[0])
            del rest[0]
        if rest:
            rest[0] = rest[0][written:]
