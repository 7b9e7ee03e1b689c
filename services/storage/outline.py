"""OUTLINE: what a caller needs to find committed records in the files by itself. Tells what is in memory, and opens no index."""

from libs.commitlog.errors import LogDamaged
from libs.commitlog.index import IndexEntries
from libs.commitlog.segment import Segment
from libs.commitlog.segment_file import FileRegistry
from libs.rpc.call import Call
from libs.rpc.contracts.outline import UNKNOWN_TIMESTAMP, Outline, OutlineReply, SegmentOutline
from libs.rpc.errors import ContractError
from libs.rpc.schema import unpack
from libs.wire.errors import ErrorCode
from services.storage.core.admission import Refusal
from services.storage.partitions import Partitions

SEGMENTS_MAX = 256
"""It is told ten times a second while somebody reads here and there."""


class Outlining:
    def __init__(self, partitions: Partitions, registry: FileRegistry) -> None:
        self._partitions = partitions
        self._registry = registry

    def accept(self, call: Call) -> None:
        try:
            request = unpack(Outline, call.body)
        except ContractError as error:
            call.fail(int(ErrorCode.INVALID_REQUEST), str(error))
            return
        hosted = self._partitions.serving((request.topic_id, request.partition))
        if isinstance(hosted, Refusal):
            call.reply(OutlineReply(hosted.error))
            return
        if hosted.is_behind:
            call.reply(OutlineReply(int(ErrorCode.OFFSET_NOT_AVAILABLE)))
            return
        high_watermark = hosted.high_watermark
        try:
            readable = hosted.log.readable(high_watermark, SEGMENTS_MAX)
        except (LogDamaged, OSError) as failure:
            hosted.failed_reads.tell(hosted, failure, offset=high_watermark)
            call.reply(OutlineReply(int(ErrorCode.KAFKA_STORAGE_ERROR)))
            return
        call.reply(
            OutlineReply(
                0,
                hosted.leader_epoch,
                high_watermark,
                hosted.last_stable_offset,
                hosted.log_start_offset,
                tuple([self._outlined(segment, stop) for segment, stop in readable]),
            )
        )

    def _outlined(self, segment: Segment, readable_to: int) -> SegmentOutline:
        offsets, times = segment.known_indexes
        max_timestamp = segment.known_max_timestamp
        return SegmentOutline(
            segment.base_offset,
            segment.file.file_id,
            readable_to,
            max_timestamp if times is not None and max_timestamp is not None else UNKNOWN_TIMESTAMP,
            *self._named(offsets),
            *self._named(times if max_timestamp is not None else None),
        )

    def _named(self, index: IndexEntries | None) -> tuple[int, int]:
        return (self._registry.name_index(index), index.count) if index is not None else (0, 0)
