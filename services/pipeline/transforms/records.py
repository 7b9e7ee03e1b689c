"""Records of Spark's Kafka connector as rows of the lake."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from services.pipeline.spark.raw_records import TIMESTAMP_ERROR
from services.pipeline.transforms.parsing import PARSE_ERROR

HEADERS = "array<struct<key: string, value: binary>>"
PARTITION_COLUMNS = ("topic", "date")


def lake_rows(records: DataFrame) -> DataFrame:
    """One row for each record. `date` is the day of the record's timestamp, `ingest_time` that of the batch; both are in UTC.

    Records of `read_raw` also have `parse_error`, where their timestamp is null; their date is that of the batch.
    """
    reasons = [F.col(TIMESTAMP_ERROR).alias(PARSE_ERROR)] if TIMESTAMP_ERROR in records.columns else []
    return records.select(
        "topic",
        "partition",
        "offset",
        "timestamp",
        F.col("timestampType").alias("timestamp_type"),
        "key",
        "value",
        F.col("headers").cast(HEADERS).alias("headers"),
        F.lit(None).cast("int").alias("leader_epoch"),
        F.current_timestamp().alias("ingest_time"),
        F.coalesce(day_of(F.col("timestamp")), F.current_date()).alias("date"),
        *reasons,
    )


def day_of(timestamp: Column) -> Column:
    return F.to_date(timestamp)
