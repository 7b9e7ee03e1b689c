"""Batches with a record whose time no 64 bits hold. A header alone does not tell, and records are added up as Java does."""

from libs.wire.record_batches.batch_layout import HEADER
from libs.wire.record_batches.batches import BatchHeader, set_max_timestamp
from libs.wire.record_batches.records import Record, build_batch

START = 1_700_000_000_000

Pairs = tuple[tuple[bytes | None, bytes | None], ...]


def out_of_bounds(
    base_timestamp: int, delta: int, codec: int = 0, base_offset: int = 10, pairs: Pairs = ((None, b"x"),) * 3
) -> bytes:
    """Three records, the second of which is later by `delta` than the others. The header claims START."""
    records = [Record(key, value, at) for (key, value), at in zip(pairs, (0, delta, 0), strict=True)]
    batch = build_batch(records, base_offset=base_offset, codec=codec)
    HEADER.pack_into(batch, 0, *BatchHeader.at(batch)._replace(base_timestamp=base_timestamp))
    set_max_timestamp(memoryview(batch), START)
    return bytes(batch)
