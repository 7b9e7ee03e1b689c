"""The sequential fetch cache: it serves the next fetch of a consumer from what the leader said last, without asking again.

A hop costs two wake-ups and most of the time of a small fetch. A consumer that reads a backlog asks for the offset after the
last batch it got, in a file whose committed part is known. `core/sequential_reads.py` says why that cannot be wrong. The gateway
asks the leader as soon as offset, leader, epoch, process or topic differs, and when the last answer is old or used up.
"""

import errno
from collections.abc import Callable, Sequence
from functools import partial

from libs.rpc.contracts.storage import Fetched
from libs.rpc.files.passed_files import PassedFiles
from libs.wire.record_batches.batch_layout import LENGTH_END
from services.gateway.core.fetch_template import FetchTemplate
from services.gateway.core.routing import TopicRoute
from services.gateway.core.sequential_reads import FRESH_S, HEADER, ReadHeader, SequentialRead, end_of_batches, readable_bytes
from services.gateway.data_path.data_path import DataPath
from services.gateway.exchange.exchange import Exchange, FilePart
from services.gateway.fetch.record_ranges import Part, part_of
from services.gateway.peers.file_descriptors import OpenedFile
from services.gateway.peers.storage_nodes import StorageNode


def learn(
    data_path: DataPath,
    template: FetchTemplate,
    topic: TopicRoute | None,
    node: StorageNode,
    incarnation: int,
    topic_id: object,
    fetched: Fetched,
    parts: Sequence[Part],
) -> None:
    """Keeps the position for the next fetch, after a leader's answer about `topic_id`. That topic may be deleted by now, and
    `topic` be another one of its name.

    `parts` are the bytes of the answered range.
    """
    template.sequential_read = None
    partition = template.request.topics[0].partitions[0]
    if len(fetched.ranges) != 1 or topic is None or topic.topic_id != topic_id or partition.last_fetched_epoch >= 0:
        return
    (file_range,) = fetched.ranges
    if file_range.position + file_range.length >= fetched.readable_to:
        return
    route = topic.partition(partition.partition_index)
    if route is None or route.leader != node.node_id or partition.current_leader_epoch not in (-1, route.leader_epoch):
        return
    end = _end_of(data_path.files.passed, parts[0], file_range.length) if len(parts) == 1 else None
    if end is None:
        return
    offset, size = end
    template.sequential_read = SequentialRead(
        offset,
        file_range.position + size,
        fetched.readable_to,
        file_range.file_id,
        incarnation,
        topic.topic_id,
        route,
        fetched,
        data_path.now() + FRESH_S,
    )


def serve(data_path: DataPath, exchange: Exchange, template: FetchTemplate, topic: TopicRoute | None, offset: int) -> bool:
    """Answers a Fetch from the position that was kept. False: the leader must be asked; nothing was answered, and no file is
    pinned."""
    sequential_read = template.sequential_read
    if sequential_read is None:
        return False
    if sequential_read.offset != offset or not _is_valid(data_path, template, topic, sequential_read):
        template.sequential_read = None
        return False
    request = template.request
    config = data_path.config
    limit = min(request.max_bytes, request.topics[0].partitions[0].max_bytes, exchange.fetch_bytes_max(config.fetch_bytes_max))
    length = readable_bytes(sequential_read, limit, min(request.min_bytes, limit))
    file = data_path.files.pinned((sequential_read.route.leader, sequential_read.incarnation, sequential_read.file_id))
    if file is None:
        return False
    part = _part_with_a_batch(data_path, file, sequential_read, length) if length else None
    if part is None:  # only the leader knows the length to send
        file.release()
        return False
    length = part.length if isinstance(part, FilePart) else len(part)
    last = sequential_read.last_result
    # A transaction that ended before these batches would hide its producer's next one.
    aborted = [(producer, first) for producer, first, marker in last.aborted_ahead if marker >= offset]
    bounds = last.high_watermark, last.last_stable_offset, last.log_start_offset
    before, behind = template.answer(exchange.correlation_id, *bounds, length, aborted)
    if isinstance(part, FilePart):
        file.users += 1  # keeps the file until its end is known
        part.cached = length if _is_cached(file, part) else 0
    # The client receives the answer while the end is computed. A request that begins meanwhile finds no kept position.
    template.sequential_read = None
    exchange.finish((before, part, behind))
    if not isinstance(part, FilePart):
        end = end_of_batches(length, partial(HEADER.unpack_from, part))
    elif part.cached:
        end = end_in_file(file, part.position, length)
    else:
        end = None  # the stream has a thread read it now, and the loop must not wait for the disk
    if end is not None and template.sequential_read is None:
        template.sequential_read = sequential_read._replace(offset=end[0], position=sequential_read.position + end[1])
    file.release()
    return True


def _is_cached(file: OpenedFile, part: FilePart) -> bool:
    try:
        return file.is_cached(part.position, part.length)
    except OSError:
        return False  # a failing disk. The stream meets the error again


def end_in_file(file: OpenedFile, start: int, length: int) -> tuple[int, int] | None:
    """The same as `_end_of`, through a mapping, of a range in the page cache. A large range has more batches than there is time
    for system calls."""
    try:
        mapping = file.mapped(start, start + length)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return end_of_batches(length, _headers_in(file.read_cached, start))
        return None  # no descriptor, no memory or a failing disk. The answer has left, and the next fetch goes to the leader
    if mapping is None:
        return None
    unpack_from = HEADER.unpack_from
    return end_of_batches(length, lambda position: unpack_from(mapping, start + position))


def _part_with_a_batch(data_path: DataPath, file: OpenedFile, sequential_read: SequentialRead, length: int) -> Part | None:
    """The next `length` bytes. A first batch that is larger comes whole, as in Kafka (KIP-74). None: no whole batch is here."""
    position = sequential_read.position
    part = part_of(file, position, max(length, HEADER.size), data_path.sendfile_bytes_min)
    header = _headers_of(data_path.files.passed, part)(0)
    if header is None or header[1] <= 0:
        return None
    first = header[1] + LENGTH_END
    if first <= length:
        return part
    if first > sequential_read.readable_to - position:
        return None
    return part_of(file, position, first, data_path.sendfile_bytes_min)


def _end_of(passed: PassedFiles, part: Part, length: int) -> tuple[int, int] | None:
    return end_of_batches(length, _headers_of(passed, part))


def _headers_of(passed: PassedFiles, part: Part) -> ReadHeader:
    if not isinstance(part, FilePart):
        return partial(HEADER.unpack_from, part)
    return _headers_in(partial(passed.read_cached, part.descriptor), part.position)


def _headers_in(read_cached: Callable[[int, int], bytearray | None], start: int) -> ReadHeader:
    def header_at(position: int) -> tuple[int, int, int] | None:
        header = read_cached(start + position, HEADER.size)
        return HEADER.unpack(header) if header is not None and len(header) == HEADER.size else None

    return header_at


def _is_valid(data_path: DataPath, template: FetchTemplate, topic: TopicRoute | None, sequential_read: SequentialRead) -> bool:
    """Whether the position is fresh, and the leader that answered still leads, as far as this gateway knows."""
    if data_path.now() >= sequential_read.expires_at:
        return False
    if topic is None or topic.topic_id != sequential_read.topic_id:
        return False
    node = data_path.nodes.ready(sequential_read.route.leader)
    return (
        node is not None
        and node.incarnation == sequential_read.incarnation
        and topic.partition(template.request.topics[0].partitions[0].partition_index) == sequential_read.route
    )
