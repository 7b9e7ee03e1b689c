"""LOG_LAYOUT: what a gateway on this host needs to find committed records in the files by itself. It opens no index."""

from collections.abc import Coroutine
from functools import partial
from typing import Any

from libs.commitlog.files.page_cache import FIRST_ATTEMPT, ColdRead, NotInPageCache
from libs.commitlog.model.errors import LogDamaged
from libs.commitlog.segments.index import IndexEntries
from libs.commitlog.segments.segment import Segment
from libs.commitlog.segments.segment_file import FileRegistry
from libs.rpc.contracts.log_layout import UNKNOWN_TIMESTAMP, LogLayoutReply, LogLayoutRequest, SegmentLayout
from libs.rpc.messages.errors import ContractError
from libs.rpc.messages.schema import unpack
from libs.rpc.server.call import Call
from libs.wire.errors import ErrorCode
from services.storage.core.produce.admission import Refusal
from services.storage.disks.disk_reads import DiskReads, TooManyReads
from services.storage.partition.partition_table import PartitionTable

SEGMENTS_MAX = 256
"""The limit of an answer, which is sent ten times a second while consumers read at random."""


class LogLayoutRequests:
    def __init__(self, partitions: PartitionTable, registry: FileRegistry, disk_reads: DiskReads) -> None:
        self._partitions = partitions
        self._registry = registry
        self._disk_reads = disk_reads

    def accept(self, call: Call) -> Coroutine[Any, Any, None] | None:
        try:
            request = unpack(LogLayoutRequest, call.body)
        except ContractError as error:
            call.fail(int(ErrorCode.INVALID_REQUEST), str(error))
            return None
        try:
            with FIRST_ATTEMPT:
                layout = self._layout(request)
        except NotInPageCache as miss:
            return self._finish(call, request, miss.read)
        call.reply(layout)
        return None

    async def _finish(self, call: Call, request: LogLayoutRequest, needed: ColdRead) -> None:
        try:
            call.reply(await self._disk_reads.finish(needed, partial(self._layout, request)))
        except TooManyReads:
            call.reply(LogLayoutReply(int(ErrorCode.KAFKA_STORAGE_ERROR)))

    def _layout(self, request: LogLayoutRequest) -> LogLayoutReply:
        """The layout. Raises NotInPageCache."""
        partition = self._partitions.serving((request.topic_id, request.partition))
        if isinstance(partition, Refusal):
            return LogLayoutReply(partition.error)
        if partition.is_behind:
            return LogLayoutReply(int(ErrorCode.OFFSET_NOT_AVAILABLE))
        high_watermark = partition.high_watermark
        try:
            readable = partition.log.readable(high_watermark, SEGMENTS_MAX)
        except (LogDamaged, OSError) as failure:
            partition.failed_reads.report(partition, failure, offset=high_watermark)
            return LogLayoutReply(int(ErrorCode.KAFKA_STORAGE_ERROR))
        return LogLayoutReply(
            0,
            partition.leader_epoch,
            high_watermark,
            partition.last_stable_offset,
            partition.log_start_offset,
            tuple([self._segment_layout(segment, stop) for segment, stop in readable]),
        )

    def _segment_layout(self, segment: Segment, readable_to: int) -> SegmentLayout:
        offsets, times = segment.known_indexes
        max_timestamp = segment.known_max_timestamp
        offset_index, offset_entries = self._index_layout(offsets)
        time_index, time_entries = self._index_layout(times if max_timestamp is not None else None)
        return SegmentLayout(
            segment.base_offset,
            segment.file.file_id,
            readable_to,
            max_timestamp if times is not None and max_timestamp is not None else UNKNOWN_TIMESTAMP,
            offset_index,
            offset_entries,
            time_index,
            time_entries,
        )

    def _index_layout(self, index: IndexEntries | None) -> tuple[int, int]:
        return (self._registry.name_index(index), index.count) if index is not None else (0, 0)
