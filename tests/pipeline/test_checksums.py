"""Checksums of slices: the order of records does not matter, and every field of every record does."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from services.pipeline.transforms.checksums import slice_checksums

FEW = settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
ROWS = (
    "topic string, partition int, offset long, timestamp timestamp, timestamp_type int, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>"
)
START = datetime(2026, 5, 27, tzinfo=UTC)
BYTES = st.none() | st.binary(max_size=5)
HEADERS = st.none() | st.lists(st.tuples(st.sampled_from(["", "a", "b"]), BYTES), max_size=2)
FIELDS = {
    "timestamp": st.integers(0, 59_999).map(lambda ms: START + timedelta(milliseconds=ms)),
    "timestamp_type": st.integers(0, 1),
    "key": BYTES,
    "value": BYTES,
    "headers": HEADERS,
}
RECORDS = st.lists(st.fixed_dictionaries(FIELDS), min_size=1, max_size=12)
"""All of one slice: less than a minute, less than 100 offsets."""
Record = dict[str, Any]


def checksums(
    spark: SparkSession, cases: dict[str, list[tuple[int, Record]]], tasks: int = 1
) -> dict[str, list[tuple[Any, ...]]]:
    """The slices of each case, computed in one job: each case is a topic of its own."""
    places = [
        (case, 0, offset, *(record[field] for field in FIELDS)) for case, of_one in cases.items() for offset, record in of_one
    ]
    rows = spark.createDataFrame(places, ROWS).repartition(tasks)
    found: dict[str, list[tuple[Any, ...]]] = {case: [] for case in cases}
    for row in slice_checksums(rows, 100, 60).collect():
        found[row.topic].append(tuple(row)[1:])
    return found


@FEW
@given(records=RECORDS, seed=st.integers(0, 1000))
def test_the_order_of_records_and_of_tasks_does_not_matter(spark: SparkSession, records: list[Record], seed: int) -> None:
    numbered = list(enumerate(records))
    shuffled = random.Random(seed).sample(numbered, len(numbered))
    assert checksums(spark, {"t": shuffled}, 3) == checksums(spark, {"t": numbered})


@FEW
@given(records=RECORDS, data=st.data())
def test_each_field_of_each_record_matters_and_its_offset_and_its_number(
    spark: SparkSession, records: list[Record], data: st.DataObject
) -> None:
    """Null and empty are different, but for headers: none is an empty list."""
    numbered = list(enumerate(records))
    at = data.draw(st.integers(0, len(records) - 1))
    cases = {
        "moved": [(50 if number == at else number, record) for number, record in numbered],
        "missing": numbered[:at] + numbered[at + 1 :],
        "doubled": [*numbered, numbered[at]],
    }
    for field, values in FIELDS.items():
        other = data.draw(values.filter(lambda value, field=field: normal(value, field) != normal(records[at][field], field)))
        cases[field] = [(number, {**record, field: other} if number == at else record) for number, record in numbered]
    found = checksums(spark, {"original": numbered, **cases})
    [original] = found.pop("original")
    for case, slices in found.items():
        assert original[-3:] not in [each[-3:] for each in slices], case


def normal(value: Any, field: str) -> Any:
    return value or None if field == "headers" else value
