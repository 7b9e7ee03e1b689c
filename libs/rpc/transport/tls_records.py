"""The frames of TLS records (RFC 8446 §5.1): where whole records end. No I/O, and nothing is decrypted."""

from typing import Final

DATA_MAX: Final = 16_384
"""The most data of one record."""
RECORD_MAX: Final = 5 + DATA_MAX + 2_048
"""The most bytes of one record in TLS 1.2. TLS 1.3 has less."""
_HEADER: Final = 5


def missing_bytes(arrived: memoryview) -> int:
    """The bytes that an incomplete record lacks, or its header. At least 1."""
    size = len(arrived)
    return _HEADER - size if size < _HEADER else _HEADER + (arrived[3] << 8 | arrived[4]) - size


def whole_records(arrived: memoryview, bytes_max: int, records_max: int) -> tuple[int, int]:
    """The end of the whole records at the beginning, and their number. At least one, if it is there, and no more than asked for.

    A record that is longer than any may be counts as whole: OpenSSL refuses it.
    """
    size, end, count = len(arrived), 0, 0
    while count < records_max and end + _HEADER <= size:
        length = _HEADER + (arrived[end + 3] << 8 | arrived[end + 4])
        if length > RECORD_MAX:
            return size, count + 1
        if end + length > size or (count and end + length > bytes_max):
            break
        end += length
        count += 1
    return end, count
