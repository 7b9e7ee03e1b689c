"""Values parsed by a schema. What does not parse gets a reason, and stays in the row as raw bytes."""

import json
import secrets

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, IntegerType, StructField, StructType

from services.pipeline.protobuf.confluent_frame import HEADER_BYTES
from services.pipeline.spark.value_schema import ValueSchema
from services.pipeline.transforms.json_times import MAY_OVERFLOW, has_times, overflows, times_as_text
from services.pipeline.transforms.protobuf_values import message_type, with_decoded
from services.pipeline.transforms.value_types import nullable

PARSE_ERROR = "parse_error"
_CORRUPT = "_corrupt"
_MARK = f"_{secrets.token_hex(16)}"
"""A field name of this process, which no value of a topic can have."""
_MARK_BYTES = secrets.token_bytes(16)
_STRICT = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _CORRUPT,
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}
_OVERFLOW = "a number is too large for a TIMESTAMP, which counts seconds"
_DEAD_LETTER_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers", "ingest_time", "date")


def with_parsed(rows: DataFrame, schema: ValueSchema, parsed_type: StructType) -> DataFrame:
    """Adds `parsed` and `parse_error`, the reason or null. `parsed` has the fields of `parsed_type`.

    A null value (a tombstone) is no error: its `parsed` is null. A reason that a row has already goes before.
    """
    found = _parsed(rows, schema)
    if schema.framing == "confluent":
        found = found.withColumn("_reason", F.coalesce(_frame_error(schema), F.col("_reason")))
    error = F.when(F.col("value").isNotNull(), F.col("_reason"))
    source = found.schema["_parsed"].dataType
    conformed = F.when(F.col("value").isNotNull() & error.isNull(), conform(F.col("_parsed"), source, parsed_type))
    reason = F.coalesce(F.col(PARSE_ERROR), error) if PARSE_ERROR in rows.columns else error
    columns = [name for name in rows.columns if name != PARSE_ERROR]
    return found.select(*columns, conformed.cast(parsed_type).alias("parsed"), reason.alias(PARSE_ERROR))


def parsed_type(spark: SparkSession, schema: ValueSchema) -> StructType:
    """The type of `parsed`, every field nullable. Raises PySpark's ParseException or an AnalysisException for a wrong schema."""
    if schema.format == "protobuf":
        return message_type(schema)
    return nullable(_parsed(spark.createDataFrame([], "value binary"), schema).schema["_parsed"].dataType)


def dead_letters(parsed_rows: DataFrame) -> DataFrame:
    """What `with_parsed` could not parse: the reason, the place in the log, and the raw bytes."""
    return parsed_rows.where(F.col(PARSE_ERROR).isNotNull()).select(F.col(PARSE_ERROR).alias("reason"), *_DEAD_LETTER_COLUMNS)


def conform(column: Column, source: DataType, target: DataType) -> Column:
    """A struct with the target's fields, in its order; those that the source does not have are null."""
    if source == target or not isinstance(source, StructType) or not isinstance(target, StructType):
        return column
    fields = [
        conform(column[field.name], source[field.name].dataType, field.dataType).alias(field.name)
        if field.name in source.fieldNames()
        else F.lit(None).cast(field.dataType).alias(field.name)
        for field in target.fields
    ]
    return F.when(column.isNotNull(), F.struct(*fields))


def _parsed(rows: DataFrame, schema: ValueSchema) -> DataFrame:
    """Adds `_parsed` and `_reason`, among other columns. For null values, and for those without a frame, both mean nothing."""
    if schema.format == "protobuf":
        return with_decoded(rows, schema, "_parsed", "_reason")
    payload = F.col("value")
    if schema.framing == "confluent":
        payload = F.when(_frame_error(schema).isNull(), F.expr(f"substring(value, {HEADER_BYTES + 1})"))
    with_payload = rows.withColumn("_payload", payload)
    return _json(with_payload, schema.text) if schema.format == "json" else _avro(with_payload, schema.text)


def _frame_error(schema: ValueSchema) -> Column:
    """Why a value has no frame that the schema fits; null if it has."""
    framed = F.expr(f"octet_length(value) > {HEADER_BYTES} AND hex(substring(value, 1, 1)) = '00'")
    reason = F.when(~framed, F.lit("no Confluent frame: the value does not begin with 00 and a schema id"))
    if not schema.ids:
        return reason
    found = F.expr("CAST(conv(hex(substring(value, 2, 4)), 16, 10) AS BIGINT)")
    other = F.format_string(f"the Confluent frame has the schema id %d, which is not in schema.ids {list(schema.ids)}", found)
    return reason.when(~found.isin(*schema.ids), other)


def _json(rows: DataFrame, ddl: str) -> DataFrame:
    """Spark reads the first JSON value of a text, and leaves the rest unread. So each text is read as the first of two elements
    of an array, of which the second must be found. A text that closes array or object itself does not know their names."""
    text = F.expr("CASE WHEN is_valid_utf8(_payload) THEN CAST(_payload AS STRING) END")
    framed = F.concat(F.lit(f'{{"{_MARK}": ['), text, F.lit(f', {{"{_MARK}": 0}}]}}'))
    whole = F.from_json(framed, f"{_MARK} ARRAY<STRUCT<{ddl}, {_MARK} INT>>, {_CORRUPT} STRING", _STRICT)
    found = rows.withColumn("_text", text).withColumn("_whole", whole)
    first, second = (F.get(f"_whole.{_MARK}", F.lit(place)) for place in (0, 1))
    found = found.withColumn("_parsed", first.dropFields(_MARK))
    is_one = (F.size(f"_whole.{_MARK}") == 2) & second[_MARK].isNotNull() & F.col("_parsed").isNotNull()
    reason = (
        F.when(F.col("_text").isNull(), F.lit("not UTF-8"))
        .when(F.trim("_text") == "", F.lit("not JSON"))
        .when(F.col(f"_whole.{_CORRUPT}").isNotNull() | ~F.coalesce(is_one, F.lit(False)), F.lit(f"no JSON object of {ddl}"))
    )
    fields = StructType.fromDDL(ddl)
    if has_times(fields):
        reason = reason.when(_has_overflowed(framed, fields), F.lit(_OVERFLOW))
    return found.withColumn("_reason", reason)


def _has_overflowed(framed: Column, fields: StructType) -> Column:
    """Whether a number was too large for a TIMESTAMP. Only texts with such numbers are read again."""
    element = StructType([*times_as_text(fields).fields, StructField(_MARK, IntegerType())])
    as_text = F.from_json(framed, StructType([StructField(_MARK, ArrayType(element))]), _STRICT)
    first = F.get(as_text[_MARK], F.lit(0))
    return framed.rlike(MAY_OVERFLOW) & overflows(first, fields)


def _avro(rows: DataFrame, schema: str) -> DataFrame:
    """Spark gives nulls for what does not decode, and leaves bytes behind a value unread. So each value is read as the first
    of two fields, of which the second must be found whole: bytes that no value of a topic can have."""
    from pyspark.sql.avro.functions import from_avro

    mark = {"name": _MARK, "type": {"type": "fixed", "name": f"{_MARK}_fixed", "size": len(_MARK_BYTES)}}
    fields = [{"name": "value", "type": json.loads(schema)}, mark]
    framed = F.concat(F.col("_payload"), F.lit(bytearray(_MARK_BYTES)))
    whole = from_avro(framed, json.dumps({"type": "record", "name": f"{_MARK}_record", "fields": fields}), {"mode": "PERMISSIVE"})
    found = rows.withColumn("_whole", whole)
    second = F.col(f"_whole.{_MARK}")
    reason = F.when(second.isNull(), F.lit("no Avro value of the schema")).when(
        second != F.lit(bytearray(_MARK_BYTES)), F.lit("bytes are left over behind an Avro value of the schema")
    )
    return found.withColumn("_reason", reason).withColumn("_parsed", F.col("_whole.value"))
