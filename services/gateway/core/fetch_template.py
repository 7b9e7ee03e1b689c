"""The template of a consumer's Fetches of one partition, learnt from the last of them. No I/O.

Polls of one partition repeat every byte but the correlation id and the offset. Their answers repeat every byte but five numbers,
the length of the records and the records. A comparison costs less than parsing, as in `produce_template.py`.
"""

import struct
from collections.abc import Sequence
from typing import Final

from libs.wire.api_keys import ApiKey, first_flexible
from libs.wire.headers import read_request_header
from libs.wire.messages.fetch import FetchedPartition, FetchRequest, FetchResponseWriter, FetchTopic, read_fetch
from libs.wire.primitives import ProtocolError, Reader, Writer
from services.gateway.core.sequential_reads import SequentialRead

_CORRELATION = slice(4, 8)
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_HEAD = struct.Struct(">ii")  # length, correlation id
_STATE = struct.Struct(">hqqq")  # error, high watermark, last stable offset, log start offset
_ABORTED = struct.Struct(">qq")  # producer id, first offset
FULL_FETCHES = (0, -1)
"""The session epochs of requests that name all their partitions. Any other epoch continues a session."""
FIRST_WITH_LOG_START = 5
READ_COMMITTED: Final = 1
FIRST_FLEXIBLE: Final = first_flexible(ApiKey.FETCH)
_MARK = 0x5AA5_5AA5_5AA5_5AA5


class FetchTemplate:
    """The template of one partition's Fetches. `request` is the one it was learnt from; `at` gives it another offset.
    `sequential_read` is the position that the last answer leaves for the next one."""

    __slots__ = (
        "_after_records",
        "_before_length",
        "_before_state",
        "_head",
        "_offset_at",
        "_rest",
        "_tail",
        "client_id",
        "request",
        "sequential_read",
        "version",
    )

    def __init__(self, frame: memoryview, offset_at: int, version: int, client_id: str, request: FetchRequest) -> None:
        self.version = version
        self.client_id = client_id
        self.request = request
        self.sequential_read: SequentialRead | None = None
        self._offset_at = offset_at
        self._head = bytes(frame[: _CORRELATION.start])
        self._rest = bytes(frame[_CORRELATION.stop : offset_at])
        self._tail = bytes(frame[offset_at + 8 :])
        self._learn_answer(request.topics[0])

    def _learn_answer(self, topic: FetchTopic) -> None:
        """Cuts the template of the answer from one that the codec wrote, so that only the codec knows the format."""
        writer: FetchResponseWriter[memoryview] = FetchResponseWriter(self.version, 0, 1)
        writer.begin_topic(topic.name, topic.topic_id, 1)
        aborted = () if self.reads_committed else None
        marked = FetchedPartition(topic.partitions[0].partition_index, 0, _MARK, _MARK, _MARK, aborted)
        writer.partition(marked, [memoryview(b"r")], 1)
        writer.end_topic()
        pieces = writer.finish().pieces
        before = bytes(pieces[0])
        state_at = before.index(_INT64.pack(_MARK)) - 2
        self._before_state = before[8:state_at]
        length_bytes = 1 if self.version >= FIRST_FLEXIBLE else 4
        behind_state = state_at + _STATE.size
        if self.reads_committed:
            self._before_length = before[behind_state + length_bytes : -length_bytes]  # without the empty list of transactions
        else:
            self._before_length = before[behind_state:-length_bytes]
        self._after_records = b"".join(pieces[2:])

    @property
    def reads_committed(self) -> bool:
        return self.request.isolation_level == READ_COMMITTED

    def match(self, frame: memoryview) -> int | None:
        """The offset, in which the frame differs beside its correlation id. None: it differs in more, and must be parsed."""
        at = self._offset_at
        if (
            len(frame) != at + 8 + len(self._tail)
            or frame[: _CORRELATION.start] != self._head
            or frame[_CORRELATION.stop : at] != self._rest
            or frame[at + 8 :] != self._tail
        ):
            return None
        offset: int = _INT64.unpack_from(frame, at)[0]
        return offset

    def at(self, offset: int) -> FetchRequest:
        """The request with another offset."""
        return _with_offset(self.request, offset)

    def answer(
        self,
        correlation_id: int,
        high_watermark: int,
        last_stable_offset: int,
        log_start_offset: int,
        length: int,
        aborted: Sequence[tuple[int, int]] = (),
    ) -> tuple[bytes, bytes]:
        """The frame of a success, before and after its records, which have `length` bytes. `aborted`: (producer id, first offset)
        of transactions, for a reader of committed records."""
        state = _STATE.pack(0, high_watermark, last_stable_offset, log_start_offset)
        body = self._before_state + state
        if self.reads_committed:
            behind_entry = b"\0" if self.version >= FIRST_FLEXIBLE else b""  # no tagged fields
            entries = b"".join([_ABORTED.pack(*each) + behind_entry for each in aborted])
            body += self._array_length(len(aborted)) + entries
        body += self._before_length + self._array_length(length)
        return _HEAD.pack(4 + len(body) + length + len(self._after_records), correlation_id) + body, self._after_records

    def _array_length(self, length: int) -> bytes:
        """Of an array, or of records."""
        if self.version < FIRST_FLEXIBLE:
            return _INT32.pack(length)
        writer = Writer()
        writer.uvarint(length + 1)
        return bytes(writer.buffer)


def learn(frame: memoryview, version: int, client_id: str, request: FetchRequest) -> FetchTemplate | None:
    """The template of a plain read of one partition, which was parsed from `frame`. None for any other request."""
    if version < FIRST_WITH_LOG_START or request.isolation_level not in (0, READ_COMMITTED) or request.replica_id >= 0:
        return None
    if request.session_epoch not in FULL_FETCHES:
        return None
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return None
    offset = request.topics[0].partitions[0].fetch_offset
    packed, raw = _INT64.pack(offset), bytes(frame)
    other = offset ^ 0x0101_0101
    expected = (version, client_id, _with_offset(request, other))
    at = raw.find(packed, _CORRELATION.stop)
    while at >= 0:
        # Other fields may hold the same bytes. This is the offset if a change here changes the offset and nothing else.
        if _parsed(raw[:at] + _INT64.pack(other) + raw[at + 8 :]) == expected:
            return FetchTemplate(frame, at, version, client_id, request)
        at = raw.find(packed, at + 1)
    return None


def _parsed(frame: bytes) -> tuple[int, str, FetchRequest] | None:
    reader = Reader(memoryview(frame))
    try:
        header = read_request_header(reader)
        request = read_fetch(reader, header.api_version)
        reader.expect_end()
    except ProtocolError:
        return None
    return header.api_version, header.client_id, request


def _with_offset(request: FetchRequest, offset: int) -> FetchRequest:
    (topic,) = request.topics
    partition = topic.partitions[0]._replace(fetch_offset=offset)
    return FetchRequest(
        request.replica_id,
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.session_epoch,
        [FetchTopic(topic.name, topic.topic_id, [partition])],
        request.forgotten,
        request.rack_id,
        request.cluster_id,
        request.replica_epoch,
    )
