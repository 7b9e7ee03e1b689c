"""The template of one producer's requests to one topic, learnt from the last of them. No I/O.

A producer repeats client id, acks, timeout and topic as the same bytes before each batch. Comparing them costs a tenth of parsing
them, and their answer is the same bytes around five numbers. Only requests with one batch have a template. A frame that differs
in anything is parsed.
"""

import struct
from typing import Final, NamedTuple

from libs.wire.api_keys import ApiKey, first_flexible
from libs.wire.messages.produce import ProducedPartition, ProducedTopic, ProduceRequest, write_produce_response
from libs.wire.primitives import Writer
from libs.wire.record_batches.batch_layout import CODEC_MASK, FLAGS_AT, HEADER_SIZE, TRANSACTIONAL, Codec

FIRST_FLEXIBLE: Final = first_flexible(ApiKey.PRODUCE)
ZSTD = int(Codec.ZSTD)
FIRST_WITH_ZSTD = 7

_KEY_AND_VERSION = slice(0, 4)
_PREFIX_AT = 8  # after the correlation id
_TAIL = b"\0\0\0"  # of the partition, the topic and the request: no tagged fields
_INT32 = struct.Struct(">i")
_HEAD = struct.Struct(">ii")  # length, correlation id
_STATE = struct.Struct(">ihqqq")  # index, error, base offset, append time, log start offset
_OLD_STATE = struct.Struct(">ihqq")  # without log start offset, before version 5


class Match(NamedTuple):
    partition: int
    records: memoryview


class ProduceTemplate:
    """The template of one topic. `name` is set up to version 12, `topic_id` from 13; the other is None."""

    __slots__ = (
        "_after_state",
        "_answer_size",
        "_before_state",
        "_end",
        "_flexible",
        "_key_and_version",
        "_old",
        "_prefix",
        "acks",
        "client_id",
        "name",
        "timeout_ms",
        "topic_id",
        "version",
    )

    def __init__(self, frame: memoryview, end: int, version: int, client_id: str, request: ProduceRequest) -> None:
        topic = request.topics[0]
        self.version = version
        self.client_id = client_id
        self.name = topic.name
        self.topic_id = topic.topic_id
        self.acks = request.acks
        self.timeout_ms = max(0, request.timeout_ms)
        self._flexible = version >= FIRST_FLEXIBLE
        self._key_and_version = bytes(frame[_KEY_AND_VERSION])
        self._prefix = bytes(frame[_PREFIX_AT:end])
        self._end = end
        self._old = version < 5
        self._learn_answer(version, topic.name, topic.topic_id)

    def _learn_answer(self, version: int, name: str | None, topic_id: bytes | None) -> None:
        """Cuts the template of the answer from one that the codec wrote, so that only the codec knows the format."""
        writer = Writer()
        marker = ProducedPartition(0x5AA55AA5, 0, -1, -1, -1)
        write_produce_response(writer, version, [ProducedTopic(name, topic_id, [marker])])
        state = _OLD_STATE if self._old else _STATE
        at = writer.buffer.rindex(_INT32.pack(marker.index))
        self._before_state = (b"\0" if self._flexible else b"") + bytes(writer.buffer[:at])
        self._after_state = bytes(writer.buffer[at + state.size :])
        self._answer_size = 4 + len(self._before_state) + state.size + len(self._after_state)

    def match(self, frame: memoryview) -> Match | None:
        """The values in which the frame differs, beside its correlation id. None: it must be parsed, since it differs in more, or
        must be refused."""
        end = self._end
        if frame[_PREFIX_AT:end] != self._prefix or frame[_KEY_AND_VERSION] != self._key_and_version:
            return None
        stop = len(frame)
        position = end + 4
        if self._flexible:
            size = shift = 0
            while True:
                if position >= stop or shift > 28:
                    return None
                byte = frame[position]
                position += 1
                size |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
            size -= 1
            if byte == 0 or position + size + 3 != stop or frame[-3:] != _TAIL:
                return None
        else:
            if position + 4 > stop:
                return None
            size = _INT32.unpack_from(frame, position)[0]
            position += 4
            if position + size != stop:
                return None
        if size < HEADER_SIZE:
            return None
        attributes = frame[position + FLAGS_AT]
        if attributes & TRANSACTIONAL or (attributes & CODEC_MASK == ZSTD and self.version < FIRST_WITH_ZSTD):
            return None
        return Match(_INT32.unpack_from(frame, end)[0], frame[position : position + size])

    def names(self, partition: int, frame: memoryview) -> bool:
        """Whether a frame that may `match` would name this partition: a fraction of the cost."""
        return len(frame) >= self._end + 4 and _INT32.unpack_from(frame, self._end)[0] == partition

    def answer(self, correlation_id: int, index: int, base_offset: int, append_time_ms: int, log_start_offset: int) -> bytes:
        """The frame of a success, with its length prefix."""
        if self._old:
            state = _OLD_STATE.pack(index, 0, base_offset, append_time_ms)
        else:
            state = _STATE.pack(index, 0, base_offset, append_time_ms, log_start_offset)
        return _HEAD.pack(self._answer_size, correlation_id) + self._before_state + state + self._after_state


def learn(frame: memoryview, version: int, client_id: str, request: ProduceRequest) -> ProduceTemplate | None:
    """The template of a request that was parsed from `frame`. None: it has not exactly one batch, or gets no answer (acks=0)."""
    if request.acks == 0 or request.transactional_id is not None or len(request.topics) != 1:
        return None
    partitions = request.topics[0].partitions
    if len(partitions) != 1:
        return None
    index, records = partitions[0]
    if records is None or len(records) < HEADER_SIZE:
        return None
    flexible = version >= FIRST_FLEXIBLE
    length_bytes = max(1, -(-(len(records) + 1).bit_length() // 7)) if flexible else 4
    end = len(frame) - (len(_TAIL) if flexible else 0) - len(records) - length_bytes - 4
    if end <= _PREFIX_AT:
        return None
    template = ProduceTemplate(frame, end, version, client_id, request)
    # With tagged fields or other extras, the position computed from the end is not that of the index.
    match = template.match(frame)
    return template if match is not None and match.partition == index and len(match.records) == len(records) else None
