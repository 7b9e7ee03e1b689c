"""Serves the next fetch of a consumer that reads on, from what its leader said lately, without asking it again.

A hop costs two wake-ups and most of the time of a small fetch. A consumer that reads a backlog asks for the offset after the
last batch it got, in a file whose committed part is known: see `core/read_on.py` for why that cannot be wrong. The leader is
asked as soon as anything differs: offset, leader, epoch, process, topic, or when its answer is old or runs out.
"""

import errno
import os
from collections.abc import Sequence
from functools import partial

from libs.rpc.cold_files import is_cached
from libs.rpc.contracts.storage import Fetched
from libs.wire.batch_layout import LENGTH_END
from services.gateway.core.fetch_shape import FetchShape
from services.gateway.core.read_on import FRESH_S, HEADER, ReadHeader, ReadOn, after, readable_bytes
from services.gateway.core.routing import TopicRoute
from services.gateway.data_path import DataPath
from services.gateway.exchange import Exchange, FilePart
from services.gateway.files import OpenedFile
from services.gateway.nodes import StorageNode
from services.gateway.record_ranges import Part, part_of


def learn(
    data_path: DataPath,
    shape: FetchShape,
    node: StorageNode,
    incarnation: int,
    topic_id: object,
    fetched: Fetched,
    parts: Sequence[Part],
) -> None:
    """After an answer of the leader about `topic_id`, which may be deleted by now. `parts` are the bytes that it named."""
    shape.read_on = None
    topic = _topic(data_path, shape)
    wanted = shape.request.topics[0].partitions[0]
    if len(fetched.ranges) != 1 or topic is None or topic.topic_id != topic_id or wanted.last_fetched_epoch >= 0:
        return
    (found,) = fetched.ranges
    if found.position + found.length >= fetched.readable_to:
        return
    route = topic.partition(wanted.partition_index)
    if route is None or route.leader != node.node_id or wanted.current_leader_epoch not in (-1, route.leader_epoch):
        return
    end = _end_of(parts[0], found.length) if len(parts) == 1 else None
    if end is None:
        return
    offset, size = end
    shape.read_on = ReadOn(
        offset,
        found.position + size,
        fetched.readable_to,
        found.file_id,
        incarnation,
        topic.topic_id,
        route,
        fetched,
        data_path.now() + FRESH_S,
    )


def serve(data_path: DataPath, exchange: Exchange, shape: FetchShape, offset: int) -> bool:
    """False: ask the leader. Nothing was answered, and nothing is pinned."""
    read_on = shape.read_on
    if read_on is None:
        return False
    if read_on.offset != offset or not _holds(data_path, shape, read_on):
        shape.read_on = None
        return False
    request = shape.request
    config = data_path.config
    limit = min(request.max_bytes, request.topics[0].partitions[0].max_bytes, config.fetch_bytes_max)
    length = readable_bytes(read_on, limit, request.min_bytes)
    file = data_path.files.pinned((read_on.route.leader, read_on.incarnation, read_on.file_id))
    if file is None:
        return False
    part = part_of(file, read_on.position, length, config.sendfile_bytes_min) if length else None
    # Without one whole batch, only the leader knows how much to send.
    if part is None or not _begins_with_a_batch(part, length):
        file.release()
        return False
    told = read_on.told
    before, behind = shape.answer(
        exchange.correlation_id, told.high_watermark, told.last_stable_offset, told.log_start_offset, length
    )
    if isinstance(part, FilePart):
        file.users += 1  # until its end is known, too
    # The client receives while the end is looked for. What this begins meanwhile has nothing to read on from.
    shape.read_on = None
    exchange.finish((before, part, behind))
    end = _end_in_file(file, read_on.position, length) if isinstance(part, FilePart) else _end_of(part, length)
    if end is not None and shape.read_on is None:
        shape.read_on = read_on._replace(offset=end[0], position=read_on.position + end[1])
    file.release()
    return True


def _end_in_file(file: OpenedFile, start: int, length: int) -> tuple[int, int] | None:
    """As `_end_of`, through a mapping: a large range has more batches than there is time for system calls."""
    try:
        if not is_cached(file.descriptor, start, length):
            return None  # the stream has it read just now: the loop must not wait for the disk too
        mapping = file.mapped(start, start + length)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return after(length, _headers_in(file.descriptor, start))
        return None  # no descriptor or memory left, or a sick disk: it is answered already, and the leader can be asked next
    if mapping is None:
        return None
    unpack_from = HEADER.unpack_from
    return after(length, lambda position: unpack_from(mapping, start + position))


def _begins_with_a_batch(part: Part, length: int) -> bool:
    header = _headers_of(part)(0) if length >= HEADER.size else None
    return header is not None and 0 < header[1] <= length - LENGTH_END


def _end_of(part: Part, length: int) -> tuple[int, int] | None:
    return after(length, _headers_of(part))


def _headers_of(part: Part) -> ReadHeader:
    if not isinstance(part, FilePart):
        return partial(HEADER.unpack_from, part)
    return _headers_in(part.descriptor, part.position)


def _headers_in(descriptor: int, start: int) -> ReadHeader:
    header = bytearray(HEADER.size)

    def header_at(position: int) -> tuple[int, int, int] | None:
        try:
            got = os.preadv(descriptor, (header,), start + position, os.RWF_NOWAIT)
        except OSError:
            return None
        return HEADER.unpack(header) if got == HEADER.size else None

    return header_at


def _holds(data_path: DataPath, shape: FetchShape, read_on: ReadOn) -> bool:
    """Whether what was learnt is fresh, and its leader still is the leader, as far as anybody here knows."""
    if data_path.now() >= read_on.expires_at:
        return False
    topic = _topic(data_path, shape)
    if topic is None or topic.topic_id != read_on.topic_id:
        return False
    node = data_path.nodes.ready(read_on.route.leader)
    return (
        node is not None
        and node.incarnation == read_on.incarnation
        and topic.partition(shape.request.topics[0].partitions[0].partition_index) == read_on.route
    )


def _topic(data_path: DataPath, shape: FetchShape) -> TopicRoute | None:
    topic = shape.request.topics[0]
    routes = data_path.routes
    return routes.topic_by_id(topic.topic_id) if topic.topic_id is not None else routes.topic(topic.name or "")
