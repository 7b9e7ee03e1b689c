"""Types of parsed values, made of others."""

from collections.abc import Callable
from typing import Any

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType


def nullable(found: DataType, leaf: Callable[[DataType], DataType] = lambda simple: simple) -> Any:
    """The same type, with nulls allowed everywhere. `leaf` may replace types that hold no others."""
    match found:
        case StructType():
            return StructType([StructField(field.name, nullable(field.dataType, leaf), True) for field in found.fields])
        case ArrayType():
            return ArrayType(nullable(found.elementType, leaf), True)
        case MapType():
            return MapType(found.keyType, nullable(found.valueType, leaf), True)
    return leaf(found)
