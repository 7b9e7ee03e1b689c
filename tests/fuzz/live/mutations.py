"""Requests that are nearly right: fields with other values, then frames with other bytes. The same seed makes the same ones.

Some are left as they are, so that a sequence gets somewhere before it goes wrong.
"""

import struct
from copy import deepcopy
from random import Random
from typing import Any, Final

from libs.wire.api_keys import ApiKey, is_flexible
from libs.wire.headers import RequestHeader, write_request_header
from libs.wire.primitives import Writer
from libs.wire.schema import Field
from libs.wire.served_versions import SERVED_VERSIONS
from tests.dev.bounds import schema_codec
from tests.dev.bounds.connection import message_of
from tests.dev.bounds.requests import NODE_ID, Known, bounds_of, plausible
from tests.dev.bounds.schema_codec import INTEGERS, Value, fields_of, root_of

APIS: Final = tuple(SERVED_VERSIONS)
LONGEST: Final = 8
_TEXTS: Final = (
    "",
    "numbers",
    "a" * 249,
    "a" * 250,
    "x" * 32_767,
    "..",
    "a/b",
    "\0",
    "ü" * 80,
    "\U0001f600",
    "%s%n",
    "__consumer_offsets",
)
_DATA: Final = (b"", b"\0", b"\xff" * 40, bytes(61), bytes(range(256)) * 4, b"\0\3" + b"\x7f\xff\xff\xff")
_COUNTS: Final = (0, 2, 3, 30)
_PLACES_MAX: Final = 2_000
"""Fields of a request after which it grows no more."""
_LENGTHS: Final = (-1, -2, 0, 1, 0x7F, 0x7FFF_FFFF, -0x8000_0000)


def frame(api_key: ApiKey, version: int, body: bytes, correlation_id: int) -> bytes:
    writer = Writer()
    write_request_header(writer, RequestHeader(api_key, version, correlation_id, "fuzz"))
    content = bytes(writer.buffer) + body
    return struct.pack(">i", len(content)) + content


def body_of(api_key: ApiKey, version: int, request: Value) -> bytes:
    return schema_codec.write(message_of(api_key, "request", version), request, flexible=is_flexible(api_key, version))


def sequence(random: Random, known: Known) -> list[bytes]:
    """The frames of one connection."""
    return [mutated_frame(random, known, number) for number in range(1, random.randint(2, LONGEST + 1))]


def mutated_frame(random: Random, known: Known, number: int) -> bytes:
    api_key = random.choice(APIS)
    first, last = SERVED_VERSIONS[api_key]
    version = random.randint(first, last)
    request = plausible(api_key, version, known)
    for _ in range(random.choice((0, 1, 1, 2, 4))):
        request = _changed(random, api_key, version, request)
    if api_key is ApiKey.UNREGISTER_BROKER and request.get("broker_id") == NODE_ID:
        request["broker_id"] = NODE_ID + 1
    sent = frame(api_key, version, body_of(api_key, version, request), number)
    return _damaged(random, sent) if random.random() < 0.4 else sent


def _changed(random: Random, api_key: ApiKey, version: int, request: Value) -> Value:
    """Another value in one field of the message, wherever it is."""
    message = message_of(api_key, "request", version)
    places: list[tuple[Any, Any, Field]] = []

    def visit(struct_name: str, value: Value) -> None:
        for field in fields_of(message, struct_name):
            if field.name not in value:
                continue
            places.append((value, field.name, field))
            inner = value[field.name]
            for each in inner if isinstance(inner, list) else [inner]:
                if field.struct and each is not None:
                    visit(field.kind, each)

    changed = deepcopy(request)
    visit(root_of(message), changed)
    if 0 < len(places) <= _PLACES_MAX:
        holder, name, field = random.choice(places)
        holder[name] = _another(random, field, holder[name])
    return changed


def _another(random: Random, field: Field, value: Any) -> Any:
    if field.array:
        if field.nullable_from is not None and random.random() < 0.3:
            return None
        items = value or []
        return (items or ([] if field.struct else [_scalar(random, field)])) * random.choice(_COUNTS)
    if field.struct:
        return None if field.nullable_from is not None else value
    return _scalar(random, field)


def _scalar(random: Random, field: Field) -> Any:
    if field.nullable_from is not None and not field.array and random.random() < 0.3:
        return None
    if field.kind in INTEGERS:
        return random.choice(bounds_of(field.kind))
    if field.kind == "bool":
        return random.random() < 0.5
    if field.kind == "string":
        return random.choice(_TEXTS)
    if field.kind == "float64":
        return random.choice((0.0, -1.0, 1e308, float("nan"), float("inf")))
    if field.kind == "uuid":
        return random.choice((bytes(16), b"\xff" * 16, random.randbytes(16)))
    return random.choice(_DATA)


def _damaged(random: Random, sent: bytes) -> bytes:
    content = bytearray(sent[4:])
    match random.randrange(8):
        case 0:
            return sent[: random.randrange(len(sent))]
        case 1:
            del content[random.randrange(len(content)) :]
        case 2:
            content += random.randbytes(random.randint(1, 40))
        case 3:
            at = random.randrange(len(content))
            content[at] ^= 1 << random.randrange(8)
        case 4 if len(content) > 14:
            at = random.randrange(8, len(content) - 3)
            content[at : at + 4] = struct.pack(">i", random.choice(_LENGTHS))
        case 5:
            content[2:4] = struct.pack(">h", random.choice((-1, 0, 1, 3, 12, 99, 32_767)))
        case 6:
            content[:2] = struct.pack(">h", random.choice((*map(int, ApiKey), -1, 1_000)))
        case _:
            return struct.pack(">i", len(content) + random.choice((-1, 1, 50, 1 << 20, -(1 << 30)))) + bytes(content)
    return struct.pack(">i", len(content)) + bytes(content)
