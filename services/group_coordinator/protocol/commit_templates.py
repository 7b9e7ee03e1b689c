"""Templates of members' commits, each learnt from the member's last commit. No I/O.

A member commits the same partitions again and again: only offsets and leader epochs differ, and the answer stays the same.
Comparing bytes costs a sixth of parsing them. Only flexible versions have templates. A request that differs in anything else is
parsed.
"""

import struct
from copy import copy
from functools import partial
from typing import Final

from libs.coordinator.requests.deferred_requests import Write
from libs.wire.api_keys import ApiKey, first_flexible
from libs.wire.apis import GROUP_APIS, Api
from libs.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    write_request,
)
from libs.wire.primitives import Writer

TEMPLATES_MAX: Final = 1 << 14
"""Most templates, of about one kilobyte each, three at most. Beyond that, all are dropped and learnt anew."""
BODY_BYTES_MAX: Final = 1024
"""Longest request that gets a template."""
MISSES_MAX: Final = 8
"""A template is learnt anew after so many misses, so that a member with changing commits does not pay for it each time."""

_COMMIT: Final[Api] = GROUP_APIS[ApiKey.OFFSET_COMMIT]
_FIRST_FLEXIBLE: Final = first_flexible(ApiKey.OFFSET_COMMIT)
_NEVER: Final = 1 << 15
"""A version that no request has."""
_ONE_BYTE: Final = 0x80
"""Compact lengths below this take one byte."""
MARK: Final = bytes(range(1, 13))
"""Bytes in place of offset and leader epoch. The mark cannot overlap itself, so splitting at it is unambiguous."""
MARKED_OFFSET, MARKED_EPOCH = struct.unpack(">qi", MARK)


class CommitTemplate:
    """The template that was learnt from `request`."""

    __slots__ = ("_constant", "_last_body", "_last_response", "_layout", "_request", "_version", "misses")

    def __init__(self, request: OffsetCommitRequest, version: int, constant: tuple[bytes, ...]) -> None:
        """`constant`: all bytes except offsets and epochs, in pieces. See `learn`."""
        self._constant = constant
        self._layout = struct.Struct(">" + "qi".join([f"{len(piece)}s" for piece in constant]))
        self._request = request
        self._version = version
        self._last_response: OffsetCommitResponse | None = None
        self._last_body: bytes | bytearray = b""
        self.misses = 0

    def match(self, body: bytes) -> OffsetCommitRequest | None:
        """The request in `body`; None if it does not match and has to be parsed."""
        if len(body) != self._layout.size:
            return None
        fields = self._layout.unpack(body)
        if fields[::3] != self._constant:
            return None
        request = self._request
        topics: list[OffsetCommitRequestTopic] = []
        at = 1
        for topic in request.topics:
            partitions: list[OffsetCommitRequestPartition] = []
            for partition in topic.partitions:
                offset, epoch = fields[at], fields[at + 1]
                partitions.append(
                    OffsetCommitRequestPartition(partition.partition_index, offset, epoch, partition.committed_metadata)
                )
                at += 3
            topics.append(OffsetCommitRequestTopic(topic.topic_id, topic.name, partitions))
        return OffsetCommitRequest(
            request.group_id,
            request.generation_id_or_member_epoch,
            request.member_id,
            request.group_instance_id,
            topics=topics,
        )

    def written(self, response: OffsetCommitResponse) -> bytes | bytearray:
        """The response as bytes. Equal responses are written once."""
        if response != self._last_response:
            self._last_body, self._last_response = _COMMIT.written(response, self._version), response
        return self._last_body


def learn(request: OffsetCommitRequest, version: int) -> CommitTemplate | None:
    """The template of a request, cut from what the codec writes, so that only the codec knows the format. None if the request
    contains the mark."""
    marked = copy(request)
    marked.topics = [_marked_topic(topic) for topic in request.topics]
    writer = Writer()
    write_request(writer, marked, version)
    constant = tuple(bytes(writer.buffer).split(MARK))
    offsets = sum([len(topic.partitions) for topic in request.topics])
    return CommitTemplate(request, version, constant) if len(constant) == offsets + 1 else None


class CommitTemplates:
    """The templates of all members that commit here. None is kept if they are switched off."""

    def __init__(self, *, enabled: bool) -> None:
        self._first_version = _FIRST_FLEXIBLE if enabled else _NEVER
        self._templates: dict[tuple[int, bytes], CommitTemplate] = {}

    def __len__(self) -> int:
        return len(self._templates)

    def read(self, body: bytes, version: int) -> tuple[OffsetCommitRequest, Write]:
        """The request, and the function that writes its response. Raises ProtocolError for anything but one whole request."""
        member = _member(body) if version >= self._first_version and len(body) <= BODY_BYTES_MAX else None
        if member is None:
            return _COMMIT.read(memoryview(body), version), partial(_COMMIT.written, version=version)
        template = self._templates.get((version, member))
        if template is not None:
            request = template.match(body)
            if request is not None:
                return request, template.written
            template.misses += 1
        request = _COMMIT.read(memoryview(body), version)
        if template is None or template.misses >= MISSES_MAX:
            template = learn(request, version)
            if len(self._templates) >= TEMPLATES_MAX:
                self._templates.clear()
            if template is not None:
                self._templates[version, member] = template
        return request, partial(_COMMIT.written, version=version)


def _member(body: bytes) -> bytes | None:
    """Group id, generation and member id, with which the request begins. None if they are too long for a template,
    or malformed."""
    group_end = body[0] if body else _ONE_BYTE
    member_at = group_end + 4
    if not 0 < group_end < _ONE_BYTE or member_at >= len(body) or not 0 < body[member_at] < _ONE_BYTE:
        return None
    return body[: member_at + body[member_at]]


def _marked_topic(topic: OffsetCommitRequestTopic) -> OffsetCommitRequestTopic:
    marked = copy(topic)
    marked.partitions = [_marked(partition) for partition in topic.partitions]
    return marked


def _marked(partition: OffsetCommitRequestPartition) -> OffsetCommitRequestPartition:
    marked = copy(partition)
    marked.committed_offset, marked.committed_leader_epoch = MARKED_OFFSET, MARKED_EPOCH
    return marked
