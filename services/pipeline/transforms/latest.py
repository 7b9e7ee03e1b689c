"""The current state that a changelog tells: the latest record of each key."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

KEY_MISSING = "no key"


def latest_per_key(rows: DataFrame) -> DataFrame:
    """One row for each key: that of the highest offset. All records of a key must lie in one partition, where offsets tell order.

    Rows without a key are left out: see `without_key`. Tombstones stay, with a null value.
    """
    whole = F.struct(*rows.columns)
    latest = rows.where("key IS NOT NULL").groupBy("topic", "key").agg(F.max_by(whole, F.col("offset")).alias("latest"))
    return latest.select("latest.*")


def without_key(rows: DataFrame) -> DataFrame:
    """Rows that belong to no key, as dead letters."""
    columns = ("topic", "partition", "offset", "timestamp", "key", "value", "headers", "ingest_time", "date")
    return rows.where("key IS NULL").select(F.lit(KEY_MISSING).alias("reason"), *columns)
