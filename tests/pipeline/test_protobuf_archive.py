"""Archive and table jobs whose values are Protobuf, in both formats, with real clusters."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from services.pipeline.errors import PipelineError
from services.pipeline.lake.table import read_table
from tests.pipeline.jobs_in_process import run_jobs
from tests.pipeline.protobuf_files import descriptor_set, enum, file, message, message_class
from tests.pipeline.topics import Record, make_topic, produce

FORMATS = ("parquet", "delta")
FIELDS = ("uint64 id = 1", "repeated .shop.Item items = 2", "map<string, int64> totals = 3", ".google.protobuf.Timestamp at = 4")


IMPORTS = ("google/protobuf/timestamp.proto", "google/protobuf/duration.proto")


def shop(*fields: str) -> bytes:
    item, order = message("Item", "string name = 1"), message("Order", *FIELDS, *fields)
    return descriptor_set(file("shop.proto", enum("Color", RED=0, GREEN=1), item, order, imports=IMPORTS))


FIRST = shop()
GROWN = shop(".shop.Color color = 6", ".google.protobuf.Duration after = 7")
OTHER = shop("int32 color = 6")


def value(descriptors: bytes, **fields: Any) -> bytes:
    data: bytes = message_class(descriptors, "shop.Order")(**fields).SerializeToString()
    return data


def run(
    spark: SparkSession, bootstrap: str, topic: str, lake: Path, descriptors: bytes, more: str = "", kind: str = "archive"
) -> None:
    path = lake / "shop.desc"
    path.write_bytes(descriptors)
    schema = f'schema = {{format = "protobuf", file = "{path}", message = "shop.Order"{more}}}'
    table = f'format = "{lake.name}"' if kind == "archive" else ""
    run_jobs(spark, bootstrap, lake, f'[jobs.a]\nkind = "{kind}"\ntopics = ["{topic}"]\n{table}\n{schema}')


@pytest.fixture(params=FORMATS)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """An empty folder with the name of the tables' format."""
    folder = tmp_path / request.param
    folder.mkdir()
    return folder


@pytest.mark.parametrize("framing", ["none", "confluent"])
def test_protobuf_values_are_rows_and_what_does_not_parse_is_a_dead_letter(
    spark: SparkSession, bootstrap: str, topic: str, lake: Path, framing: str
) -> None:
    frame = b"\0\0\0\0\7\2\2" if framing == "confluent" else b""
    order = value(
        FIRST, id=2**64 - 1, items=[{"name": "pen"}], totals={"EUR": -5}, at={"seconds": -62_135_596_800, "nanos": 1_000}
    )
    broken = [order[:-1], b"\x0a\x01a"]
    values = [frame + order, None, frame, *(frame + each for each in broken)]
    if framing == "confluent":
        values += [b"\0\0\0\0\7\0" + order, order]
    make_topic(bootstrap, topic, 1)
    produce(bootstrap, topic, [Record(0, b"k%d" % number, each) for number, each in enumerate(values)])
    run(spark, bootstrap, topic, lake, FIRST, f', framing = "{framing}"{", ids = [7]" if frame else ""}')
    table = read_table(spark, str(lake / "a")).orderBy("offset")
    rows = table.withColumn("parsed", F.col("parsed").withField("at", F.unix_micros("parsed.at"))).collect()
    assert [row.value for row in rows] == values
    full = Row(id=Decimal(2**64 - 1), items=[Row(name="pen")], totals={"EUR": -5}, at=-62_135_596_799_999_999)
    empty = Row(id=Decimal(0), items=[], totals={}, at=None)
    assert [row.parsed for row in rows] == [full, None, empty, *[None] * (len(values) - 3)]
    reasons = ["no Protobuf value of shop.Order"] * 2
    if framing == "confluent":
        reasons.append("the Confluent frame has the message indexes [0], which are not those of shop.Order")
        reasons.append("no Confluent frame: the value does not begin with 00 and a schema id")
    dead = read_table(spark, str(lake / "a_dead_letters")).orderBy("offset").collect()
    assert [(row.reason, row.value) for row in dead] == list(zip(reasons, values[3:], strict=True))


def test_a_message_grows_by_new_fields_and_a_conflict_is_refused(
    spark: SparkSession, bootstrap: str, topic: str, lake: Path
) -> None:
    make_topic(bootstrap, topic, 1)

    def archived(descriptors: bytes, **fields: Any) -> None:
        produce(bootstrap, topic, [Record(0, b"k", value(descriptors, **fields))])
        run(spark, bootstrap, topic, lake, descriptors)

    archived(FIRST, id=1)
    archived(GROWN, id=2, color=1, after={"seconds": -3, "nanos": -4})
    archived(FIRST, id=3)
    rows = read_table(spark, str(lake / "a")).orderBy("offset").collect()
    assert [(int(row.parsed.id), row.parsed.color, row.parsed.after) for row in rows] == [
        (1, None, None),
        (2, "GREEN", Row(seconds=-3, nanos=-4)),
        (3, None, None),
    ]
    with pytest.raises(PipelineError, match=r"column parsed\.color of .*/a is string, and int in the job's schema"):
        archived(OTHER, id=4, color=1)
    assert read_table(spark, str(lake / "a")).count() == 3


def test_a_table_job_has_the_latest_value_parsed(spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path) -> None:
    make_topic(bootstrap, topic, 1)
    records = [(b"a", value(FIRST, id=1)), (b"a", value(FIRST, id=2)), (b"b", b"\xff"), (b"c", value(FIRST, id=3)), (b"c", None)]
    produce(bootstrap, topic, [Record(0, key, each) for key, each in records])
    run(spark, bootstrap, topic, tmp_path, FIRST, kind="table")
    rows = read_table(spark, str(tmp_path / "a")).orderBy("key").collect()
    assert [(row.key, row.parsed and int(row.parsed.id)) for row in rows] == [(b"a", 2), (b"b", None)]
    assert [row.offset for row in read_table(spark, str(tmp_path / "a_dead_letters")).collect()] == [2]
