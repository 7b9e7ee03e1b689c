"""Prebuilt frames of the group APIs, and as little of their answers as the load needs; see `frames`."""

import struct
from dataclasses import dataclass

from tests.bench.frames import CLIENT_ID, compact_string, uvarint

OFFSET_COMMIT, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 8, 10, 11, 12, 13, 14
OFFSET_FETCH, CONSUMER_GROUP_HEARTBEAT = 9, 68
NO_MEMBER, NO_ARRAY = b"\x01", b"\0"


def frame(api_key: int, version: int, body: bytes, *, flexible: bool = True) -> bytes:
    header = struct.pack(">hhih", api_key, version, 7, len(CLIENT_ID)) + CLIENT_ID + (b"\0" if flexible else b"")
    return struct.pack(">i", len(header) + len(body)) + header + body


def commit_frame(group: str, topic: str, offset: int, partitions: int = 1) -> bytes:
    """Version 8, of nobody in particular: a group without members takes it."""
    head = compact_string(group.encode()) + struct.pack(">i", -1) + NO_MEMBER + b"\0"
    each = b"".join(struct.pack(">iqi", index, offset, -1) + b"\x01\0" for index in range(partitions))
    topics = b"\x02" + compact_string(topic.encode()) + uvarint(partitions + 1) + each + b"\0"
    return frame(OFFSET_COMMIT, 8, head + topics + b"\0")


def commit_error_position(topic: str) -> int:
    """The first partition's error code: after length, correlation id, tags, throttle, counts and names."""
    return 4 + 4 + 1 + 4 + 1 + len(compact_string(topic.encode())) + 1 + 4


def offset_fetch_frame(group: str, topic: str, partition: int = 0) -> bytes:
    """Version 7."""
    topics = b"\x02" + compact_string(topic.encode()) + b"\x02" + struct.pack(">i", partition) + b"\0"
    return frame(OFFSET_FETCH, 7, compact_string(group.encode()) + topics + b"\0" + b"\0")


def offset_fetched(answer: bytes, topic: str) -> tuple[int, int]:
    """The offset, and the error of the group."""
    at = 4 + 4 + 1 + 4
    (error,) = struct.unpack_from(">h", answer, len(answer) - 3)
    if answer[at] < 2:
        return -1, error
    (offset,) = struct.unpack_from(">q", answer, at + 1 + len(compact_string(topic.encode())) + 1 + 4)
    return offset, error


def find_coordinator_frame(group: str) -> bytes:
    """Version 3."""
    return frame(FIND_COORDINATOR, 3, compact_string(group.encode()) + b"\0\0")


@dataclass(frozen=True)
class Coordinator:
    error: int
    host: str
    port: int


def coordinator_found(answer: bytes) -> Coordinator:
    reader = Answer(answer)
    reader.int32()  # throttle
    error = reader.int16()
    reader.text()
    reader.int32()
    return Coordinator(error, reader.text(), reader.int32())


class Answer:
    """Reads a flexible response from behind its header."""

    def __init__(self, answer: bytes) -> None:
        self._data = answer
        self._at = 4 + 4 + 1

    def int16(self) -> int:
        return self._int(">h", 2)

    def int32(self) -> int:
        return self._int(">i", 4)

    def byte(self) -> int:
        return self._int(">b", 1)

    def _int(self, form: str, size: int) -> int:
        (value,) = struct.unpack_from(form, self._data, self._at)
        self._at += size
        return int(value)

    def length(self) -> int:
        """The length of a compact string or array. -1: null."""
        value, shift = 0, 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value - 1

    def data(self, size: int) -> bytes:
        self._at += max(size, 0)
        return self._data[self._at - max(size, 0) : self._at]

    def text(self) -> str:
        return self.data(self.length()).decode()

    def tags(self) -> None:
        assert self.length() == -1, "a tagged field that nobody expected"


# The classic protocol

SUBSCRIPTION = struct.pack(">hi", 0, 0) + struct.pack(">i", -1)  # to nothing: it is not the client's work that is measured
SESSION_MS, REBALANCE_MS = 300_000, 60_000


def join_frame(group: str, member_id: str) -> bytes:
    """Version 7."""
    protocols = b"\x02" + compact_string(b"range") + uvarint(len(SUBSCRIPTION) + 1) + SUBSCRIPTION + b"\0"
    body = compact_string(group.encode()) + struct.pack(">ii", SESSION_MS, REBALANCE_MS) + compact_string(member_id.encode())
    return frame(JOIN_GROUP, 7, body + b"\0" + compact_string(b"consumer") + protocols + b"\0")


@dataclass(frozen=True)
class Joined:
    error: int
    generation: int
    leader: str
    member_id: str
    members: tuple[str, ...]


def joined(answer: bytes) -> Joined:
    reader = Answer(answer)
    reader.int32()
    error, generation = reader.int16(), reader.int32()
    reader.text()
    reader.text()
    leader, member_id = reader.text(), reader.text()
    members = []
    for _ in range(reader.length()):
        members.append(reader.text())
        reader.text()
        reader.data(reader.length())
        reader.tags()
    return Joined(error, generation, leader, member_id, tuple(members))


def sync_frame(group: str, generation: int, member_id: str, members: tuple[str, ...]) -> bytes:
    """Version 5. Each of `members` is assigned a few bytes."""
    body = compact_string(group.encode()) + struct.pack(">i", generation) + compact_string(member_id.encode()) + b"\0"
    body += compact_string(b"consumer") + compact_string(b"range") + uvarint(len(members) + 1)
    for member in members:
        body += compact_string(member.encode()) + uvarint(9) + b"assigned" + b"\0"
    return frame(SYNC_GROUP, 5, body + b"\0")


def heartbeat_frame(group: str, generation: int, member_id: str) -> bytes:
    """Version 4."""
    body = compact_string(group.encode()) + struct.pack(">i", generation) + compact_string(member_id.encode())
    return frame(HEARTBEAT, 4, body + b"\0\0")


def leave_frame(group: str, member_id: str) -> bytes:
    """Version 4."""
    return frame(LEAVE_GROUP, 4, compact_string(group.encode()) + b"\x02" + compact_string(member_id.encode()) + b"\0\0\0")


def error_after_throttle(answer: bytes) -> int:
    """SyncGroup 5, Heartbeat 4 and LeaveGroup 4 have it in the same place."""
    reader = Answer(answer)
    reader.int32()
    return reader.int16()


# The consumer protocol (KIP-848)


def consumer_heartbeat_frame(
    group: str, member_id: str, epoch: int, topic: str | None, owned: dict[bytes, tuple[int, ...]] | None
) -> bytes:
    """Version 1. `topic` None: as it was; `owned` None: as it was."""
    body = compact_string(group.encode()) + compact_string(member_id.encode()) + struct.pack(">i", epoch) + b"\0\0"
    body += struct.pack(">i", REBALANCE_MS if epoch == 0 else -1)
    body += NO_ARRAY if topic is None else b"\x02" + compact_string(topic.encode())
    body += b"\0" + b"\0"  # no regular expression, any assignor
    if owned is None:
        body += NO_ARRAY
    else:
        body += uvarint(len(owned) + 1)
        for topic_id, partitions in owned.items():
            body += topic_id + uvarint(len(partitions) + 1) + b"".join(struct.pack(">i", one) for one in partitions) + b"\0"
    return frame(CONSUMER_GROUP_HEARTBEAT, 1, body + b"\0")


@dataclass(frozen=True)
class Beaten:
    error: int
    epoch: int
    assigned: dict[bytes, tuple[int, ...]] | None


def beaten(answer: bytes) -> Beaten:
    reader = Answer(answer)
    reader.int32()
    error = reader.int16()
    reader.data(reader.length())  # the message
    reader.data(reader.length())  # the member id
    epoch = reader.int32()
    reader.int32()
    if reader.byte() < 0:
        return Beaten(error, epoch, None)
    assigned = {}
    for _ in range(reader.length()):
        topic_id = reader.data(16)
        assigned[topic_id] = tuple(reader.int32() for _ in range(reader.length()))
        reader.tags()
    return Beaten(error, epoch, assigned)
