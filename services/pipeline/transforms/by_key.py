"""Rows in tasks by their content alone: a repeated batch has the same rows, but Spark may number its tasks anew."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f


def in_tasks_by_key(frame: DataFrame, tasks: int | None = None) -> DataFrame:
    """`tasks`: as many as before unless given. Rows of a key go to one of them, in their order; rows without a key by their value."""
    return frame.repartition(tasks or frame.rdd.getNumPartitions(), _place(frame))


def _place(frame: DataFrame) -> Column:
    value = f.col("value").cast("binary")
    return f.coalesce(f.col("key").cast("binary"), value) if "key" in frame.columns else value
