"""The filler of offsets that a log gave, lost at its end, and never gives again. An empty batch fills each gap, as the cleaner
leaves one.

Without a batch, a consumer within the gap would neither be at the end nor advance: it advances by the last offset that it reads,
and would read nothing until the next append.
"""

from libs.commitlog.cleaner.rebuilding import empty_batch
from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.files.sync import syncing
from libs.commitlog.model.config import LogConfig
from libs.commitlog.segments.index import RELATIVE_OFFSET_MAX
from libs.commitlog.segments.segment import BatchMeta, FileRegistry, Segment
from libs.wire.record_batches.batches import HEADER_SIZE, NO_TIMESTAMP, BatchHeader


class OffsetGapFiller:
    """A filler of lost offsets, for one log that is being opened."""

    def __init__(self, fs: FileSystem, directory: str, config: LogConfig, registry: FileRegistry) -> None:
        self._fs, self._directory, self._config, self._registry = fs, directory, config, registry

    def skip_to(self, offset: int, leader_epoch: int, segments: list[Segment]) -> None:
        """Makes a log that ends before `offset` end there. The next sync round covers its bytes. Raises OSError, LogDamaged."""
        last = segments[-1]
        if last.next_offset >= offset:
            return
        base_offset = max(last.next_offset, offset - 1 - RELATIVE_OFFSET_MAX)  # the most offsets of one batch
        last_offset = offset - 1
        fits = last_offset - last.base_offset <= RELATIVE_OFFSET_MAX and last.size <= RELATIVE_OFFSET_MAX - HEADER_SIZE
        if not (fits and last.make_room(1, HEADER_SIZE)):
            last.seal(base_offset)
            last = Segment.create(self._fs, self._directory, base_offset, self._config, self._registry)
            segments.append(last)
            with syncing():
                self._fs.fsync_directory(self._directory)
        header = BatchHeader(
            base_offset=base_offset,
            batch_length=0,
            leader_epoch=leader_epoch,
            magic=2,
            crc=0,
            attributes=0,
            last_offset_delta=last_offset - base_offset,
            base_timestamp=NO_TIMESTAMP,
            max_timestamp=NO_TIMESTAMP,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            record_count=0,
        )
        batch = empty_batch(header)
        last.write([batch], len(batch))
        last.extend([BatchMeta(base_offset, last_offset, len(batch), NO_TIMESTAMP, last_offset, leader_epoch)])
        last.next_offset = offset
