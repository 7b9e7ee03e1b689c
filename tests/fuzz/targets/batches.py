"""Record batches of version 2: a produced batch as it came, one with its length and CRC put right, and one whose records are
mutated before they are compressed; then all that ever opens a batch.

Byte 0: which of these, and the codec. Byte 1: the topic's rules. The rest is the batch.
"""

from collections.abc import Iterator

from libs.wire.record_batches.batch_layout import ATTRIBUTES_AT, TIMESTAMP_MAX, TIMESTAMP_MIN
from libs.wire.record_batches.batches import (
    CODEC_MASK,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LENGTH_END,
    BatchError,
    BatchHeader,
    ProduceLimits,
    crc32c,
    iter_batches,
    validate_produce,
)
from libs.wire.record_batches.compression import (
    DecompressionFailed,
    DecompressionTooLarge,
    compress,
    decompress,
    decompressed_pieces,
)
from libs.wire.record_batches.first_record import WantedHeader, wanted_header
from libs.wire.record_batches.key_values import latest_values
from libs.wire.record_batches.keyed_batches import build_keyed_batch
from libs.wire.record_batches.markers import Marker, build_marker, read_marker
from libs.wire.record_batches.opened_batches import OpeningRules, open_produced
from libs.wire.record_batches.record_times import first_at
from libs.wire.record_batches.records import Record, build_batch, iter_records
from libs.wire.record_batches.timestamp_walk import TimestampWalk, walk_batch

_NOW_MS = 1_000_000
_AS_IT_CAME, _MENDED, _RECORDS, _CODEC = range(4)
_SIZE_MAX = 1 << 18
"""The most that these inputs may hold when decompressed. What a client's batch may hold takes too long for millions of them."""
_DAY_MS = 86_400_000


def check(data: bytes) -> None:
    if len(data) < 2:
        return
    kind, codec, choice, batch = data[0] & 3, (data[0] >> 2) % 5, data[1], bytearray(data[2:])
    if kind == _CODEC:
        _check_codec(codec, bytes(batch))
        return
    if kind != _AS_IT_CAME and len(batch) >= HEADER_SIZE:
        if kind == _RECORDS:
            batch[ATTRIBUTES_AT + 1] = batch[ATTRIBUTES_AT + 1] & ~CODEC_MASK | codec
            batch[HEADER_SIZE:] = compress(codec, bytes(batch[HEADER_SIZE:]))
        _mend(batch)
    _check_scan(batch)
    _check_produce(batch, choice)
    if len(batch) >= HEADER_SIZE and BatchHeader.at(batch).size == len(batch):
        _check_readers(bytes(batch), choice)


def _mend(batch: bytearray) -> None:
    header = BatchHeader.at(batch)._replace(base_offset=0, batch_length=len(batch) - LENGTH_END, magic=2)
    HEADER.pack_into(batch, 0, *header)
    HEADER.pack_into(batch, 0, *header._replace(crc=crc32c(memoryview(batch)[CRC_START:])))


def _check_scan(content: bytearray) -> None:
    sizes = [len(batch.view) for batch in iter_batches(content)]
    assert sum(sizes) <= len(content)
    try:
        latest_values(content, 0, 1 << 62)
    except BatchError:
        pass


def _check_produce(batch: bytearray, choice: int) -> None:
    limits = ProduceLimits(log_append_time=bool(choice & 1), before_max_ms=_DAY_MS if choice & 2 else TIMESTAMP_MAX)
    try:
        header = validate_produce(memoryview(batch), limits, _NOW_MS, from_coordinator=bool(choice & 4))
    except BatchError:
        return
    assert header.size == len(batch)
    assert header.record_count > 0
    rules = OpeningRules(
        compacted=bool(choice & 8),
        codec=choice >> 4 if choice >> 4 <= 4 else -1,
        log_append_time=limits.log_append_time,
        before_max_ms=limits.before_max_ms,
        after_max_ms=limits.after_max_ms,
    )
    try:
        opened = open_produced(batch, rules, _NOW_MS, wanted=WantedHeader(b"traceparent", 55))
    except BatchError:
        return
    _check_opened(bytes(batch), header, rules, opened.replacement, limits)


def _check_opened(
    batch: bytes, header: BatchHeader, rules: OpeningRules, replacement: bytearray | None, limits: ProduceLimits
) -> None:
    """What was accepted reads as records, and what replaces it holds the same ones, numbered from 0, and needs no replacement."""
    records = list(iter_records(batch))
    assert len(records) == header.record_count
    assert not rules.compacted or all(record.key is not None for record in records)
    if replacement is None:
        assert [record.offset for record in records] == list(range(len(records)))
        return
    written = validate_produce(memoryview(replacement), limits, _NOW_MS, from_coordinator=True)
    again = list(iter_records(replacement))
    if header.is_log_append_time or written.is_log_append_time:
        assert [record[:2] for record in again] == [record[:2] for record in records]
    else:
        assert [record[:4] for record in again] == [record[:4] for record in records]
    assert [record.offset for record in again] == list(range(len(again)))
    assert open_produced(replacement, rules, _NOW_MS).replacement is None


def _check_readers(batch: bytes, choice: int) -> None:
    header = BatchHeader.at(batch)
    timestamp = header.base_timestamp + choice - 128
    records: list[Record] | None
    try:
        records = list(iter_records(batch, _SIZE_MAX))
    except BatchError:
        records = None
    read_marker(batch)
    wanted_header(batch, WantedHeader(b"traceparent", 55), HEADER_SIZE)
    found = first_at(batch, header, timestamp, header.base_offset, 1_000)
    walked = walk_batch(TimestampWalk(batch, timestamp, header.base_offset, _SIZE_MAX, 1_000_000))
    if records is None or header.is_log_append_time:
        return
    in_order = [(record.offset, record.timestamp) for record in records]
    if not all(header.base_offset <= offset <= header.last_offset for offset, _ in in_order):
        return
    if not all(TIMESTAMP_MIN + _DAY_MS < at < TIMESTAMP_MAX - _DAY_MS for _, at in (*in_order, (0, timestamp))):
        return
    expected = next((place for place in in_order if place[1] >= timestamp), None)
    if header.codec == 0 and expected is not None and len(records) <= 1_000:
        assert found == expected, (found, expected)
    if walked.is_exact:
        assert (walked.offset, walked.timestamp) == (expected or (-1, -1)), (walked, expected)


def _check_codec(codec: int, content: bytes) -> None:
    try:
        whole = bytes(decompress(codec, content, _SIZE_MAX))
    except (DecompressionFailed, DecompressionTooLarge):
        return
    assert len(whole) <= _SIZE_MAX
    assert b"".join(bytes(piece) for piece in decompressed_pieces(codec, content, _SIZE_MAX)) == whole
    assert bytes(decompress(codec, compress(codec, whole), len(whole))) == whole


_RECORDS_OF_SEEDS = (
    [Record(b"k", b"v", _NOW_MS)],
    [Record(None, b"x" * 200, _NOW_MS + n, (("traceparent", b"00-" + b"a" * 52), ("h", None))) for n in range(5)],
    [Record(b"key-%d" % n, None if n % 3 else b"v" * n, _NOW_MS - n) for n in range(40)],
)


def seeds() -> Iterator[bytes]:
    for number, records in enumerate(_RECORDS_OF_SEEDS):
        for codec in range(5):
            for choice in (0, 9, 0x22, 0xF0):
                yield bytes((codec << 2 | _AS_IT_CAME, choice)) + build_batch(records, codec=codec)
            yield bytes((codec << 2 | _RECORDS, 0xF0)) + build_batch(
                records, producer_id=number, producer_epoch=0, base_sequence=7
            )
            body = bytes(build_batch(records)[HEADER_SIZE:])
            yield bytes((codec << 2 | _CODEC, 0)) + compress(codec, body)
            yield bytes((codec << 2 | _MENDED, 1)) + build_batch(records, codec=codec, log_append_time_ms=_NOW_MS)
    yield bytes((_AS_IT_CAME, 4)) + build_marker(Marker(True, 3), producer_id=7, producer_epoch=1, timestamp_ms=_NOW_MS)
    yield bytes((_MENDED, 0)) + build_keyed_batch([(b"a", b"1"), (b"b", None), (b"a", b"2")], _NOW_MS)
