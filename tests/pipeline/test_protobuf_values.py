"""Protobuf values as DataFrames without a cluster: the type of each field, and the values that come back from the workers."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from services.pipeline.spark.value_schema import ValueSchema
from services.pipeline.transforms.parsing import dead_letters, parsed_type, with_parsed
from services.pipeline.transforms.protobuf_values import in_parts
from tests.pipeline.protobuf_files import descriptor_set, enum, file, message, message_class

ROWS = (
    "topic string, partition int, offset long, timestamp timestamp, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>, ingest_time timestamp, date date"
)
TYPES = {
    "double": "double",
    "float": "float",
    "int32": "int",
    "int64": "bigint",
    "uint32": "bigint",
    "uint64": "decimal(20,0)",
    "sint32": "int",
    "sint64": "bigint",
    "fixed32": "bigint",
    "fixed64": "decimal(20,0)",
    "sfixed32": "int",
    "sfixed64": "bigint",
    "bool": "boolean",
    "string": "string",
    "bytes": "binary",
}
MADE = file(
    "made.proto",
    enum("Color", RED=0, GREEN=1),
    message("Point", "int32 x = 1", "optional int32 y = 2"),
    message("Nothing"),
    message("Scalars", *(f"{kind} of_{kind} = {number + 1}" for number, kind in enumerate(TYPES))),
    message(
        "Made",
        ".shop.Color color = 1",
        ".shop.Point point = 2",
        "repeated .shop.Point points = 3",
        "map<uint64, .shop.Point> by_number = 4",
        "repeated uint64 numbers = 5",
        ".google.protobuf.Timestamp at = 6",
        "repeated .google.protobuf.Timestamp times = 7",
        ".google.protobuf.Duration after = 8",
        "in one: string text = 9",
        "in one: .shop.Nothing nothing = 10",
        "map<string, .google.protobuf.Timestamp> by_name = 11",
    ),
    imports=["google/protobuf/timestamp.proto", "google/protobuf/duration.proto"],
)
DESCRIPTORS = descriptor_set(MADE)
SCALARS, ALL = (ValueSchema("protobuf", name, descriptors=DESCRIPTORS) for name in ("shop.Scalars", "shop.Made"))


def value(name: str, **fields: Any) -> bytes:
    data: bytes = message_class(DESCRIPTORS, name)(**fields).SerializeToString()
    return data


def rows_of(spark: SparkSession, values: list[bytes | None]) -> DataFrame:
    headers = [("h", b"1"), ("h", None)]
    return spark.createDataFrame([("t", 0, n, None, b"k", each, headers, None, None) for n, each in enumerate(values)], ROWS)


def parsed(spark: SparkSession, schema: ValueSchema, values: list[bytes | None]) -> list[Row]:
    rows = with_parsed(rows_of(spark, values), schema, parsed_type(spark, schema))
    return rows.orderBy("offset").collect()


def test_scalars_have_the_types_of_spark_with_wide_unsigned_numbers(spark: SparkSession) -> None:
    found = parsed_type(spark, SCALARS)
    assert {field.name.removeprefix("of_"): field.dataType.simpleString() for field in found.fields} == TYPES
    assert all(field.nullable for field in found.fields)


def test_messages_lists_and_maps_are_structs_arrays_and_maps(spark: SparkSession) -> None:
    point = "struct<x:int,y:int>"
    assert {field.name: field.dataType.simpleString() for field in parsed_type(spark, ALL).fields} == {
        "color": "string",
        "point": point,
        "points": f"array<{point}>",
        "by_number": f"map<decimal(20,0),{point}>",
        "numbers": "array<decimal(20,0)>",
        "at": "timestamp",
        "times": "array<timestamp>",
        "after": "struct<seconds:bigint,nanos:int>",
        "text": "string",
        "by_name": "map<string,timestamp>",
    }


EXTREMES: list[dict[str, Any]] = [
    {
        "double": 1e308,
        "float": -0.5,
        "int32": -(2**31),
        "int64": -(2**63),
        "uint32": 2**32 - 1,
        "uint64": 2**64 - 1,
        "sint32": 2**31 - 1,
        "sint64": 2**63 - 1,
        "fixed32": 2**32 - 1,
        "fixed64": 2**64 - 1,
        "sfixed32": -1,
        "sfixed64": -(2**63),
        "bool": True,
        "string": "ä€😀\0",
        "bytes": b"\xff\0",
    },
    {kind: float("-inf") for kind in ("double", "float")},
    {},
]


def test_scalars_reach_the_columns_with_their_extremes(spark: SparkSession) -> None:
    values = [value("shop.Scalars", **{f"of_{kind}": each for kind, each in extremes.items()}) for extremes in EXTREMES]
    unset = dict.fromkeys(TYPES, 0) | {"bool": False, "string": "", "bytes": b""}
    for row, extremes in zip(parsed(spark, SCALARS, [*values]), EXTREMES, strict=True):
        assert row.parse_error is None
        assert {name.removeprefix("of_"): each for name, each in row.parsed.asDict().items()} == {**unset, **extremes}


def test_nested_values_reach_the_columns(spark: SparkSession) -> None:
    full = value(
        "shop.Made",
        color=1,
        point={"x": 1, "y": 0},
        points=[{"x": 2}, {"y": 3}],
        by_number={2**64 - 1: {"x": 4}},
        numbers=[2**64 - 1, 0],
        after={"seconds": 5, "nanos": 6},
        text="",
    )
    row, empty = (each.parsed for each in parsed(spark, ALL, [full, b""]))
    nulls = {"point": None, "at": None, "after": None, "text": None}
    assert empty.asDict() == {**nulls, "color": "RED", "points": [], "by_number": {}, "numbers": [], "times": [], "by_name": {}}
    assert (row.color, row.point, row.text, row.after) == ("GREEN", Row(x=1, y=0), "", Row(seconds=5, nanos=6))
    assert (row.points, row.by_number) == ([Row(x=2, y=None), Row(x=0, y=3)], {Decimal(2**64 - 1): Row(x=4, y=None)})
    assert row.numbers == [Decimal(2**64 - 1), Decimal(0)]


def test_timestamps_reach_the_columns_from_the_first_to_the_last(spark: SparkSession) -> None:
    first, last = {"seconds": -62_135_596_800}, {"seconds": 253_402_300_799, "nanos": 999_999_999}
    full = value("shop.Made", at={"seconds": 5, "nanos": 1_999}, times=[first, last], by_name={"first": first})
    rows = with_parsed(rows_of(spark, [full]), ALL, parsed_type(spark, ALL))
    (row,) = rows.selectExpr(
        "unix_micros(parsed.at)",
        "transform(parsed.times, time -> unix_micros(time))",
        "transform_values(parsed.by_name, (name, time) -> unix_micros(time))",
    ).collect()
    assert list(row) == [5_000_001, [-62_135_596_800_000_000, 253_402_300_799_999_999], {"first": -62_135_596_800_000_000}]


def test_the_other_columns_stay_as_they_are(spark: SparkSession) -> None:
    (row,) = parsed(spark, ALL, [b""])
    assert (row.topic, row.partition, row.offset, row.key, row.value) == ("t", 0, 0, b"k", b"")
    assert row.headers == [Row(key="h", value=b"1"), Row(key="h", value=None)]


@pytest.mark.parametrize("framing", ["none", "confluent"])
def test_broken_values_are_dead_letters_and_tombstones_are_not(spark: SparkSession, framing: Any) -> None:
    schema = ValueSchema("protobuf", "shop.Point", framing, DESCRIPTORS)
    frame = b"\0\0\0\0\1\0" if framing == "confluent" else b""
    broken = [frame + b"\x08", frame + b"\x0a\x00"]
    unframed = [b"\1\0\0\0\1\0\x08\x05", b"\0\0\0\0\1", b""] if framing == "confluent" else []
    other = [b"\0\0\0\0\1\x02\x02\x08\x05"] if framing == "confluent" else []
    rows = with_parsed(
        rows_of(spark, [frame + b"\x08\x05", None, frame, *broken, *unframed, *other]), schema, parsed_type(spark, schema)
    ).persist()
    found = [row.parsed and row.parsed.x for row in rows.orderBy("offset").collect()]
    assert found == [5, None, 0, *[None] * (len(found) - 3)]
    assert [row.reason for row in dead_letters(rows).orderBy("offset").collect()] == [
        *["no Protobuf value of shop.Point"] * len(broken),
        *["no Confluent frame: the value does not begin with 00 and a schema id"] * len(unframed),
        *["the Confluent frame has the message indexes [1], which are not those of shop.Point"] * len(other),
    ]
    rows.unpersist()


@pytest.mark.parametrize(
    ("sizes", "parts"), [([], []), ([0, 0], [2]), ([100] * 50, [50]), ([5 << 20] * 5, [1] * 5), ([4, 20 << 20], [1, 1])]
)
def test_large_values_are_decoded_in_parts(sizes: list[int], parts: list[int]) -> None:
    batch = pa.record_batch({"n": pa.array(range(len(sizes))), "value": pa.array([bytes(size) for size in sizes], pa.binary())})
    found = list(in_parts(batch))
    assert [part.num_rows for part in found] == parts
    assert [number for part in found for number in part.column("n").to_pylist()] == list(range(len(sizes)))


def test_a_value_is_parsed_into_the_wider_struct_of_a_table(spark: SparkSession) -> None:
    """A column that the message type no longer has is null."""
    old = descriptor_set(file("old.proto", message("Point", "string name = 3", "int32 x = 1")))
    wide = parsed_type(spark, ValueSchema("protobuf", "shop.Point", descriptors=old))
    schema = ValueSchema("protobuf", "shop.Point", descriptors=DESCRIPTORS)
    rows = with_parsed(rows_of(spark, [b"\x08\x05"]), schema, wide).collect()
    assert [row.parsed for row in rows] == [Row(name=None, x=5)]
