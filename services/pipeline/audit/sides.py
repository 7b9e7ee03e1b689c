"""The rows of log and lake, cut to the offsets that an audit compares."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from libs.client.security import NO_SECURITY, Security
from services.pipeline.audit.slices import Bucket, Partition, Scope
from services.pipeline.spark.cluster import Topics
from services.pipeline.spark.kafka_source import read_batch
from services.pipeline.spark.offset_ranges import OffsetRange
from services.pipeline.spark.patterns import pattern_fits
from services.pipeline.spark.raw_records import read_raw
from services.pipeline.transforms.checksums import with_bucket

COLUMNS = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
Scopes = Mapping[Partition, Scope]


@dataclass(frozen=True)
class LakeSide:
    """The lake's rows, what its own records say of them, and how they are called in messages.

    `reached` has the offset after the last that the archive has taken, and `began` the first that it was to take, of each
    partition that its checkpoint knows. `retained_from` is the first date that the lake keeps, if older ones were dropped.
    """

    name: str
    rows: DataFrame
    reached: Mapping[Partition, int] = field(default_factory=dict)
    began: Mapping[Partition, int] = field(default_factory=dict)
    retained_from: date | None = None

    def of(self, topics: Topics) -> "LakeSide":
        """Only what it has of these topics."""
        topic = F.col("topic")
        fits: Callable[[str], bool]
        if topics.pattern is None:
            is_chosen, fits = topic.isin(list(topics.names)), topics.names.__contains__
        else:
            is_chosen, fits = topic.rlike(f"^(?:{topics.pattern})$"), pattern_fits(self.rows.sparkSession, topics.pattern)
        reached = {each: end for each, end in self.reached.items() if fits(each.topic)}
        return replace(self, rows=self.rows.where(is_chosen), reached=reached)

    def within(self, scopes: Scopes) -> DataFrame:
        bounds = scope_rows(self.rows.sparkSession, scopes)
        rows = self.rows.select(*COLUMNS).where(F.col("topic").isin(sorted({each.topic for each in scopes})))
        inside = rows.join(F.broadcast(bounds), ["topic", "partition"]).where("offset >= start and offset < end")
        return inside.select(*COLUMNS)

    def outside(self, scopes: Scopes) -> DataFrame:
        """Runs of what lies below and beyond: `topic, partition, is_below, first, last, records`. All of a partition that
        `scopes` lacks lies beyond."""
        bounds = scope_rows(self.rows.sparkSession, scopes)
        rows = self.rows.select("topic", "partition", "offset").join(F.broadcast(bounds), ["topic", "partition"], "left")
        counted = rows.where("start is null or offset < start or offset >= end").groupBy(
            "topic", "partition", F.expr("coalesce(offset < start, false)").alias("is_below")
        )
        return counted.agg(F.min("offset").alias("first"), F.max("offset").alias("last"), F.count("*").alias("records"))

    def kept(self, records: DataFrame) -> DataFrame:
        """Without the dates that the lake's retention dropped."""
        return records if self.retained_from is None else records.where(F.to_date("timestamp") >= F.lit(self.retained_from))


@dataclass(frozen=True)
class LogSide:
    """The log, read by Spark's connector. `options` are the connector's, without offsets. `is_raw`: it is read by `read_raw`."""

    spark: SparkSession
    options: Mapping[str, str]
    is_raw: bool = False
    security: Security = NO_SECURITY

    def within(self, scopes: Scopes) -> DataFrame:
        """`scopes` names all partitions of the topics that it names."""
        records = self._raw(scopes) if self.is_raw else self._connected(scopes)
        return records.withColumnRenamed("timestampType", "timestamp_type").select(*COLUMNS)

    def _raw(self, scopes: Scopes) -> DataFrame:
        ranges = {(partition.topic, partition.number): OffsetRange(scope.start, scope.end) for partition, scope in scopes.items()}
        return read_raw(self.spark, self.options, ranges, self.security)

    def _connected(self, scopes: Scopes) -> DataFrame:
        starts: dict[str, dict[str, int]] = defaultdict(dict)
        ends: dict[str, dict[str, int]] = defaultdict(dict)
        for (topic, index), scope in scopes.items():
            starts[topic][str(index)] = scope.start
            ends[topic][str(index)] = scope.end
        wide = {"minPartitions": str(self.spark.sparkContext.defaultParallelism), "subscribe": ",".join(starts)}
        options = {**self.options, **wide}
        return read_batch(self.spark, options, starting_offsets=json.dumps(starts), ending_offsets=json.dumps(ends))


def around(buckets: Iterable[Bucket], bucket_offsets: int, scopes: Scopes) -> dict[Partition, Scope]:
    """Scopes that hold these buckets; empty ones for partitions of the same topics that have none."""
    numbers: dict[Partition, list[int]] = defaultdict(list)
    for bucket in buckets:
        numbers[Partition(*bucket[:2])].append(bucket.number)
    topics = {partition.topic for partition in numbers}
    cut = {}
    for partition, scope in scopes.items():
        if of := numbers.get(partition):
            first, end = min(of) * bucket_offsets, (max(of) + 1) * bucket_offsets
            start = min(max(scope.start, first), scope.end)
            cut[partition] = Scope(start, max(start, min(scope.end, end)))
        elif partition.topic in topics:
            cut[partition] = Scope(scope.end, scope.end)
    return cut


def in_buckets(records: DataFrame, buckets: Iterable[Bucket], bucket_offsets: int) -> DataFrame:
    chosen = sorted(buckets)
    columns = {name: [bucket[at] for bucket in chosen] for at, name in enumerate(("topic", "partition", "bucket"))}
    types = [("topic", pa.string()), ("partition", pa.int32()), ("bucket", pa.int64())]
    table = records.sparkSession.createDataFrame(pa.table(columns, schema=pa.schema(types)))
    return (
        with_bucket(records, bucket_offsets)
        .join(F.broadcast(table), ["topic", "partition", "bucket"], "left_semi")
        .drop("bucket")
    )


def scope_rows(spark: SparkSession, scopes: Scopes) -> DataFrame:
    """`topic, partition, start, end`."""
    columns = {
        "topic": [partition.topic for partition in scopes],
        "partition": [partition.number for partition in scopes],
        "start": [scope.start for scope in scopes.values()],
        "end": [scope.end for scope in scopes.values()],
    }
    types = [("topic", pa.string()), ("partition", pa.int32()), ("start", pa.int64()), ("end", pa.int64())]
    return spark.createDataFrame(pa.table(columns, schema=pa.schema(types)))


def removable(records: DataFrame) -> Column:
    """Whether compaction may remove a record of these: a later one has its key, or it is a tombstone."""
    latest = F.max("offset").over(Window.partitionBy("topic", "partition", "key"))
    return F.isnull("value") | (F.col("offset") < latest)
