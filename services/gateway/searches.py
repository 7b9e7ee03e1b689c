"""Serves reads at any place of a partition from its leader's files, while its outline is fresh: by offset, and by timestamp.

Only what is there is answered from here. What is not found, or not in the page cache, or not plain, is the leader's to answer; so
nobody hears of an end, or of nothing found, that is older than his question.
"""

import os
from functools import partial

from libs.rpc.contracts.outline import UNKNOWN_TIMESTAMP, SegmentOutline
from services.gateway.core.fetch_shape import FetchShape
from services.gateway.core.routing import PartitionRoute, TopicRoute
from services.gateway.core.segment_search import TIME_ENTRY, Found, Index, SegmentFiles, find, find_timestamp
from services.gateway.data_path import DataPath
from services.gateway.exchange import Exchange
from services.gateway.files import OpenedFile
from services.gateway.outlines import Outlined
from services.gateway.record_ranges import part_of
from services.gateway.state import BOOTSTRAP

ANY_EPOCH = -1


def serve(data_path: DataPath, exchange: Exchange, shape: FetchShape, offset: int) -> bool:
    """False: ask the leader. Nothing was answered, and nothing is pinned."""
    request = shape.request
    wanted = request.topics[0].partitions[0]
    topic, route = _route(data_path, shape)
    if topic is None or route is None:
        return False
    outlined = data_path.outlines.fresh((topic.topic_id, wanted.partition_index), route)
    if outlined is None:
        return False
    told = outlined.told
    if (
        exchange.connection.broker_id not in (BOOTSTRAP, route.leader)
        or wanted.current_leader_epoch not in (ANY_EPOCH, route.leader_epoch)
        or wanted.last_fetched_epoch >= 0
        or not told.log_start_offset <= offset < told.high_watermark
    ):
        return False
    slot = outlined.slot_for(offset)
    if slot < 0:
        return False
    segment = told.segments[slot]
    opened = _open(data_path, outlined, segment, times=False)
    if opened is None:
        return False
    config = data_path.config
    file = opened[0]
    place = find(_files(outlined, slot, opened), offset)
    _release(opened[1:])
    if place is not None:
        limit = min(request.max_bytes, wanted.max_bytes, config.fetch_bytes_max)
        length = min(limit, segment.readable_to - place.position)
        # One whole batch at least, and as much as the client waits for.
        if length >= max(place.size, min(request.min_bytes, limit)):
            part = part_of(file, place.position, length, config.sendfile_bytes_min)
            before, behind = shape.answer(
                exchange.correlation_id, told.high_watermark, told.last_stable_offset, told.log_start_offset, length
            )
            exchange.finish((before, part, behind))
            if isinstance(part, memoryview):
                file.release()
            return True
    file.release()
    return False


def jumped(data_path: DataPath, shape: FetchShape) -> None:
    topic, route = _route(data_path, shape)
    if topic is not None and route is not None:
        data_path.outlines.jumped((topic.topic_id, shape.request.topics[0].partitions[0].partition_index), route)


def first_at(
    data_path: DataPath, topic: TopicRoute, partition: int, route: PartitionRoute, timestamp: int, *, committed: bool
) -> Found | None:
    """The first record at least as late, if it is known from here; None: ask the leader."""
    key = (topic.topic_id, partition)
    outlined = data_path.outlines.fresh(key, route)
    found = _first_at(data_path, outlined, timestamp, committed=committed) if outlined is not None else None
    if found is None and outlined is None:
        data_path.outlines.jumped(key, route)
    return found


def _first_at(data_path: DataPath, outlined: Outlined, timestamp: int, *, committed: bool) -> Found | None:
    told = outlined.told
    end = told.last_stable_offset if committed else told.high_watermark
    start = told.log_start_offset
    for slot in range(max(outlined.slot_for(start), 0), len(told.segments)):
        segment = told.segments[slot]
        if segment.max_timestamp == UNKNOWN_TIMESTAMP:
            return None
        if not segment.readable_to or segment.max_timestamp < timestamp:
            continue
        opened = _open(data_path, outlined, segment, times=True)
        if opened is None:
            return None
        found = find_timestamp(_files(outlined, slot, opened), timestamp, start)
        _release(opened)
        return found if found is not None and found.offset < end else None
    return None


def _route(data_path: DataPath, shape: FetchShape) -> tuple[TopicRoute | None, PartitionRoute | None]:
    asked = shape.request.topics[0]
    routes = data_path.routes
    topic = routes.topic_by_id(asked.topic_id) if asked.topic_id is not None else routes.topic(asked.name or "")
    return topic, topic.partition(asked.partitions[0].partition_index) if topic is not None else None


def _open(data_path: DataPath, outlined: Outlined, segment: SegmentOutline, *, times: bool) -> list[OpenedFile] | None:
    """The log file, its offset index, and its time index; pinned. None if any is not open: it will be soon."""
    files, node = data_path.files, outlined.node
    wanted = [segment.file_id, segment.offset_index, segment.time_index] if times else [segment.file_id, segment.offset_index]
    if not all(wanted):
        return None
    keys = [(node.node_id, outlined.incarnation, file_id) for file_id in wanted]
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


def _files(outlined: Outlined, slot: int, opened: list[OpenedFile]) -> SegmentFiles:
    segment = outlined.told.segments[slot]
    span = outlined.end_of(slot) - segment.base_offset
    offsets = Index(partial(_read, opened[1].descriptor), segment.offset_entries, 0, span)
    times = None
    if len(opened) > 2:
        times = Index(partial(_read, opened[2].descriptor), segment.time_entries, _first_of(opened[2]), segment.max_timestamp)
    return SegmentFiles(segment.base_offset, segment.readable_to, partial(_read, opened[0].descriptor), offsets, times)


def _first_of(time_index: OpenedFile) -> int:
    first = time_index.first_timestamp
    if first is None:
        entry = _read(time_index.descriptor, 0, TIME_ENTRY.size)
        if entry is None or len(entry) < TIME_ENTRY.size:
            return 0
        first = time_index.first_timestamp = int(TIME_ENTRY.unpack_from(entry)[0])
    return first


def _read(descriptor: int, position: int, length: int) -> bytearray | None:
    data = bytearray(length)
    try:
        got = os.preadv(descriptor, (data,), position, os.RWF_NOWAIT)
    except OSError:
        return None
    return data if got == length else data[:got]
