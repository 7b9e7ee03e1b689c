"""What the commits of one member have in common, learnt from the last of them. No I/O.

A member commits the same partitions again and again: all bytes are the same but offsets and leader epochs, and so is the answer.
Comparing them costs a sixth of parsing them. Only the flexible versions have a shape, and a request that differs in anything is
parsed like every other.
"""

import struct
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from libs.wire.api import ApiKey, first_flexible
from libs.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    write_request,
)
from libs.wire.primitives import Writer
from services.group_coordinator.apis import APIS, Api

SHAPES_MAX: Final = 1 << 14
"""Of about a kilobyte each, and of three at most. Beyond, all are learnt anew."""
BODY_BYTES_MAX: Final = 1024
"""Of a request that is worth a shape."""
MISSES_MAX: Final = 8
"""A member whose commits differ in more than their offsets would otherwise pay for learning a shape with each."""

_COMMIT: Final[Api] = APIS[ApiKey.OFFSET_COMMIT]
_FIRST_FLEXIBLE: Final = first_flexible(ApiKey.OFFSET_COMMIT) or 0
_ONE_BYTE: Final = 0x80
"""Compact lengths below this take one byte."""
MARK: Final = bytes(range(1, 13))
"""Where offset and leader epoch are to stand. It cannot overlap itself, so that it is found nowhere but there or between."""
_MARKED_OFFSET, _MARKED_EPOCH = struct.unpack(">qi", MARK)

Write = Callable[[Any], bytes | bytearray]
"""Raises ValueError for what the request's version has no words for."""


class CommitShape:
    """`request` is the one that it was learnt from."""

    __slots__ = ("_constant", "_layout", "_request", "_told", "_version", "_written", "misses")

    def __init__(self, request: OffsetCommitRequest, version: int, constant: tuple[bytes, ...]) -> None:
        """`constant`: all bytes but offsets and epochs, in pieces. See `learn`."""
        self._constant = constant
        self._layout = struct.Struct(">" + "qi".join([f"{len(piece)}s" for piece in constant]))
        self._request = request
        self._version = version
        self._told: OffsetCommitResponse | None = None
        self._written: bytes | bytearray = b""
        self.misses = 0

    def match(self, body: bytes) -> OffsetCommitRequest | None:
        """None: it differs. Parse it."""
        if len(body) != self._layout.size:
            return None
        fields = self._layout.unpack(body)
        if fields[::3] != self._constant:
            return None
        like = self._request
        topics: list[OffsetCommitRequestTopic] = []
        at = 1
        for topic in like.topics:
            partitions: list[OffsetCommitRequestPartition] = []
            for one in topic.partitions:
                offset, epoch = fields[at], fields[at + 1]
                partitions.append(OffsetCommitRequestPartition(one.partition_index, offset, epoch, one.committed_metadata))
                at += 3
            topics.append(OffsetCommitRequestTopic(topic.topic_id, topic.name, partitions))
        return OffsetCommitRequest(
            *(like.group_id, like.generation_id_or_member_epoch, like.member_id, like.group_instance_id),
            topics=topics,
        )

    def written(self, response: OffsetCommitResponse) -> bytes | bytearray:
        """The same as last time is not written anew."""
        if response != self._told:
            self._written, self._told = _COMMIT.written(response, self._version), response
        return self._written


def learn(request: OffsetCommitRequest, version: int) -> CommitShape | None:
    """Cut from a request that the codec wrote, so that there is one place that knows the format. None: it names the mark."""
    marked = [replace(topic, partitions=[_marked(one) for one in topic.partitions]) for topic in request.topics]
    writer = Writer()
    write_request(writer, replace(request, topics=marked), version)
    constant = tuple(bytes(writer.buffer).split(MARK))
    offsets = sum([len(topic.partitions) for topic in request.topics])
    return CommitShape(request, version, constant) if len(constant) == offsets + 1 else None


class CommitShapes:
    """Of all members that commit here."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[int, bytes], CommitShape] = {}

    def __len__(self) -> int:
        return len(self._shapes)

    def read(self, body: bytes, version: int) -> tuple[OffsetCommitRequest, Write]:
        """The request, and what writes its response. Raises ProtocolError for anything but one whole request."""
        member = _member(body) if version >= _FIRST_FLEXIBLE and len(body) <= BODY_BYTES_MAX else None
        if member is None:
            return _COMMIT.read(memoryview(body), version), partial(_COMMIT.written, version=version)
        shape = self._shapes.get((version, member))
        if shape is not None:
            request = shape.match(body)
            if request is not None:
                return request, shape.written
            shape.misses += 1
        request = _COMMIT.read(memoryview(body), version)
        if shape is None or shape.misses >= MISSES_MAX:
            learnt = learn(request, version)
            if len(self._shapes) >= SHAPES_MAX:
                self._shapes.clear()
            if learnt is not None:
                self._shapes[version, member] = learnt
        return request, partial(_COMMIT.written, version=version)


def _member(body: bytes) -> bytes | None:
    """Group id, generation and member id, as they begin the request. None: too long for a shape, or no request."""
    group_end = body[0] if body else _ONE_BYTE
    member_at = group_end + 4
    if not 0 < group_end < _ONE_BYTE or member_at >= len(body) or not 0 < body[member_at] < _ONE_BYTE:
        return None
    return body[: member_at + body[member_at]]


def _marked(partition: OffsetCommitRequestPartition) -> OffsetCommitRequestPartition:
    return replace(partition, committed_offset=_MARKED_OFFSET, committed_leader_epoch=_MARKED_EPOCH)
