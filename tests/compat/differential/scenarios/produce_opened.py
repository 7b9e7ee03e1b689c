"""Produce where both systems look at every record: `record.validation=full`, and codecs that the topic does not keep.

What one batch answers there is asked again for each scenario of `produce.py` that differs by default, and for records that only
somebody who looks can tell from sound ones.
"""

import gzip
from dataclasses import replace

import lz4.frame
import snappy
import zstandard

from tests.compat.differential.batches import GZIP, LZ4, NOW_MS, SNAPPY, ZSTD, batch, record, varint
from tests.compat.differential.random_records import random_batches
from tests.compat.differential.scenario import Differs, Scenario, Step
from tests.compat.differential.scenarios import produce

API = "produce"
ANSWER, HOUR_MS, UNOPENED = produce.ANSWER, produce.HOUR_MS, produce.UNOPENED
FULL = {"record.validation": "full"}
UNREADABLE, STRICTER = "produce-unreadable-records", "produce-strict-records"

one = produce.one


def unreadable(error: int, *, before: bool = False) -> tuple[Differs, ...]:
    """`before`: the refusal comes before the log is looked at, and says nothing of it."""
    rows = (Differs(UNREADABLE, f"{ANSWER}.error_code", -1, error),)
    return (*rows, Differs(UNREADABLE, f"{ANSWER}.log_start_offset")) if before else rows


TOO_STRICT = (Differs(STRICTER, f"{ANSWER}.error_code", 0, 87), Differs(STRICTER, f"{ANSWER}.base_offset", penstock=-1))

RENUMBERED = (
    Differs("produce-renumbered", f"{ANSWER}.error_code", -1, 0),
    Differs("produce-renumbered", f"{ANSWER}.base_offset", -1),
)

UNREADABLE_IN_KAFKA = {
    "records that are no records": unreadable(87),
    "gzip that is none": unreadable(2, before=True),
    "snappy that is none": unreadable(2, before=True),
    "lz4 that is none": unreadable(2, before=True),
    "zstd that is none": unreadable(2, before=True),
}


def opened(scenario: Scenario) -> Scenario:
    others = tuple(row for row in scenario.differs if row.id != UNOPENED)
    differs = (*others, *UNREADABLE_IN_KAFKA.get(scenario.name, ()))
    return replace(scenario, name=f"{scenario.name}, opened", own_configs=FULL, differs=differs)


def codecs(content: bytes) -> dict[int, bytes]:
    return {
        GZIP: gzip.compress(content, mtime=0),
        SNAPPY: b"\x82SNAPPY\0\0\0\0\1\0\0\0\1" + framed(snappy.compress(content)),
        LZ4: lz4.frame.compress(content, block_linked=False),
        ZSTD: zstandard.ZstdCompressor().compress(content),
    }


def framed(block: bytes) -> bytes:
    return len(block).to_bytes(4, "big") + block


def field(length: int, content: bytes = b"") -> bytes:
    return varint(length) + content


def raw_record(*parts: bytes) -> bytes:
    """The parts after the attributes."""
    body = b"\0" + b"".join(parts)
    return varint(len(body)) + body


ZERO = varint(0)
SOUND = (ZERO, ZERO, field(1, b"k"), field(1, b"v"))
CUT_SHORT = raw_record(*SOUND, ZERO, b"x")[:-1]
THREE = (b"a", b"b", b"c")
AHEAD = record(b"v", offset_delta=1, timestamp_delta=2 * HOUR_MS)

SCENARIOS = (
    *(opened(scenario) for scenario in produce.SCENARIOS if any(row.id == UNOPENED for row in scenario.differs)),
    *(
        opened(scenario)
        for scenario in produce.SCENARIOS
        if scenario.name
        in (
            *(
                "one batch, acks all",
                "one batch, acks 0",
                "keys and an empty value",
                "a wrong CRC",
                "two batches",
                "a base offset",
            ),
            *("a batch above max.message.bytes", "a batch above segment.bytes", "a negative count", "a control batch", "gzip"),
            *("no time", "a topic with LogAppendTime", "a claim of LogAppendTime", "a codec that nobody knows"),
            *("a claim of LogAppendTime where it is so", "the same batch again", "a gap in the sequence"),
        )
    ),
    Scenario(
        "several records ahead of time and one that is not",
        API,
        one(batch(THREE, records=record(b"a", timestamp_delta=2 * HOUR_MS) + AHEAD + record(b"c", offset_delta=2))),
        partitions=1,
        own_configs=FULL,
    ),
    Scenario(
        "several records too long ago",
        API,
        one(
            batch(
                THREE,
                records=record(b"a") + record(b"b", offset_delta=1, timestamp_delta=-2 * HOUR_MS) + record(b"c", offset_delta=2),
            )
        ),
        partitions=1,
        configs={"message.timestamp.before.max.ms": "3600000"},
        own_configs=FULL,
    ),
    Scenario(
        "a newest time far ahead, over records that are not",
        API,
        one(batch(max_timestamp=NOW_MS + 2 * HOUR_MS)),
        partitions=1,
        own_configs=FULL,
    ),
    Scenario(
        "records without a time among others",
        API,
        one(
            batch(
                THREE,
                timestamp=-1,
                max_timestamp=NOW_MS,
                records=record(b"a") + record(b"b", offset_delta=1, timestamp_delta=NOW_MS + 1) + record(b"c", offset_delta=2),
            )
        ),
        partitions=1,
        own_configs=FULL,
    ),
    Scenario(
        "offset deltas out of order",
        API,
        one(batch(THREE, records=record(b"a", offset_delta=2) + record(b"b", offset_delta=2) + record(b"c"))),
        partitions=1,
        own_configs=FULL,
    ),
    *(
        Scenario(f"{name}, opened", API, one(batch(records=raw_record(*parts))), partitions=1, own_configs=FULL, differs=differs)
        for name, parts, differs in (
            ("a sound record", (*SOUND, ZERO), ()),
            ("a header", (*SOUND, varint(1), field(1, b"h"), field(-1)), ()),
            ("a negative number of headers", (*SOUND, varint(-1)), ()),
            ("a header without a name", (*SOUND, varint(1), field(-1), field(-1)), ()),
            ("a header that is longer than the record", (*SOUND, varint(1), field(100), field(-1)), ()),
            ("a key that is longer than the record", (ZERO, ZERO, field(100, b"k"), field(-1), ZERO), ()),
            ("a value that is longer than the record", (ZERO, ZERO, field(1, b"k"), field(100), ZERO), ()),
            ("a byte too many in a record", (*SOUND, ZERO, b"x"), ()),
        )
    ),
    *(
        Scenario(
            f"codec {codec}, {name}",
            API,
            one(batch(THREE, attributes=codec, records=data)),
            partitions=1,
            own_configs=FULL,
            differs=differs,
        )
        for name, content, differs in (
            ("sound", record(b"a") + record(b"b", offset_delta=1) + record(b"c", offset_delta=2), ()),
            ("ahead of time", record(b"a") + AHEAD + record(b"c", offset_delta=2), ()),
            ("numbered out of order", record(b"a") + record(b"b", offset_delta=7) + record(b"c", offset_delta=2), RENUMBERED),
            ("one record too few", record(b"a") + record(b"b", offset_delta=1), ()),
        )
        for codec, data in codecs(content).items()
    ),
    Scenario(
        "a key of length -2",
        API,
        one(batch(records=raw_record(ZERO, ZERO, field(-2), field(1, b"v"), ZERO))),
        partitions=1,
        own_configs=FULL,
        differs=TOO_STRICT,
    ),
    Scenario(
        "compressed, a record that ends before its length says",
        API,
        one(batch(attributes=GZIP, records=gzip.compress(CUT_SHORT, mtime=0))),
        partitions=1,
        own_configs=FULL,
        differs=TOO_STRICT,
    ),
    *(
        Scenario(
            f"random records, {name}",
            API,
            one(batch(crc=1)),
            versions=[9],
            before=lambda world, made=made: [Step(API, 9, produce.produce(world, (0, each))) for each in made],
            partitions=1,
            own_configs=FULL,
            differs=(
                Differs(STRICTER, f"*.{ANSWER}.error_code", 0, 87),
                Differs(STRICTER, f"*.{ANSWER}.base_offset"),  # of all that follow
                *differs,
            ),
        )
        for name, made, differs in (
            ("uncompressed", random_batches(250), ()),
            (
                "compressed",
                random_batches(250, ZSTD, zstandard.ZstdCompressor().compress),
                (
                    Differs("produce-renumbered", f"*.{ANSWER}.error_code", -1, 0),
                    Differs(UNREADABLE, f"*.{ANSWER}.error_code", -1, 87),
                ),
            ),
        )
    ),
    # compacted topics: the same in both
    *(
        Scenario(f"compacted, {name}", API, one(made), partitions=1, configs={"cleanup.policy": "compact"}, differs=differs)
        for name, made, differs in (
            ("with keys", batch(THREE, keys=THREE), ()),
            ("an empty key", batch((b"v",), keys=(b"",)), ()),
            ("a key without a value", batch(records=record(None, key=b"k")), ()),
            ("some without a key", batch(THREE, keys=(b"a", None, None)), ()),
            ("without a key and ahead of time", batch((b"a", b"b"), records=record(b"a") + AHEAD), ()),
            *(
                (f"codec {codec}, some without a key", batch((b"a", b"b"), attributes=codec, records=data), ())
                for codec, data in codecs(record(b"a", key=b"k") + record(b"b", offset_delta=1)).items()
            ),
            ("records that are no records", batch(records=b"\xff" * 40), unreadable(87)),
        )
    ),
    Scenario(
        "compacted, and deleted by age, without a key",
        API,
        one(batch()),
        partitions=1,
        configs={"cleanup.policy": "compact,delete"},
    ),
    # compression.type: the same in both
    *(
        Scenario(f"stored as {name}", API, one(batch(THREE)), partitions=1, configs={"compression.type": name})
        for name in ("uncompressed", "gzip", "snappy", "lz4", "zstd")
    ),
    Scenario(
        "stored as zstd, ahead of time",
        API,
        one(batch(THREE, records=record(b"a") + AHEAD + record(b"c", offset_delta=2))),
        partitions=1,
        configs={"compression.type": "zstd"},
    ),
    Scenario(
        "too large once it is stored uncompressed",
        API,
        one(batch(attributes=GZIP, records=gzip.compress(record(bytes(20_000)), mtime=0))),
        partitions=1,
        configs={"compression.type": "uncompressed", "max.message.bytes": "10000"},
    ),
    Scenario(
        "a batch above segment.bytes that is stored smaller",
        API,
        one(batch((b"x" * 1_100_000,))),
        partitions=1,
        configs={"max.message.bytes": "2000000", "segment.bytes": "1048576", "compression.type": "gzip"},
    ),
)
