"""Small files of a log directory: leader epochs, checkpoints of offsets, producer snapshots, transaction indexes, resume points.

Byte 0: the file, and whether its checksum is put right. The rest is its content.
"""

import struct
from collections.abc import Iterator

from crc32c import crc32c

from libs.commitlog.checkpoints.leader_epochs import LeaderEpochs
from libs.commitlog.checkpoints.offset_checkpoint import Entry, format_entries, parse_entries
from libs.commitlog.files.checked_content import CheckedContent
from libs.commitlog.model.errors import DirectoryDamaged
from libs.commitlog.opening.resume_points import ResumePoint, parse_resume, resume_content
from libs.commitlog.opening.segment_list import ListedSegment
from libs.commitlog.producers.producer_entries import CachedBatch, ProducerEntry, pack_entry
from libs.commitlog.producers.producer_snapshot import parse_snapshot, snapshot_content
from libs.commitlog.producers.producer_table import ProducerTable, packed_of
from libs.commitlog.producers.transaction_index import ENTRY, TransactionIndex
from libs.commitlog.segments.segment_progress import SegmentProgress

_EPOCHS, OFFSETS, SNAPSHOT, _TRANSACTIONS, RESUME = range(5)
_MENDED = 8
_CRC_AT = {SNAPSHOT: 2, RESUME: 4}


def check(data: bytes) -> None:
    if not data:
        return
    kind, content = (data[0] & 7) % 5, data[1:]
    if data[0] & _MENDED:
        content = mended(kind, content)
    try:
        _CHECKS[kind](content)
    except DirectoryDamaged:
        pass


def mended(kind: int, content: bytes) -> bytes:
    """The content with its checksum put right, if a file of that kind has one."""
    if kind == OFFSETS:
        lines = content.rpartition(b"\n#crc32c 0 ")[0].split(b"\n")
        listed = b"\n".join(b" ".join(line.split()) for line in lines[2:] if line.strip())
        return b"\n".join([b"0", b"%d" % (listed.count(b"\n") + 2), listed, b"#crc32c 0 %d" % crc32c(listed), b""])
    at = _CRC_AT.get(kind)
    if at is None or len(content) < at + 4:
        return content
    return content[:at] + struct.pack(">I", crc32c(content[at + 4 :])) + content[at + 4 :]


def _check_epochs(content: bytes) -> None:
    epochs = LeaderEpochs.parse(content, "file")
    assert LeaderEpochs.parse(epochs.format(), "file").entries() == epochs.entries()


def _check_offsets(content: bytes) -> None:
    entries = parse_entries(content, "file")
    again = parse_entries(format_entries(entries), "file")
    assert {name: entry.offset for name, entry in again.items()} == {name: entry.offset for name, entry in entries.items()}


def _check_snapshot(content: bytes) -> None:
    table = parse_snapshot(content, "file")
    again = parse_snapshot(_whole(snapshot_content(packed_of(table))), "file")
    assert dict(again) == dict(table)


def _check_transactions(content: bytes) -> None:
    index = TransactionIndex.parse(content, "file", 0)
    assert len(index) * ENTRY.size == len(content)


def _check_resume(content: bytes) -> None:
    point = parse_resume(content, "file")
    again = parse_resume(_whole(resume_content(point)), "file")
    assert again._replace(producers={}) == point._replace(producers={}), point
    assert dict(again.producers) == dict(point.producers)


_CHECKS = {
    _EPOCHS: _check_epochs,
    OFFSETS: _check_offsets,
    SNAPSHOT: _check_snapshot,
    _TRANSACTIONS: _check_transactions,
    RESUME: _check_resume,
}


def _whole(content: CheckedContent) -> bytes:
    whole = bytearray()
    for position, piece in content.placed():
        whole.extend(bytes(max(0, position + len(piece) - len(whole))))
        whole[position : position + len(piece)] = piece
    return bytes(whole)


def seeds() -> Iterator[bytes]:
    yield bytes((_EPOCHS,)) + LeaderEpochs([(0, 0), (3, 100), (7, 100)]).format()
    for topic_id in (bytes(range(16)), b"-", b""):
        entries = {("t", 0): Entry(5, topic_id), ("t", 1): Entry(0, topic_id), ("other.topic", 7): Entry(1 << 40, topic_id)}
        yield bytes((OFFSETS,)) + format_entries(entries)
        yield bytes((OFFSETS | _MENDED,)) + format_entries(entries)
    batches = tuple(CachedBatch(number, 10 * number, 3, 1_000) for number in range(5))
    producers = {number: ProducerEntry(1, batches[:number], -1, 1_000, number - 1) for number in range(6)}
    table = ProducerTable.of_packed([(number, pack_entry(number, entry)) for number, entry in producers.items()])
    yield bytes((SNAPSHOT,)) + _whole(snapshot_content(packed_of(table)))
    yield bytes((SNAPSHOT | _MENDED,)) + _whole(snapshot_content(packed_of(table)))
    yield bytes((_TRANSACTIONS,)) + b"".join(ENTRY.pack(0, 7, first, first + 9, first) for first in range(0, 100, 10))
    progress = SegmentProgress(*range(1, len(SegmentProgress._fields) + 1))
    for point in (
        ResumePoint(100, progress, {}),
        ResumePoint(100, progress, table, {0: 3}, (ListedSegment(0, 700), ListedSegment(50, 900)), {0: 77}),
    ):
        yield bytes((RESUME,)) + _whole(resume_content(point))
        yield bytes((RESUME | _MENDED,)) + _whole(resume_content(point))
