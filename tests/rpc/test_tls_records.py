"""Where whole TLS records end."""

import pytest

from libs.rpc.transport.tls_records import RECORD_MAX, whole_records


def record(size: int) -> bytes:
    return b"\x17\x03\x03" + size.to_bytes(2) + bytes(size)


@pytest.mark.parametrize(
    ("arrived", "bytes_max", "records_max", "found"),
    [
        (b"", 100, 9, (0, 0)),
        (record(10)[:4], 100, 9, (0, 0)),
        (record(10)[:14], 100, 9, (0, 0)),
        (record(0), 100, 9, (5, 1)),
        (record(10) * 3, 100, 9, (45, 3)),
        (record(10) * 3 + record(10)[:7], 100, 9, (45, 3)),
        (record(10) * 3, 100, 2, (30, 2)),
        (record(10) * 3, 44, 9, (30, 2)),
        (record(10) * 3, 1, 9, (15, 1)),
        (record(10) * 3, 100, 0, (0, 0)),
        (record(10) + b"\x17\x03\x03\xff\xff", 100, 9, (20, 2)),
    ],
)
def test_whole_records(arrived: bytes, bytes_max: int, records_max: int, found: tuple[int, int]) -> None:
    assert whole_records(memoryview(arrived), bytes_max, records_max) == found


def test_the_largest_record_is_whole_when_its_last_byte_is_there() -> None:
    largest = record(RECORD_MAX - 5)
    assert whole_records(memoryview(largest)[:-1], 1, 9) == (0, 0)
    assert whole_records(memoryview(largest), 1, 9) == (RECORD_MAX, 1)
