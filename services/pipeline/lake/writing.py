"""The table that a job writes, in the format that it asks for."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from services.pipeline.lake.delta_table import DeltaLakeTable
from services.pipeline.lake.parquet_table import ParquetTable


class WrittenTable(Protocol):
    """A table that one stream owns. It has each batch of the stream as a whole, once."""

    path: str

    @property
    def last_batch(self) -> int: ...
    def merged_schema(self, new: StructType) -> StructType: ...
    def append(self, rows: DataFrame, batch: int, facts: Mapping[str, Any]) -> None: ...
    def compact(self, min_files: int, target_file_bytes: int) -> int: ...
    def expire(self, before: str) -> int: ...
    def remove_leftovers(self) -> None: ...
    def delete_removed(self, keep_s: float) -> int: ...


def open_table(spark: SparkSession, path: str, table_format: str, stream: str, partition_columns: Sequence[str]) -> WrittenTable:
    kind = DeltaLakeTable if table_format == "delta" else ParquetTable
    return kind(spark, path, stream, partition_columns)
