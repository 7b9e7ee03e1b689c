"""Protobuf values parsed by Python workers, since Spark's own `spark-protobuf` cannot be had.

Types are those of Spark's `from_protobuf` with `upcast.unsigned.ints`: `uint32` is a bigint and `uint64` a decimal(20, 0).
`google.protobuf.Duration` is a struct as any other message: Delta has no intervals.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import FieldDescriptor
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from services.pipeline.protobuf.message_types import MessageTypes, column_fields, is_map, map_key, map_value, nested_message
from services.pipeline.protobuf.value_decoder import value_decoder
from services.pipeline.spark.value_schema import ValueSchema

PART_BYTES = 8 << 20
"""How much of values a worker decodes at once."""
UINT64_TYPE = DecimalType(20, 0)
_TYPES: dict[int, DataType] = {
    FieldDescriptor.TYPE_INT32: IntegerType(),
    FieldDescriptor.TYPE_SINT32: IntegerType(),
    FieldDescriptor.TYPE_SFIXED32: IntegerType(),
    FieldDescriptor.TYPE_UINT32: LongType(),
    FieldDescriptor.TYPE_FIXED32: LongType(),
    FieldDescriptor.TYPE_INT64: LongType(),
    FieldDescriptor.TYPE_SINT64: LongType(),
    FieldDescriptor.TYPE_SFIXED64: LongType(),
    FieldDescriptor.TYPE_UINT64: UINT64_TYPE,
    FieldDescriptor.TYPE_FIXED64: UINT64_TYPE,
    FieldDescriptor.TYPE_FLOAT: FloatType(),
    FieldDescriptor.TYPE_DOUBLE: DoubleType(),
    FieldDescriptor.TYPE_BOOL: BooleanType(),
    FieldDescriptor.TYPE_STRING: StringType(),
    FieldDescriptor.TYPE_BYTES: BinaryType(),
    FieldDescriptor.TYPE_ENUM: StringType(),
}


def message_type(schema: ValueSchema) -> StructType:
    """The struct of a message type's columns, every one nullable."""
    return _struct(MessageTypes(schema.descriptors)[schema.text])


def with_decoded(rows: DataFrame, schema: ValueSchema, parsed: str, reason: str) -> DataFrame:
    """`rows` with two more columns, made of the column `value`: a struct of `message_type`, and the reason why it is null.
    Of a null value both are null."""
    decoded = StructType([StructField(parsed, message_type(schema)), StructField(reason, StringType())])
    arrow_types = [to_arrow_type(field.dataType) for field in decoded.fields]
    descriptors, name, framing = schema.descriptors, schema.text, schema.framing

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoder = value_decoder(descriptors, name, framing)
        for batch in (part for whole in batches for part in in_parts(whole)):
            values = batch.column("value").to_pylist()
            pairs = [(None, None) if value is None else decoder(value) for value in values]
            columns = [pa.array([pair[index] for pair in pairs], each) for index, each in enumerate(arrow_types)]
            yield pa.RecordBatch.from_arrays([*batch.columns, *columns], [*batch.schema.names, parsed, reason])

    return rows.mapInArrow(decode, StructType([*rows.schema.fields, *decoded.fields]))


def in_parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows in parts whose values have `PART_BYTES` on average, at least one row each. Spark's batches have up to 256 MB, and
    rows as Python objects take many times their bytes."""
    rows = max(1, batch.num_rows * PART_BYTES // max(1, batch.column("value").nbytes))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _struct(message: Any) -> StructType:
    return StructType([StructField(field.name, _column_type(field)) for field in column_fields(message)])


def _column_type(field: Any) -> DataType:
    if is_map(field):
        return MapType(_value_type(map_key(field)), _value_type(map_value(field)))
    return ArrayType(_value_type(field)) if field.is_repeated else _value_type(field)


def _value_type(field: Any) -> DataType:
    if inner := nested_message(field):
        return _struct(inner)
    return TimestampType() if field.message_type is not None else _TYPES[field.type]
