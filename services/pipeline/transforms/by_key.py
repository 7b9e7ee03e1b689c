"""Rows in tasks by their content alone: a repeated batch has the same rows, but Spark may number its tasks anew."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def in_tasks_by_key(frame: DataFrame, tasks: int) -> DataFrame:
    """Rows of a key go to one of the tasks, in their order; rows without a key go by their value."""
    return frame.repartition(tasks, _place(frame))


def task_count(frame: DataFrame) -> int:
    """As many tasks as the frame has, and at least one: a batch without offsets has none."""
    return max(1, int(frame.rdd.getNumPartitions()))


def _place(frame: DataFrame) -> Column:
    value = F.col("value").cast("binary")
    return F.coalesce(F.col("key").cast("binary"), value) if "key" in frame.columns else value
