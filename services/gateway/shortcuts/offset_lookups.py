"""Lookups by offset and by timestamp in a leader's files, while its log layout is fresh. They need no request to the leader.

Only records that are found here are answered from here. The leader answers all other requests: records that do not exist, or are
not in the page cache, or need more than a plain answer. So no client hears of a log end that is older than its request.
"""

from libs.rpc.contracts.log_layout import UNKNOWN_TIMESTAMP, SegmentLayout
from services.gateway.core.addresses import BOOTSTRAP
from services.gateway.core.fetch_template import FetchTemplate
from services.gateway.core.routing import PartitionRoute, TopicRoute
from services.gateway.core.segment_search import TIME_ENTRY, FoundRecord, Index, SegmentFiles, find_batch, find_timestamp
from services.gateway.data_path.data_path import DataPath
from services.gateway.exchange.exchange import Exchange
from services.gateway.fetch.record_ranges import part_of
from services.gateway.peers.file_descriptors import OpenedFile
from services.gateway.peers.log_layouts import KnownLayout

ANY_EPOCH = -1


def serve(data_path: DataPath, exchange: Exchange, template: FetchTemplate, topic: TopicRoute | None, offset: int) -> bool:
    """Answers a Fetch that jumped to that offset. False: the leader must be asked; nothing was answered, and no file is pinned.
    Readers of committed records ask it always: layouts do not tell which transactions were aborted."""
    request = template.request
    partition = request.topics[0].partitions[0]
    route = topic.partition(partition.partition_index) if topic is not None else None
    if topic is None or route is None or template.reads_committed:
        return False
    known_layout = data_path.log_layouts.fresh((topic.topic_id, partition.partition_index), route)
    if known_layout is None:
        return False
    layout = known_layout.layout
    if (
        exchange.connection.broker_id not in (BOOTSTRAP, route.leader)
        or partition.current_leader_epoch not in (ANY_EPOCH, route.leader_epoch)
        or partition.last_fetched_epoch >= 0
        or not layout.log_start_offset <= offset < layout.high_watermark
    ):
        return False
    slot = known_layout.slot_for(offset)
    if slot < 0:
        return False
    segment = layout.segments[slot]
    opened = _open(data_path, known_layout, segment, times=False)
    if opened is None:
        return False
    config = data_path.config
    file = opened[0]
    batch = find_batch(_files(known_layout, slot, opened), offset)
    _release(opened[1:])
    if batch is not None:
        limit = min(request.max_bytes, partition.max_bytes, exchange.fetch_bytes_max(config.fetch_bytes_max))
        length = min(limit, segment.readable_to - batch.position)
        # The answer needs one whole batch, and as many bytes as the client waits for.
        if length >= max(batch.size, min(request.min_bytes, limit)):
            part = part_of(file, batch.position, length, data_path.sendfile_bytes_min)
            before, behind = template.answer(
                exchange.correlation_id, layout.high_watermark, layout.last_stable_offset, layout.log_start_offset, length
            )
            exchange.finish((before, part, behind))
            if isinstance(part, memoryview):
                file.release()
            return True
    file.release()
    return False


def note_jump(data_path: DataPath, template: FetchTemplate, topic: TopicRoute | None) -> None:
    """Notes that the template's consumer asked its leader for records out of sequence."""
    index = template.request.topics[0].partitions[0].partition_index
    route = topic.partition(index) if topic is not None else None
    if topic is not None and route is not None and not template.reads_committed:
        data_path.log_layouts.note_jump((topic.topic_id, index), route)


def first_at(
    data_path: DataPath, topic: TopicRoute, partition: int, route: PartitionRoute, timestamp: int, *, committed: bool
) -> FoundRecord | None:
    """The first record whose timestamp is at least `timestamp`. None: the leader must be asked."""
    key = (topic.topic_id, partition)
    known_layout = data_path.log_layouts.fresh(key, route)
    record = _first_at(data_path, known_layout, timestamp, committed=committed) if known_layout is not None else None
    if record is None and known_layout is None:
        data_path.log_layouts.note_jump(key, route)
    return record


def _first_at(data_path: DataPath, known_layout: KnownLayout, timestamp: int, *, committed: bool) -> FoundRecord | None:
    layout = known_layout.layout
    end = layout.last_stable_offset if committed else layout.high_watermark
    start = layout.log_start_offset
    for slot in range(max(known_layout.slot_for(start), 0), len(layout.segments)):
        segment = layout.segments[slot]
        if segment.max_timestamp == UNKNOWN_TIMESTAMP:
            return None
        if not segment.readable_to or segment.max_timestamp < timestamp:
            continue
        opened = _open(data_path, known_layout, segment, times=True)
        if opened is None:
            return None
        record = find_timestamp(_files(known_layout, slot, opened), timestamp, start)
        _release(opened)
        return record if record is not None and record.offset < end else None
    return None


def _open(data_path: DataPath, known_layout: KnownLayout, segment: SegmentLayout, *, times: bool) -> list[OpenedFile] | None:
    """The segment's log file, offset index and time index, pinned. None: one of them is not open yet, and is being opened."""
    files, node = data_path.files, known_layout.node
    file_ids = [segment.file_id, segment.offset_index, segment.time_index] if times else [segment.file_id, segment.offset_index]
    if not all(file_ids):
        return None
    keys = [(node.node_id, known_layout.incarnation, file_id) for file_id in file_ids]
    opened = [file for key in keys if (file := files.pinned(key)) is not None]
    if len(opened) == len(keys):
        return opened
    _release(opened)
    for key in keys:
        if key not in files:
            files.open_soon(node, key)
    return None


def _release(opened: list[OpenedFile]) -> None:
    for file in opened:
        file.release()


def _files(known_layout: KnownLayout, slot: int, opened: list[OpenedFile]) -> SegmentFiles:
    segment = known_layout.layout.segments[slot]
    span = known_layout.end_of(slot) - segment.base_offset
    offsets = Index(opened[1].read_cached, segment.offset_entries, 0, span)
    times = None
    if len(opened) > 2:
        times = Index(opened[2].read_cached, segment.time_entries, _first_of(opened[2]), segment.max_timestamp)
    return SegmentFiles(segment.base_offset, segment.readable_to, opened[0].read_cached, offsets, times)


def _first_of(time_index: OpenedFile) -> int:
    first = time_index.first_timestamp
    if first is None:
        entry = time_index.read_cached(0, TIME_ENTRY.size)
        if entry is None or len(entry) < TIME_ENTRY.size:
            return 0
        first = time_index.first_timestamp = int(TIME_ENTRY.unpack_from(entry)[0])
    return first
