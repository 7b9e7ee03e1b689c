"""Whole numbers in JSON that are too large for a TIMESTAMP.

Spark takes a number for seconds. It keeps microseconds in 64 bits, and those of a larger number wrap around without an error:
a column of a producer's microseconds would be wrong times. So such values are read once more, with text in place of times.
"""

from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType, TimestampType

from services.pipeline.transforms.value_types import nullable

SECONDS_MAX = 9_223_372_036_854
MAY_OVERFLOW = "[0-9]{14}|9[2-9][0-9]{11}"
"""What a text with a larger number has. Milliseconds of today have thirteen digits, and begin with 1."""


def has_times(found: DataType) -> bool:
    match found:
        case StructType():
            return any(has_times(field.dataType) for field in found.fields)
        case ArrayType():
            return has_times(found.elementType)
        case MapType():
            return has_times(found.valueType)
    return isinstance(found, TimestampType)


def times_as_text(found: DataType) -> Any:
    """The same type, with a string for each TIMESTAMP."""
    return nullable(found, lambda simple: StringType() if isinstance(simple, TimestampType) else simple)


def overflows(column: Column, found: DataType) -> Column:
    """Whether a time is too large, in a column of the type `times_as_text(found)`."""
    no = F.lit(False)
    match found:
        case StructType():
            too_large = [overflows(column[one.name], one.dataType) for one in found.fields if has_times(one.dataType)]
            return reduce(or_, too_large, no)
        case ArrayType():
            return F.coalesce(F.exists(column, lambda element: overflows(element, found.elementType)), no)
        case MapType():
            return F.coalesce(F.exists(F.map_values(column), lambda value: overflows(value, found.valueType)), no)
    is_whole = column.rlike("^-?[0-9]+$")
    return F.coalesce(is_whole & (F.abs(column.try_cast("decimal(38,0)")) > SECONDS_MAX), no)
