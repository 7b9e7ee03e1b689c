"""Certificates in DER: their fields, and when they expire. No I/O.

OpenSSL has checked what is read here, and bytes are read with bounds all the same.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

SEQUENCE: Final = 0x30
_VALIDITY: Final = 3
_VERSION: Final = 0xA0
_UTC_TIME: Final = 0x17

Element = tuple[int, memoryview, memoryview]
"""(tag, content, the whole with its tag and length) in DER."""


class Malformed(ValueError):
    """Bytes that are no certificate."""


def expires_at(certificate: bytes) -> float:
    """The end of its validity, in seconds since the epoch. Raises Malformed."""
    times = list(elements(inside(fields_of(certificate)[_VALIDITY], SEQUENCE)))
    if len(times) != 2:
        raise Malformed("no validity")
    tag, content, _ = times[1]
    text = bytes(content).decode("ascii", "replace")
    if tag == _UTC_TIME:  # RFC 5280 §4.1.2.5.1: two digits of the year, from 1950 on
        text = ("19" if text >= "50" else "20") + text
    try:
        return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError as error:
        raise Malformed("no time") from error


def fields_of(certificate: bytes) -> list[Element]:
    """Serial number, signature algorithm, issuer, validity, subject, and so on."""
    to_be_signed = inside(next(elements(memoryview(certificate)), None), SEQUENCE)
    fields = list(elements(inside(next(elements(to_be_signed), None), SEQUENCE)))
    if fields and fields[0][0] == _VERSION:
        del fields[0]
    if len(fields) < 5:
        raise Malformed("no subject")
    return fields


def elements(data: memoryview) -> Iterator[Element]:
    """The elements that follow one another."""
    at = 0
    while at < len(data):
        if len(data) - at < 2:
            raise Malformed("half an element")
        tag, length, start = data[at], data[at + 1], at + 2
        if length & 0x80:
            size = length & 0x7F
            if not 1 <= size <= 4 or len(data) - start < size:
                raise Malformed("no length")
            length, start = int.from_bytes(data[start : start + size], "big"), start + size
        if length > len(data) - start:
            raise Malformed("a length beyond the end")
        yield tag, data[start : start + length], data[at : start + length]
        at = start + length


def inside(element: Element | None, tag: int) -> memoryview:
    if element is None or element[0] != tag:
        raise Malformed(f"no element of type {tag:#x}")
    return element[1]
