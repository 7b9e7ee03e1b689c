"""Values in Confluent's frames, and Avro values with or without: each of a schema that the job file names, and whole."""

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from services.pipeline.spark.value_schema import ValueSchema
from services.pipeline.transforms.parsing import PARSE_ERROR, parsed_type, with_parsed
from tests.pipeline.protobuf_files import descriptor_set, file, message

ADDRESS = {"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]}
PERSON = json.dumps(
    {
        "type": "record",
        "name": "Person",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "name", "type": "string"},
            {"name": "home", "type": ["null", ADDRESS]},
            {"name": "work", "type": ["null", "Address"]},
        ],
    }
)
ITEM = descriptor_set(file("shop.proto", message("Item", "int32 n = 1")))
LEFT_OVER = "bytes are left over behind an Avro value of the schema"
NO_VALUE = "no Avro value of the schema"
NO_FRAME = "no Confluent frame: the value does not begin with 00 and a schema id"


def long(number: int) -> bytes:
    """Of one byte."""
    assert -64 <= number < 64
    return bytes([number << 1 ^ number >> 63])


def text(value: str) -> bytes:
    return long(len(value.encode())) + value.encode()


def person(*fields: bytes, city: str = "Bonn") -> bytes:
    return b"".join(fields) + long(1) + text(city) + long(0)


def framed(schema_id: int, payload: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4) + payload


def parsed(spark: SparkSession, schema: ValueSchema, values: list[bytes | None]) -> list[tuple[Any, str | None]]:
    rows = spark.createDataFrame([(number, value) for number, value in enumerate(values)], "offset int, value binary")
    found = with_parsed(rows, schema, parsed_type(spark, schema)).orderBy("offset").collect()
    return [(row.parsed and row.parsed.asDict(recursive=True), row[PARSE_ERROR]) for row in found]


BOB = person(long(5), text("Bob"))
ROW = {"id": 5, "name": "Bob", "home": {"city": "Bonn"}, "work": None}
WITH_EMAIL = person(long(5), text("a@b"), text("Bob"))
"""By a writer that has inserted a field before `name`."""
NOT_WHOLE = [
    BOB + b"\0",
    BOB + BOB,
    BOB[:-1],
    BOB[:3],
    b"",
    person(long(5), b"\x7f"),
    person(long(5), text("Bob"))[:-1] + long(5),
]


def test_an_avro_value_is_parsed_only_if_its_bytes_are_one_value_of_the_schema(spark: SparkSession) -> None:
    found = parsed(spark, ValueSchema("avro", PERSON), [BOB, None, *NOT_WHOLE])
    assert found[:2] == [(ROW, None), (None, None)]
    assert [row for row, _ in found[2:]] == [None] * len(NOT_WHOLE)
    assert [reason for _, reason in found[2:]] == [LEFT_OVER] * 2 + [NO_VALUE] * 5


def test_an_avro_value_of_another_schema_id_is_a_dead_letter_that_names_it(spark: SparkSession) -> None:
    """Read by this schema, the email of id 9 would be Bob's name, and no error."""
    schema = ValueSchema("avro", PERSON, "confluent", ids=(1, 7, 2**31 - 1))
    found = parsed(
        spark,
        schema,
        [
            *[framed(known, BOB) for known in schema.ids],
            framed(9, WITH_EMAIL),
            framed(2**32 - 1, BOB),
            framed(1, WITH_EMAIL),
            framed(7, BOB + b"x"),
            b"\1" + framed(1, BOB)[1:],
            b"\0\0\0\0\1",
            None,
        ],
    )
    assert found[:3] == [(ROW, None)] * 3
    assert [row for row, _ in found[3:]] == [None] * 7
    assert [reason for _, reason in found[3:]] == [
        "the Confluent frame has the schema id 9, which is not in schema.ids [1, 7, 2147483647]",
        "the Confluent frame has the schema id 4294967295, which is not in schema.ids [1, 7, 2147483647]",
        NO_VALUE,
        LEFT_OVER,
        NO_FRAME,
        NO_FRAME,
        None,
    ]


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        (ValueSchema("json", "n INT", "confluent", ids=(3,)), b'{"n": 1}'),
        (ValueSchema("protobuf", "shop.Item", "confluent", ITEM, (3,)), b"\0\x08\x05"),
    ],
    ids=["json", "protobuf"],
)
def test_other_formats_heed_the_ids_as_well(spark: SparkSession, schema: ValueSchema, payload: bytes) -> None:
    other = "the Confluent frame has the schema id 4, which is not in schema.ids [3]"
    found = parsed(spark, schema, [framed(3, payload), framed(4, payload), framed(4, b"\xff")])
    assert (found[0][0] is not None, found[0][1], found[1:]) == (True, None, [(None, other)] * 2)
