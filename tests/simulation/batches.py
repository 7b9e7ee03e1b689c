"""Batches for random workloads: few keys, so that records supersede each other, and tombstones among them."""

from random import Random

from libs.wire.record_batches.markers import Marker, build_marker
from libs.wire.record_batches.records import Record, build_batch

KEYS = 5


def make_batch(
    random: Random, offset: int, epoch: int, *, size: int, producer_id: int = -1, sequence: int = -1, transactional: bool = False
) -> bytearray:
    """One to four records; timestamps wander."""
    timestamp = 1000 + offset * 3 + random.randrange(60)
    count = random.choice((1, 1, 2, 4))
    records = [_make_record(random, size, timestamp + i) for i in range(count)]
    if producer_id < 0:
        return build_batch(records, base_offset=offset, leader_epoch=epoch)
    return build_batch(
        records,
        base_offset=offset,
        leader_epoch=epoch,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=transactional,
    )


def _make_record(random: Random, size: int, timestamp: int) -> Record:
    value = random.randbytes(size) if random.random() < 0.85 else None
    return Record(b"%d" % random.randrange(KEYS), value, timestamp)


def make_marker(random: Random, offset: int, epoch: int, producer_id: int) -> bytearray:
    return build_marker(
        Marker(aborts=random.random() < 0.6, coordinator_epoch=0),
        producer_id=producer_id,
        producer_epoch=0,
        timestamp_ms=1000 + offset * 3,
        base_offset=offset,
        leader_epoch=epoch,
    )
