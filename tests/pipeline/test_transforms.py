"""Transforms, as DataFrames without a cluster. The properties compare them with plain Python."""

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from services.pipeline.spark.value_schema import ValueSchema
from services.pipeline.transforms.latest import latest_per_key
from services.pipeline.transforms.parsing import dead_letters, parsed_type, with_parsed

FEW = settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
ROWS = (
    "topic string, partition int, offset long, timestamp timestamp, key binary, value binary, headers binary, "
    "ingest_time timestamp, date date"
)
SCHEMA = ValueSchema("json", "n INT, s STRING")
KEYS = st.sampled_from([b"a", b"b", b"c", None])
VALUES = st.none() | st.binary(max_size=4) | st.integers(-9, 9).map(lambda n: json.dumps({"n": n, "s": "x"}).encode())


def rows_of(spark: SparkSession, records: list[tuple[bytes | None, bytes | None]]):  # type: ignore[no-untyped-def]
    rows = [("t", 0, offset, None, key, value, None, None, None) for offset, (key, value) in enumerate(records)]
    return spark.createDataFrame(rows, ROWS)


@FEW
@given(records=st.lists(st.tuples(KEYS, VALUES), max_size=30))
def test_the_latest_record_of_each_key_is_what_a_dictionary_would_keep(
    spark: SparkSession, records: list[tuple[bytes | None, bytes | None]]
) -> None:
    found = latest_per_key(rows_of(spark, records)).collect()
    assert len(found) == len({bytes(row.key) for row in found})
    kept = {key: (offset, value) for offset, (key, value) in enumerate(records) if key is not None}
    assert {bytes(row.key): (row.offset, None if row.value is None else bytes(row.value)) for row in found} == kept


OBJECT = b'{"n": 1, "s": "x"}'
NO_OBJECTS = [
    OBJECT + b" garbage",
    OBJECT + OBJECT,
    OBJECT + b", " + OBJECT,
    OBJECT + b', "m": 1',
    OBJECT + b"]",
    OBJECT + b"]} garbage",
    b"garbage " + OBJECT,
    b"[%b]" % OBJECT,
    b"null",
    b"1",
    b" ",
    b'{"n": "x"}',
    b'{"n": 1}], "_end": 0, "x": [',
    b'{"n": 1}], "x": [{}',
    b'{"n": 1}], "values": [{"n": 2}',
    b'{"n": 1}]} {"values": [{"n": 2}',
    b'{"n": 1}, {"_end": 0}], "x": [{}',
    b'{"n": 1}, {"n": 2}]} {',
    b'{"n": 1}, {"x": [{}',
    OBJECT + b",",
    OBJECT + b"}",
    OBJECT + b"\0",
    b"\xef\xbb\xbf" + OBJECT,
    b"{'n': 1}",
    b'{"n": 1, "unread": NaN}',
    b'{"n": 1, "s": "\n"}',
]


def test_only_a_value_that_is_one_json_object_is_parsed(spark: SparkSession) -> None:
    """Spark's own `from_json` leaves what follows the first value unread. Of a name that comes twice, the last counts."""
    values = [OBJECT, b" %b\n" % OBJECT, b"{}", b'{"n": 2, "s": "x", "n": 1}', *NO_OBJECTS]
    parsed = with_parsed(rows_of(spark, [(b"k", value) for value in values]), SCHEMA, parsed_type(spark, SCHEMA))
    found = [row.parsed and row.parsed.asDict() for row in parsed.orderBy("offset").collect()]
    one = {"n": 1, "s": "x"}
    assert found == [one, one, {"n": None, "s": None}, one, *[None] * len(NO_OBJECTS)]
    assert [row.offset for row in dead_letters(parsed).orderBy("offset").collect()] == list(range(4, len(values)))


def test_a_number_that_would_wrap_around_in_a_timestamp_is_a_dead_letter(spark: SparkSession) -> None:
    schema = ValueSchema("json", "at TIMESTAMP, all ARRAY<STRUCT<at: TIMESTAMP>>, by MAP<STRING, TIMESTAMP>, n LONG, s STRING")
    largest = 9_223_372_036_854
    right = [
        b'{"at": 1732752000, "n": %d}' % 2**62,
        b'{"at": %d}' % largest,
        b'{"at": %d, "s": "%d"}' % (-largest, largest + 1),
        b'{"at": "2024-11-28T00:00:00Z", "all": [{"at": %d}, {}], "by": {"a": null}}' % largest,
    ]
    wrong = [
        b'{"at": 1732752000000000}',
        b'{"at": %d}' % (largest + 1),
        b'{"at": %d}' % (-largest - 1),
        b'{"all": [{"at": 0}, {"at": %d}]}' % 2**62,
        b'{"by": {"a": 0, "b": %d}}' % 2**62,
        b'{"at": %d}' % 10**30,
    ]
    parsed = with_parsed(rows_of(spark, [(b"k", value) for value in [*right, *wrong]]), schema, parsed_type(spark, schema))
    dead = dead_letters(parsed).orderBy("offset").collect()
    assert [row.offset for row in dead] == list(range(len(right), len(right) + len(wrong)))
    assert "too large for a TIMESTAMP" in dead[0].reason
    seconds = parsed.selectExpr("offset", "unix_seconds(parsed.at) at").orderBy("offset").collect()
    assert [row.at for row in seconds] == [1732752000, largest, -largest, 1732752000, *[None] * len(wrong)]


@FEW
@given(records=st.lists(st.tuples(KEYS, VALUES), max_size=30))
def test_each_value_is_parsed_or_a_dead_letter_or_a_tombstone(
    spark: SparkSession, records: list[tuple[bytes | None, bytes | None]]
) -> None:
    parsed = with_parsed(rows_of(spark, records), SCHEMA, parsed_type(spark, SCHEMA))
    found = {row.offset: row.parsed.asDict() if row.parsed else None for row in parsed.collect()}
    dead = {row.offset: row.reason for row in dead_letters(parsed).collect()}
    for offset, (_, value) in enumerate(records):
        if value is None:
            assert (found[offset], offset in dead) == (None, False)
        elif value.startswith(b'{"n"'):
            assert (found[offset], offset in dead) == (json.loads(value), False)
        else:
            assert (found[offset] is None) == (offset in dead)
    assert len(found) == len(records)
