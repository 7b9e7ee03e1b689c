"""Produce: what is stored, and what each bad batch answers."""

import gzip

from tests.compat.differential.batches import (
    CONTROL,
    GZIP,
    LOG_APPEND_TIME,
    LZ4,
    NOW_MS,
    SNAPPY,
    TRANSACTIONAL,
    ZSTD,
    batch,
    record,
)
from tests.compat.differential.scenario import Differs, Fields, Scenario, Step, World
from tests.compat.differential.systems import STUCK

API = "produce"
HOUR_MS = 3_600_000


def produce(
    world: World, *partitions: tuple[int, bytes | None], acks: int = -1, topic: str | None = None, **more: object
) -> Fields:
    data = [{"index": index, "records": records} for index, records in partitions]
    return {"acks": acks, "timeout": 5000, "topic_data": [{**world.names(topic=topic), "partition_data": data}], **more}


def one(records: bytes | None, **more: object):
    """One batch for partition 0 of the scenario's topic."""
    return lambda world: produce(world, (0, records), **more)


def stored(records: bytes):
    """The same, before the request that matters."""
    return lambda world: [Step(API, 9, produce(world, (0, records)))]


ANSWER = "responses.*.partition_responses.0"
UNOPENED, CLAIMS = "produce-records-unopened", "produce-log-append-time-claims"


def stored_unopened(kafkas_error: int) -> tuple[Differs, ...]:
    return Differs(UNOPENED, f"{ANSWER}.error_code", kafkas_error, 0), Differs(UNOPENED, f"{ANSWER}.base_offset", -1)


SCENARIOS = (
    Scenario("one batch, acks all", API, one(batch((b"a", b"b"))), partitions=1),
    Scenario("one batch, acks 1", API, one(batch(), acks=1), partitions=1),
    Scenario("one batch, acks 0", API, one(batch(), acks=0), partitions=1),
    Scenario("keys and an empty value", API, one(batch((b"", b"x"), keys=(b"k", None))), partitions=1),
    Scenario("acks 0 for a topic that is not there", API, one(batch(), acks=0, topic="not-there")),
    Scenario("acks 7", API, one(batch(), acks=7), partitions=1),
    Scenario("acks -2", API, one(batch(), acks=-2), partitions=1),
    Scenario("a topic that is not there", API, one(batch(), topic="not-there")),
    Scenario("a topic without a name", API, one(batch(), topic="")),
    Scenario("a topic with an illegal name", API, one(batch(), topic="a/b")),
    Scenario("an internal topic", API, one(batch(), topic="__transaction_state")),
    Scenario("a partition that is not there", API, lambda w: produce(w, (5, batch())), partitions=1),
    Scenario("a negative partition", API, lambda w: produce(w, (-1, batch())), partitions=1),
    Scenario("no topics", API, lambda w: {"acks": -1, "timeout": 1000, "topic_data": []}),
    Scenario("no partitions", API, lambda w: produce(w), partitions=1),
    Scenario("a good and a bad partition", API, lambda w: produce(w, (0, batch()), (1, batch(crc=1))), partitions=2),
    Scenario(
        "a partition twice",
        API,
        lambda w: produce(w, (0, batch()), (0, batch((b"other",)))),
        partitions=1,
        differs=(Differs("produce-repeated-partition", "responses.*.partition_responses"),),
    ),
    Scenario(
        "a topic twice",
        API,
        lambda w: {**produce(w), "topic_data": 2 * produce(w, (0, batch()))["topic_data"]},
        partitions=1,
        differs=(Differs("produce-repeated-partition", "responses"),),
    ),
    Scenario(
        "a topic twice, with a partition each",
        API,
        lambda w: {**produce(w), "topic_data": produce(w, (0, batch()))["topic_data"] + produce(w, (1, batch()))["topic_data"]},
        partitions=2,
        differs=(Differs("produce-repeated-topic", "responses"),),
    ),
    # rows 19-21: what the bytes say about themselves
    Scenario("a wrong CRC", API, one(batch(crc=1)), partitions=1),
    Scenario(
        "no batch but a null",
        API,
        one(None),
        partitions=1,
        versions=[3, 13],
        timeout_s=2.0,
        differs=(Differs("produce-null-records", "", kafka=STUCK),),
    ),
    Scenario("no batch but no bytes", API, one(b""), partitions=1),
    Scenario("two batches", API, one(batch() + batch()), partitions=1),
    Scenario("half a header", API, one(batch()[:30]), partitions=1),
    Scenario("half a batch", API, one(batch((b"x" * 100,))[:120]), partitions=1),
    Scenario(
        "bytes after the batch",
        API,
        one(batch() + b"abc"),
        partitions=1,
        differs=(
            Differs("produce-bytes-after-batch", f"{ANSWER}.error_code", 0, 87),
            Differs("produce-bytes-after-batch", f"{ANSWER}.base_offset|log_start_offset"),
        ),
    ),
    Scenario("a length below a header", API, one(batch(length_off_by=-30)), partitions=1),
    Scenario("magic 0", API, one(batch(magic=0)), partitions=1),
    Scenario("magic 1", API, one(batch(magic=1)), partitions=1),
    Scenario("magic 3", API, one(batch(magic=3)), partitions=1),
    Scenario(
        "a batch above max.message.bytes", API, one(batch((b"x" * 2000,))), partitions=1, configs={"max.message.bytes": "1000"}
    ),
    Scenario(
        "a batch above segment.bytes",
        API,
        one(batch((b"x" * 1_100_000,))),
        partitions=1,
        configs={"max.message.bytes": "2000000", "segment.bytes": "1048576"},
    ),
    # rows 22-25: what the header says about the records
    Scenario("more records than the offsets have room for", API, one(batch(count=2)), partitions=1),
    Scenario("a negative count", API, one(batch(count=-1)), partitions=1),
    Scenario("no records", API, one(batch(count=0, records=b"", last_offset_delta=-1)), partitions=1),
    Scenario("an empty batch as compaction leaves it", API, one(batch(count=0, records=b"")), partitions=1),
    Scenario("a base offset", API, one(batch(base_offset=5)), partitions=1),
    Scenario("a control batch", API, one(batch(attributes=CONTROL)), partitions=1),
    Scenario(
        "a control batch of a transaction",
        API,
        one(batch(attributes=CONTROL | TRANSACTIONAL, producer=(9000, 0, 0))),
        partitions=1,
    ),
    Scenario("a producer id with a negative sequence", API, one(batch(producer=(9000, 0, -1))), partitions=1),
    Scenario("a producer id with a negative epoch", API, one(batch(producer=(9000, -1, 0))), partitions=1),
    Scenario(
        "a header count larger than what remains",
        API,
        one(batch(records=record(b"v", header_count=100))),
        partitions=1,
        differs=stored_unopened(87),
    ),
    Scenario(
        "fewer records than counted",
        API,
        one(batch((b"a", b"b"), records=record(b"a"))),
        partitions=1,
        differs=stored_unopened(87),
    ),
    Scenario("records that are no records", API, one(batch(records=b"\xff" * 40)), partitions=1, differs=stored_unopened(-1)),
    Scenario(
        "bytes after the last record", API, one(batch(records=record(b"a") + b"abc")), partitions=1, differs=stored_unopened(87)
    ),
    # row 27: times
    Scenario(
        "a time far ahead",
        API,
        one(batch(timestamp=NOW_MS + 2 * HOUR_MS)),
        partitions=1,
        differs=(Differs(UNOPENED, f"{ANSWER}.record_errors", penstock=[]),),
    ),
    Scenario(
        "a time too long ago",
        API,
        one(batch(timestamp=NOW_MS - 2 * HOUR_MS)),
        partitions=1,
        configs={"message.timestamp.before.max.ms": "3600000"},
        differs=(Differs(UNOPENED, f"{ANSWER}.record_errors", penstock=[]),),
    ),
    Scenario(
        "a record's time far ahead, under a newest time that says otherwise",
        API,
        one(batch(records=record(b"v", timestamp_delta=2 * HOUR_MS))),
        partitions=1,
        differs=(*stored_unopened(32), Differs(UNOPENED, f"{ANSWER}.error_message|record_errors")),
    ),
    Scenario("no time", API, one(batch(timestamp=-1)), partitions=1),
    Scenario(
        "a claim of LogAppendTime",
        API,
        one(batch(attributes=LOG_APPEND_TIME)),
        partitions=1,
        differs=(Differs(CLAIMS, f"{ANSWER}.error_code", 0, 32), Differs(CLAIMS, f"{ANSWER}.base_offset")),
    ),
    Scenario(
        "a claim of LogAppendTime where it is so",
        API,
        one(batch(attributes=LOG_APPEND_TIME)),
        partitions=1,
        configs={"message.timestamp.type": "LogAppendTime"},
        differs=(
            Differs(CLAIMS, f"{ANSWER}.error_code", 32, 0),
            Differs(CLAIMS, f"{ANSWER}.base_offset|log_append_time_ms|error_message|record_errors"),
        ),
    ),
    Scenario("a topic with LogAppendTime", API, one(batch()), partitions=1, configs={"message.timestamp.type": "LogAppendTime"}),
    # rows 28-30: compression
    Scenario("gzip", API, one(batch(attributes=GZIP, records=gzip.compress(record(b"value"), mtime=0))), partitions=1),
    Scenario(
        "gzip that is none",
        API,
        one(batch(attributes=GZIP, records=b"not gzip at all")),
        partitions=1,
        differs=stored_unopened(-1),
    ),
    Scenario(
        "snappy that is none",
        API,
        one(batch(attributes=SNAPPY, records=b"not snappy at all")),
        partitions=1,
        differs=stored_unopened(-1),
    ),
    Scenario(
        "lz4 that is none", API, one(batch(attributes=LZ4, records=b"not lz4 at all")), partitions=1, differs=stored_unopened(-1)
    ),
    Scenario(
        "zstd that is none",
        API,
        one(batch(attributes=ZSTD, records=b"not zstd at all")),
        partitions=1,
        differs=stored_unopened(-1),
    ),
    Scenario(
        "a codec that nobody knows",
        API,
        one(batch(attributes=6)),
        partitions=1,
        differs=(
            Differs("produce-unknown-codec", f"{ANSWER}.error_code", -1, 87),
            Differs("produce-unknown-codec", f"{ANSWER}.log_start_offset"),
        ),
    ),
    # row 31: idempotent producers
    Scenario(
        "the same batch again",
        API,
        one(batch(producer=(9001, 0, 0))),
        before=stored(batch(producer=(9001, 0, 0))),
        partitions=1,
        a_topic_per_version=True,
    ),
    Scenario(
        "a gap in the sequence",
        API,
        one(batch(producer=(9001, 0, 5))),
        before=stored(batch(producer=(9001, 0, 0))),
        partitions=1,
        a_topic_per_version=True,
    ),
    Scenario(
        "an epoch of before",
        API,
        one(batch(producer=(9001, 1, 1))),
        before=stored(batch(producer=(9001, 2, 0))),
        partitions=1,
        a_topic_per_version=True,
    ),
    Scenario(
        "a new epoch that does not begin at 0",
        API,
        one(batch(producer=(9001, 1, 1))),
        before=stored(batch(producer=(9001, 0, 0))),
        partitions=1,
        a_topic_per_version=True,
    ),
    Scenario(
        "a producer whose first sequence is not 0", API, one(batch(producer=(9001, 0, 5))), partitions=1, a_topic_per_version=True
    ),
    Scenario(
        "a sequence that wraps",
        API,
        one(batch(producer=(9001, 0, 0))),
        before=stored(batch(producer=(9001, 0, 2**31 - 1))),
        partitions=1,
        a_topic_per_version=True,
    ),
    # transactions
    Scenario(
        "a transactional batch, and no transactional id",
        API,
        one(batch(attributes=TRANSACTIONAL, producer=(9002, 0, 0))),
        partitions=1,
    ),
    Scenario(
        "a transactional batch",
        API,
        one(batch(attributes=TRANSACTIONAL, producer=(9002, 0, 0)), transactional_id="tx"),
        partitions=1,
    ),
    Scenario("a transactional id, and a batch that is not", API, one(batch(), transactional_id="tx"), partitions=1),
)
