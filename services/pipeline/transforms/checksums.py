"""Order-independent checksums of records by slice, computed in the JVM.

Records are rows with `topic, partition, offset, timestamp, timestamp_type, key, value, headers`. A slice is a bucket of offsets
of one partition, cut by time: `bucket` is the offset divided by the bucket's size, `slice` the timestamp in seconds since 1970,
rounded down to the slice's length.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

FIELDS = ("key", "value", "headers", "timestamp", "timestamp_type")
_LOW_WORD = 0xFFFFFFFF


def field_hash(field: str) -> Column:
    """xxhash64 of one field of a record. Spark's skips nulls, so null and empty must differ by a flag; headers that are absent
    and headers that are an empty list are the same."""
    match field:
        case "headers":
            count = F.coalesce(F.size("headers"), F.lit(0))
            return F.xxhash64(count, F.transform("headers", lambda header: header["value"].isNull()), "headers")
        case "timestamp":
            return F.xxhash64(F.unix_micros("timestamp"))
        case "timestamp_type":
            return F.xxhash64("timestamp_type")
        case _:
            return F.xxhash64(F.isnull(field), field)


def record_hash() -> Column:
    """xxhash64 of all that makes a record. The leader epoch is left out: Spark's connector does not show it."""
    headers = F.when(F.size("headers") > 0, field_hash("headers"))
    parts = [F.isnull("key"), F.col("key"), F.isnull("value"), F.col("value"), headers, F.unix_micros("timestamp")]
    return F.xxhash64("offset", "timestamp_type", *parts)


def with_bucket(records: DataFrame, bucket_offsets: int) -> DataFrame:
    """`records` and the bucket of each one's offset."""
    return records.withColumn("bucket", F.expr(f"offset div {bucket_offsets}"))


def slice_checksums(records: DataFrame, bucket_offsets: int, slice_s: int) -> DataFrame:
    """One row a slice: `topic, partition, bucket, slice`, then `records, bytes, first, last, low, high, folded`.

    `low` and `high` are sums over the halves of the hashes, since a sum of whole ones overflows; `folded` is their exclusive or.
    A record that is twice there changes the sums, though not the exclusive or.
    """
    seconds = F.expr(f"unix_seconds(timestamp) div {slice_s} * {slice_s}")
    size = F.coalesce(F.octet_length("key"), F.lit(0)) + F.coalesce(F.octet_length("value"), F.lit(0))
    hashed = with_bucket(records, bucket_offsets).select(
        "topic", "partition", "bucket", seconds.alias("slice"), "offset", size.alias("bytes"), record_hash().alias("hash")
    )
    return hashed.groupBy("topic", "partition", "bucket", "slice").agg(
        F.count("*").alias("records"),
        F.sum("bytes").alias("bytes"),
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
        F.sum(F.col("hash").bitwiseAND(_LOW_WORD)).alias("low"),
        F.sum(F.shiftrightunsigned("hash", 32)).alias("high"),
        F.bit_xor("hash").alias("folded"),
    )


def offset_gaps(records: DataFrame, bucket_offsets: int) -> DataFrame:
    """Gaps of offsets inside buckets: `topic, partition, first, last` of what is absent."""
    window = "lag(offset) over (partition by topic, partition, bucket order by offset) + 1"
    before = with_bucket(records, bucket_offsets).select(
        "topic", "partition", (F.col("offset") - 1).alias("last"), F.expr(window).alias("first")
    )
    return before.where("first <= last").select("topic", "partition", "first", "last")


def offset_differences(log: DataFrame, lake: DataFrame, bucket_offsets: int, removable: DataFrame | None = None) -> DataFrame:
    """Runs of records that differ between the sides: `topic, partition, bucket, state, first, last, records, fields, copies`.

    `state` is `missing` (the lake lacks it), `unexpected` (the log lacks it), `compaction` (so does it, but `removable` has its
    `topic, partition, offset`), `duplicated` (the lake has it more than once) or `different`; `fields` names what differs, and
    `copies` counts the lake's rows. A run ends at the first record of another state, and at the end of its bucket.
    """
    sides = log.select(*_hashed("log")).unionAll(lake.select(*_hashed("lake")))
    in_log, in_lake = F.col("side") == "log", F.col("side") == "lake"
    by_offset = sides.groupBy("topic", "partition", "offset").agg(
        F.count_if(in_log).alias("originals"),
        F.count_if(in_lake).alias("copies"),
        F.array_compact(F.array(*(F.when(F.min(field) != F.max(field), F.lit(field)) for field in FIELDS))).alias("fields"),
    )
    by_offset = by_offset.withColumn("is_removable", F.lit(False))
    if removable is not None:
        marked = removable.select("topic", "partition", "offset", F.lit(True).alias("marked"))
        by_offset = by_offset.join(marked, ["topic", "partition", "offset"], "left").withColumn(
            "is_removable", F.coalesce("marked", F.lit(False))
        )
    state = (
        F.when(F.col("copies") == 0, "missing")
        .when((F.col("originals") == 0) & F.col("is_removable"), "compaction")
        .when(F.col("originals") == 0, "unexpected")
        .when(F.size("fields") > 0, "different")
        .when(F.col("copies") > 1, "duplicated")
        .otherwise("same")
    )
    alike = "topic", "partition", "bucket", "state", "fields", "copies"
    judged = with_bucket(by_offset, bucket_offsets).withColumn("state", state)
    place = "row_number() over (partition by topic, partition, bucket order by offset)"
    place_among_alike = f"row_number() over (partition by {', '.join(alike)} order by offset)"
    runs = judged.withColumn("run", F.expr(f"{place} - {place_among_alike}")).where("state != 'same'").groupBy(*alike, "run")
    return runs.agg(F.min("offset").alias("first"), F.max("offset").alias("last"), F.count("*").alias("records")).drop("run")


def _hashed(side: str) -> list[Column]:
    """The side and the hash of each field, under the field's name. Hashes, since binary columns of both sides are large."""
    return [
        F.col("topic"),
        F.col("partition"),
        F.col("offset"),
        F.lit(side).alias("side"),
        *(field_hash(each).alias(each) for each in FIELDS),
    ]
