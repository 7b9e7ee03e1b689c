"""Offsets that a log gave, lost at its end and does not give again: an empty batch stands for them, as the cleaner leaves one.

With nothing there, a consumer within the gap is neither at the end nor told to go on: it goes by the last offset of what it
reads, and there is nothing to read until somebody appends.
"""

from libs.commitlog.cleaner.rebuilding import empty_batch
from libs.commitlog.config import LogConfig
from libs.commitlog.filesystem import FileSystem
from libs.commitlog.index import RELATIVE_OFFSET_MAX
from libs.commitlog.segment import BatchMeta, FileRegistry, Segment
from libs.commitlog.sync import syncing
from libs.wire.batches import HEADER_SIZE, NO_TIMESTAMP, BatchHeader


class Skipper:
    """Of one log that is being opened."""

    def __init__(self, fs: FileSystem, directory: str, config: LogConfig, registry: FileRegistry) -> None:
        self._fs, self._directory, self._config, self._registry = fs, directory, config, registry

    def skip_to(self, offset: int, leader_epoch: int, segments: list[Segment]) -> None:
        """Where the log ends earlier, it then ends there. Its bytes are the next sync round's. Raises OSError, LogDamaged."""
        last = segments[-1]
        if last.next_offset >= offset:
            return
        base_offset = max(last.next_offset, offset - 1 - RELATIVE_OFFSET_MAX)  # a batch reaches no further
        last_offset = offset - 1
        fits = last_offset - last.base_offset <= RELATIVE_OFFSET_MAX and last.size <= RELATIVE_OFFSET_MAX - HEADER_SIZE
        if not (fits and last.make_room(1, HEADER_SIZE)):
            last.seal(base_offset)
            last = Segment.create(self._fs, self._directory, base_offset, self._config, self._registry)
            segments.append(last)
            with syncing():
                self._fs.fsync_directory(self._directory)
        place = base_offset, 0, leader_epoch, 2, 0, 0, last_offset - base_offset
        batch = empty_batch(BatchHeader(*place, NO_TIMESTAMP, NO_TIMESTAMP, -1, -1, -1, 0))
        last.write([batch], len(batch))
        last.extend([BatchMeta(base_offset, last_offset, len(batch), NO_TIMESTAMP, last_offset, leader_epoch)])
        last.next_offset = offset
