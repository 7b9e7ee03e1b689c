"""Headers that Spark encodes are byte for byte those that the sink encodes from Arrow."""

from typing import TYPE_CHECKING

import pytest

from libs.wire.record_batches.records import Record
from services.pipeline.errors import SinkError
from services.pipeline.sink.columns import record_columns
from services.pipeline.sink.encoded_headers import with_encoded_headers
from services.pipeline.sink.schema import HEADERS
from tests.pipeline.sink.arrow_rows import arrow_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ["", "a", "größe", "n" * 63, "n" * 64, "n" * 8191, "n" * 8192]
CONTENTS = [None, b"", b"\0", b"x" * 63, b"x" * 64, b"x" * 8191, b"x" * 8192, b"x" * ((1 << 20) - 1), b"x" * (1 << 20)]


def test_headers_of_all_lengths(spark: "SparkSession") -> None:
    headers = [[], *([(name, b"content")] for name in NAMES), *([("name", content)] for content in CONTENTS)]
    headers += [[("a", b"1"), ("a", None), ("b", b"2")], [("many", b"")] * 64, [("many", b"")] * 63]
    records = [Record(b"key", b"value", 0, tuple(of_one), -1) for of_one in headers]
    rows = [(number, of_one or None) for number, of_one in enumerate(headers)]
    frame = spark.createDataFrame(rows, f"number int, headers {HEADERS}")
    encoded = [bytes(row.headers) for row in with_encoded_headers(frame).orderBy("number").collect()]
    assert encoded == record_columns(arrow_rows(records), 0).headers.to_pylist()


@pytest.mark.parametrize("headers", [[(None, b"content")], [("a", b"1"), None]], ids=str)
def test_a_header_without_a_key_is_refused(spark: "SparkSession", headers: list[tuple[str | None, bytes] | None]) -> None:
    frame = spark.createDataFrame([(b"v", headers)], f"value binary, headers {HEADERS}")
    for rows in (frame, with_encoded_headers(frame)):
        with pytest.raises(SinkError, match="a row has a header without a key"):
            record_columns(rows.toArrow().to_batches()[0], 0)


def test_rows_without_the_column_stay_as_they_are(spark: "SparkSession") -> None:
    frame = spark.createDataFrame([(b"v",)], "value binary")
    assert with_encoded_headers(frame) is frame
