"""The subject of a client's certificate, written as Java writes it (RFC 2253): `CN=alice,OU=clients,O=Example`. No I/O.

Kafka's principals are these names, so each escape and each abbreviation counts. Java's rules are those of
`sun.security.x509.AVA.toRFC2253String`. OpenSSL has checked the signature, and bytes are read with bounds all the same.
"""

from typing import Final

from libs.der import SEQUENCE, Malformed, elements, fields_of, inside

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
_SUBJECT: Final = 4
_SET, _OBJECT_IDENTIFIER = 0x31, 0x06
_TEXTS: Final = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E))
"""UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_BLANK: Final = " \r"


def subject_name(certificate: bytes) -> str:
    """The name of the subject of a certificate in DER. Raises Malformed."""
    names = [_relative(inside(each, _SET)) for each in elements(inside(fields_of(certificate)[_SUBJECT], SEQUENCE))]
    return ",".join(reversed(names))


def _relative(attributes: memoryview) -> str:
    return "+".join(_attribute(inside(each, SEQUENCE)) for each in elements(attributes))


def _attribute(pair: memoryview) -> str:
    parts = list(elements(pair))
    if len(parts) != 2:
        raise Malformed("no attribute with a value")
    number = _object_identifier(inside(parts[0], _OBJECT_IDENTIFIER))
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
