"""Frames that are not what they should be, and requests that nobody serves: is there an answer, or the end of the connection?"""

import struct
from collections.abc import Callable

from tests.compat.differential.batches import uvarint
from tests.compat.differential.messages import encode_request, framed
from tests.compat.differential.scenario import Differs, Scenario, World, served_versions
from tests.compat.differential.systems import ASKED, CLOSED

METADATA, API_VERSIONS = 3, 18
SERVED = [
    "produce",
    "fetch",
    "list_offsets",
    "metadata",
    "find_coordinator",
    "create_topics",
    "delete_topics",
    "init_producer_id",
    "describe_configs",
    "alter_configs",
    "create_partitions",
    "incremental_alter_configs",
    "describe_cluster",
    "describe_topic_partitions",
]
KEYS = dict(zip(SERVED, (0, 1, 2, 3, 10, 19, 20, 22, 32, 33, 37, 44, 60, 75), strict=True))


def raw(api_key: int, version: int, body: bytes, *, client_id: bytes | None = b"x", tags: bytes = b"") -> bytes:
    name = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    return framed(struct.pack(">hhi", api_key, version, ASKED) + name + tags + body)


def frame(data: bytes) -> Callable[[World], bytes]:
    return lambda world: data


def topics_v1(*names: bytes, count: int | None = None) -> bytes:
    body = struct.pack(">i", len(names) if count is None else count)
    return body + b"".join(struct.pack(">h", len(name)) + name for name in names)


def topics_v9(name: bytes, tags: bytes = b"\0", *, count: bytes = b"\x02", flags: bytes = b"\0\0\0", end: bytes = b"\0") -> bytes:
    return count + uvarint(len(name) + 1) + name + tags + flags + end


def tagged(count: int) -> bytes:
    return uvarint(count) + b"".join(uvarint(1000 + i) + b"\x01x" for i in range(count))


def software(tags: bytes) -> bytes:
    return b"\x02a\x02b" + tags


def well_formed(api: str) -> bytes:
    """A request of its newest version, with all arrays empty."""
    return encode_request(api, served_versions(api)[-1], {}, correlation_id=ASKED)


def closes(difference: str) -> tuple[Differs, ...]:
    return (Differs(difference, "", penstock=CLOSED),)


FRAMES = (
    Scenario(
        "an API that is not built yet",
        "describe_delegation_token",
        frame(raw(41, 2, b"\0\0", tags=b"\0")),
        versions=[2],
        differs=closes("not-built-yet"),
    ),
    Scenario("length -1", "metadata", frame(struct.pack(">i", -1) + b"abcdefgh"), versions=[1]),
    Scenario("length above the bound", "metadata", frame(struct.pack(">i", 104_857_601) + b"abcdefgh"), versions=[1]),
    Scenario("length of the largest number", "metadata", frame(struct.pack(">i", 2**31 - 1) + b"abcdefgh"), versions=[1]),
    Scenario("no bytes", "metadata", frame(framed(b"")), versions=[1]),
    Scenario("one byte", "metadata", frame(framed(b"\0")), versions=[1]),
    Scenario("half a header", "metadata", frame(framed(b"\0\x03\0\x01\0")), versions=[1]),
    Scenario("a header without a client id", "metadata", frame(framed(struct.pack(">hhi", METADATA, 1, ASKED))), versions=[1]),
    Scenario("a header and no body", "metadata", frame(raw(METADATA, 1, b"")), versions=[1]),
    Scenario(
        "no bytes after an ApiVersions", "api_versions", frame(framed(struct.pack(">hhi", API_VERSIONS, 0, ASKED))), versions=[0]
    ),
    Scenario("an API that nobody knows", "metadata", frame(raw(1000, 0, b"")), versions=[0]),
    Scenario("a negative API", "metadata", frame(raw(-1, 0, b"")), versions=[0]),
    Scenario("an API of old", "metadata", frame(raw(4, 0, b"")), versions=[0]),
    Scenario("an API between controllers", "metadata", frame(raw(52, 0, bytes(20))), versions=[0]),
)

CLIENT_IDS = (
    Scenario("no client id", "metadata", frame(raw(METADATA, 1, topics_v1(), client_id=None)), versions=[1]),
    Scenario("an empty client id", "metadata", frame(raw(METADATA, 1, topics_v1(), client_id=b"")), versions=[1]),
    Scenario("a client id of 32 KB", "metadata", frame(raw(METADATA, 1, topics_v1(), client_id=b"x" * 32767)), versions=[1]),
    Scenario(
        "a client id with newline and colours",
        "metadata",
        frame(raw(METADATA, 1, topics_v1(), client_id=b"a\n\x1b[31mb\0")),
        versions=[1],
    ),
    Scenario(
        "a client id that is not UTF-8",
        "metadata",
        frame(raw(METADATA, 1, topics_v1(), client_id=b"\xff\xfe")),
        versions=[1],
        differs=closes("strict-text"),
    ),
    Scenario(
        "a client id longer than the frame",
        "metadata",
        frame(framed(struct.pack(">hhih", METADATA, 1, ASKED, 100) + b"x")),
        versions=[1],
    ),
    Scenario(
        "a client id of length -2",
        "metadata",
        frame(framed(struct.pack(">hhih", METADATA, 1, ASKED, -2) + topics_v1())),
        versions=[1],
        differs=closes("strict-lengths"),
    ),
)

VALUES = (
    Scenario("an array larger than what remains", "metadata", frame(raw(METADATA, 1, topics_v1(count=1_000_000))), versions=[1]),
    Scenario("an array of the largest length", "metadata", frame(raw(METADATA, 1, topics_v1(count=2**31 - 1))), versions=[1]),
    Scenario(
        "an array of length -2",
        "metadata",
        frame(raw(METADATA, 1, topics_v1(count=-2))),
        versions=[1],
        differs=closes("strict-lengths"),
    ),
    Scenario(
        "a compact array larger than what remains",
        "metadata",
        frame(raw(METADATA, 9, topics_v9(b"x", count=uvarint(1 << 30)), tags=b"\0")),
        versions=[9],
    ),
    Scenario(
        "a string longer than what remains",
        "metadata",
        frame(raw(METADATA, 1, struct.pack(">ih", 1, 500) + b"abc")),
        versions=[1],
    ),
    Scenario("a string of length -2", "metadata", frame(raw(METADATA, 1, struct.pack(">ih", 1, -2))), versions=[1]),
    Scenario("a null where none may be", "metadata", frame(raw(METADATA, 1, struct.pack(">ih", 1, -1))), versions=[1]),
    Scenario(
        "a string that is not UTF-8",
        "metadata",
        frame(raw(METADATA, 4, topics_v1(b"\xff\xfe") + b"\0")),
        versions=[4],
        differs=closes("strict-text"),
    ),
    Scenario(
        "half a surrogate",
        "metadata",
        frame(raw(METADATA, 4, topics_v1(b"\xed\xa0\x80") + b"\0")),
        versions=[4],
        differs=closes("strict-text"),
    ),
    Scenario(
        "an overlong length",
        "metadata",
        frame(raw(METADATA, 9, topics_v9(b"not-there", count=b"\x82\x00"), tags=b"\0")),
        versions=[9],
        differs=closes("strict-varints"),
    ),
    Scenario("a length of six bytes", "metadata", frame(raw(METADATA, 9, b"\xff\xff\xff\xff\xff\x01", tags=b"\0")), versions=[9]),
    Scenario(
        "bytes after the end",
        "metadata",
        frame(raw(METADATA, 4, topics_v1() + b"\0" + b"abc")),
        versions=[4],
        differs=closes("strict-end"),
    ),
    Scenario(
        "bytes after the end of an ApiVersions",
        "api_versions",
        frame(raw(API_VERSIONS, 0, b"abc")),
        versions=[0],
        differs=closes("strict-end"),
    ),
    Scenario(
        "a million and one topics",
        "list_offsets",
        frame(raw(2, 1, struct.pack(">ii", -1, 1_000_001) + bytes(6_000_006))),
        versions=[1],
        differs=closes("strict-arrays"),
    ),
    Scenario("a boolean of 7", "metadata", frame(raw(METADATA, 4, topics_v1(b"a/b") + b"\x07")), versions=[4]),
)

TAGS = (
    Scenario(
        "a tagged field that nobody knows",
        "metadata",
        frame(raw(METADATA, 9, topics_v9(b"not-there", tagged(1)), tags=tagged(2))),
        versions=[9],
    ),
    Scenario(
        "64 tagged fields", "metadata", frame(raw(METADATA, 9, topics_v9(b"not-there", tagged(64)), tags=b"\0")), versions=[9]
    ),
    Scenario(
        "65 tagged fields",
        "metadata",
        frame(raw(METADATA, 9, topics_v9(b"not-there", tagged(65)), tags=b"\0")),
        versions=[9],
        differs=closes("strict-tagged-fields"),
    ),
    Scenario(
        "65 tagged fields in a header",
        "metadata",
        frame(raw(METADATA, 9, topics_v9(b"not-there"), tags=tagged(65))),
        versions=[9],
        differs=closes("strict-tagged-fields"),
    ),
    Scenario(
        "65 tagged fields in an ApiVersions",
        "api_versions",
        frame(raw(API_VERSIONS, 3, software(tagged(65)), tags=b"\0")),
        versions=[3],
        differs=closes("strict-tagged-fields"),
    ),
    Scenario(
        "a tag count larger than what remains",
        "metadata",
        frame(raw(METADATA, 9, topics_v9(b"x", uvarint(1 << 30)), tags=b"\0")),
        versions=[9],
    ),
    Scenario(
        "a tag larger than what remains",
        "metadata",
        frame(raw(METADATA, 9, topics_v9(b"x", b"\x01\x64\x7f"), tags=b"\0")),
        versions=[9],
    ),
    Scenario(
        "a tag twice",
        "metadata",
        frame(raw(METADATA, 9, topics_v9(b"not-there", b"\x02\x64\x01x\x64\x01x"), tags=b"\0")),
        versions=[9],
    ),
    Scenario(
        "tags in falling order",
        "metadata",
        frame(raw(METADATA, 9, topics_v9(b"not-there", b"\x02\x65\x01x\x64\x01x"), tags=b"\0")),
        versions=[9],
    ),
)

VERSIONS = tuple(
    scenario
    for api in SERVED
    for scenario in (
        Scenario("one version below", api, frame(raw(KEYS[api], served_versions(api)[0] - 1, bytes(40))), versions=[0]),
        Scenario("one version above", api, frame(raw(KEYS[api], served_versions(api)[-1] + 1, bytes(40))), versions=[0]),
        Scenario("version -1", api, frame(raw(KEYS[api], -1, bytes(40))), versions=[0]),
        Scenario("a frame cut short", api, lambda w, api=api: framed(well_formed(api)[4:-1]), versions=[0]),
        Scenario(
            "a byte too many",
            api,
            lambda w, api=api: framed(well_formed(api)[4:] + b"\0"),
            versions=[served_versions(api)[-1]],
            differs=closes("strict-end"),
        ),
    )
)

SCENARIOS = FRAMES + CLIENT_IDS + VALUES + TAGS + VERSIONS
