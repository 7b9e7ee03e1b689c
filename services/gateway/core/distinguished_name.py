"""The subject of a client's certificate, written as Java writes it (RFC 2253): `CN=alice,OU=clients,O=Example`. No I/O.

Kafka's principals are these names, so each escape and each abbreviation counts. Java's rules are those of
`sun.security.x509.AVA.toRFC2253String`. OpenSSL has checked the signature, and bytes are read with bounds all the same.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
"""The attributes that RFC 2253 abbreviates. Java writes any other with its number, and its value in hexadecimal."""
_VALIDITY, _SUBJECT = 3, 4
_UTC_TIME = 0x17
_SEQUENCE, _SET, _OBJECT_IDENTIFIER, _VERSION = 0x30, 0x31, 0x06, 0xA0
_TEXTS: Final = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E))
"""UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_BLANK: Final = " \r"

Element = tuple[int, memoryview, memoryview]
"""(tag, content, the whole with its tag and length) in DER."""


class Malformed(ValueError):
    """Bytes that are no certificate."""


def subject_name(certificate: bytes) -> str:
    """The name of the subject of a certificate in DER. Raises Malformed."""
    names = [_relative(_inside(each, _SET)) for each in _elements(_inside(_fields(certificate)[_SUBJECT], _SEQUENCE))]
    return ",".join(reversed(names))


def expires_at(certificate: bytes) -> float:
    """The end of its validity, in seconds since the epoch. Raises Malformed."""
    times = list(_elements(_inside(_fields(certificate)[_VALIDITY], _SEQUENCE)))
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


def _fields(certificate: bytes) -> list[Element]:
    """Serial number, signature algorithm, issuer, validity, subject, and so on."""
    to_be_signed = _inside(next(_elements(memoryview(certificate)), None), _SEQUENCE)
    fields = list(_elements(_inside(next(_elements(to_be_signed), None), _SEQUENCE)))
    if fields and fields[0][0] == _VERSION:
        del fields[0]
    if len(fields) < 5:
        raise Malformed("no subject")
    return fields


def _elements(data: memoryview) -> Iterator[Element]:
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


def _inside(element: Element | None, tag: int) -> memoryview:
    if element is None or element[0] != tag:
        raise Malformed(f"no element of type {tag:#x}")
    return element[1]


def _relative(attributes: memoryview) -> str:
    return "+".join(_attribute(_inside(each, _SEQUENCE)) for each in _elements(attributes))


def _attribute(pair: memoryview) -> str:
    parts = list(_elements(pair))
    if len(parts) != 2:
        raise Malformed("no attribute with a value")
    number = _object_identifier(_inside(parts[0], _OBJECT_IDENTIFIER))
    tag, content, whole = parts[1]
    keyword = _KEYWORDS.get(number)
    if keyword is None or tag not in _TEXTS:
        return f"{keyword or number}=#{bytes(whole).hex()}"
    return f"{keyword}={_escaped(bytes(content).decode('utf-8', 'replace'))}"


def _object_identifier(content: memoryview) -> str:
    numbers, value = [], 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    if not numbers:
        raise Malformed("no object identifier")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _escaped(text: str) -> str:
    escaped = "".join(f"\\{each}" if each in _ESCAPED else "\\00" if each == "\0" else each for each in text)
    lead = len(escaped) - len(escaped.lstrip(_BLANK))
    trail = len(escaped.rstrip(_BLANK))
    return "".join(f"\\{each}" if at < lead or at >= trail else each for at, each in enumerate(escaped))
