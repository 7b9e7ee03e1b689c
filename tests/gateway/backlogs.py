"""Backlogs: long logs of a fake storage node, and a consumer's view of an answer."""

from libs.wire.record_batches.records import Record, build_batch
from services.gateway.core.sequential_reads import HEADER
from tests.gateway.conftest import Rig

BATCH = 1000


def batch_at(offset: int, records: int = 2) -> bytes:
    value = bytes([offset % 251]) * (BATCH // records)
    return bytes(build_batch([Record(key=None, value=value) for _ in range(records)], base_offset=offset))


def fill(rig: Rig, batches: int) -> list[bytes]:
    """Writes a log of so many batches of two records to node 1, and returns them."""
    made = [batch_at(2 * number) for number in range(batches)]
    path = rig.directory / "00000000000000000000.log"
    path.write_bytes(b"".join(made))
    rig.nodes[1].file = path
    rig.nodes[1].backlog = {2 * number: sum(map(len, made[:number])) for number in range(batches)}
    return made


def whole(records: bytes) -> tuple[bytes, int]:
    """The whole batches of an answer, and the offset after them, as a consumer keeps them."""
    position, offset = 0, -1
    while position + 61 <= len(records):
        base, length, delta = HEADER.unpack_from(records, position)
        if position + 12 + length > len(records):
            break
        position, offset = position + 12 + length, base + delta + 1
    return records[:position], offset
