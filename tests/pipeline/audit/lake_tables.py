"""Tables as the archive writes them, made from a topic by Spark alone, and damage that is planted into them."""

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from services.pipeline.spark.cluster import ClusterSettings, Topics
from services.pipeline.spark.kafka_source import read_batch, source_options
from services.pipeline.transforms.checksums import FIELDS


def archived(spark: SparkSession, bootstrap: str, topic: str, *, read_uncommitted: bool = False) -> DataFrame:
    """What the topic has now, in the columns of the lake."""
    options = source_options(ClusterSettings(bootstrap), Topics((topic,)), read_uncommitted=read_uncommitted)
    rows = read_batch(spark, options).withColumnRenamed("timestampType", "timestamp_type")
    return rows.select("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers").withColumns(
        {"ingest_time": F.current_timestamp(), "date": F.to_date("timestamp"), "leader_epoch": F.lit(None).cast("int")}
    )


def written(rows: DataFrame, path: Path, table_format: str) -> DataFrame:
    """The rows, written and read again."""
    rows.write.format(table_format).partitionBy("topic", "date").save(str(path))
    return rows.sparkSession.read.format(table_format).load(str(path))


def flipped(field: str) -> Column:
    """The field with one byte, or one unit of its smallest, changed."""
    last_byte = F.concat(F.col(field).substr(F.lit(1), F.octet_length(field) - 1), F.unhex(F.lit("ff")))
    changes: dict[str, Callable[[], Column]] = {
        "key": lambda: last_byte,
        "value": lambda: last_byte,
        "timestamp": lambda: F.col("timestamp") + F.expr("interval 1 millisecond"),
        "timestamp_type": lambda: F.lit(1),
        "headers": lambda: F.expr("array(struct('trace' as key, cast('other' as binary) as value))"),
    }
    return changes[field]()


def damaged(rows: DataFrame, *, holes: list[int], doubles: list[int], flips: dict[str, int]) -> DataFrame:
    """Of partition 0: without `holes`, with `doubles` twice, and with one field changed at each of `flips`."""
    assert set(flips) <= set(FIELDS)

    def at(offsets: list[int]) -> Column:
        return (F.col("partition") == 0) & F.col("offset").isin(offsets)

    kept = rows.where(~at(holes))
    changed = {field: F.when(at([offset]), flipped(field)).otherwise(F.col(field)) for field, offset in flips.items()}
    return kept.withColumns(changed).unionAll(rows.where(at(doubles)))
