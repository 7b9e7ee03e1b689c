"""Where whole TLS records end, beside a model that lists every record of the stream.

Bytes 0 and 1: the bytes asked for, and the records. The rest is the stream.
"""

from collections.abc import Iterator

from libs.rpc.transport.tls_records import DATA_MAX, RECORD_MAX, whole_records

_BYTES_MAX = (0, 1, 5, 300, DATA_MAX, RECORD_MAX, 1 << 20)


def check(data: bytes) -> None:
    if len(data) < 2:
        return
    bytes_max, records_max, stream = _BYTES_MAX[data[0] % len(_BYTES_MAX)], data[1], data[2:]
    arrived = memoryview(stream)
    ends, is_too_long = _ends_of(stream)
    found = whole_records(arrived, bytes_max, records_max)
    assert found == _model(ends, is_too_long, bytes_max, records_max), (found, ends)
    # A stream that asks again reads each record once, and stops where the next is not whole.
    at = count = 0
    while records_max and at < len(stream):
        end, some = whole_records(arrived[at:], bytes_max, records_max)
        if not some:
            break
        at, count = at + end, count + some
    if records_max:
        assert (at, count) == (ends[-1] if ends else 0, len(ends)), (at, count, ends)


def _ends_of(stream: bytes) -> tuple[list[int], bool]:
    """The end of each whole record, and whether the last one says that it is longer than any may be: it has all that arrived."""
    ends: list[int] = []
    begin = 0
    while begin + 5 <= len(stream):
        end = begin + 5 + int.from_bytes(stream[begin + 3 : begin + 5], "big")
        if end - begin > RECORD_MAX:
            return [*ends, len(stream)], True
        if end > len(stream):
            break
        ends.append(end)
        begin = end
    return ends, False


def _model(ends: list[int], is_too_long: bool, bytes_max: int, records_max: int) -> tuple[int, int]:
    taken = [0]
    for number, end in enumerate(ends[:records_max]):
        is_last = number == len(ends) - 1
        if len(taken) > 1 and end > bytes_max and not (is_too_long and is_last):
            break
        taken.append(end)
    return taken[-1], len(taken) - 1


def _record(size: int) -> bytes:
    return b"\x17\x03\x03" + size.to_bytes(2, "big") + bytes(size)


def seeds() -> Iterator[bytes]:
    streams = (
        _record(0),
        _record(10) * 3,
        _record(10) * 3 + _record(10)[:7],
        _record(1) * 200,
        _record(DATA_MAX)[:9],
        _record(295) + _record(300),
        _record(10) + b"\x17\x03\x03\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n",
    )
    for number, stream in enumerate(streams):
        for records_max in (0, 1, 2, 255):
            yield bytes((number, records_max)) + stream
