"""How a table's schema grows: new columns that may be null, and nothing else."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from services.pipeline.errors import PipelineError


def merged(table: str, old: StructType, new: StructType, prefix: str = "") -> StructType:
    """The old columns, then those that only `new` has. Raises PipelineError where one column has two types."""
    by_name = {field.name: field for field in new.fields}
    fields = [_merged_field(table, field, by_name.get(field.name), prefix) for field in old.fields]
    known = set(old.fieldNames())
    return StructType(fields + [StructField(field.name, field.dataType, True) for field in new.fields if field.name not in known])


def widened(rows: DataFrame, schema: StructType) -> DataFrame:
    """The rows with all columns of `schema`; those that they lack are null."""
    present = set(rows.columns)
    absent = {field.name: F.lit(None).cast(field.dataType) for field in schema.fields if field.name not in present}
    return rows.withColumns(absent) if absent else rows


def _merged_field(table: str, old: StructField, new: StructField | None, prefix: str) -> StructField:
    name = prefix + old.name
    if new is None or old.dataType == new.dataType:
        return old
    if isinstance(old.dataType, StructType) and isinstance(new.dataType, StructType):
        return StructField(old.name, merged(table, old.dataType, new.dataType, f"{name}."), True)
    raise PipelineError(
        f"column {name} of {table} is {old.dataType.simpleString()}, and {new.dataType.simpleString()} in the job's schema; "
        "give the new column another name"
    )
