"""Options of Spark's own Kafka connector, as every job reads topics."""

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from services.pipeline.spark.cluster import ClusterSettings, Topics

CLIENT_DEFAULTS = {
    # After each poll, the connector asks the leader for both ends of the partition: with Kafka's 500 records, half of the time.
    "max.poll.records": "10000",
    "max.partition.fetch.bytes": str(4 << 20),
}
"""Settings of the connector's clients that the cluster's `options` may replace."""


_INSTANT = """
    CASE WHEN timestamp < TIMESTAMP '1901-01-01 00:00:00' THEN timestamp_micros(CAST(java_method(
        'org.apache.spark.sql.catalyst.util.RebaseDateTime', 'rebaseGregorianToJulianMicros', unix_micros(timestamp)) AS BIGINT))
    ELSE timestamp END
"""
"""The connector takes the milliseconds of a record for a date of the Julian calendar, if they lie before 1582, and gives the day
of the same name in the Gregorian one: 0001-01-03 for 0001-01-01. This is Spark's own way back. Before 1900, the names of
times also differ in time zones of a driver other than UTC."""


def source_options(
    cluster: ClusterSettings, topics: Topics, *, read_uncommitted: bool = False, fail_on_data_loss: bool = False
) -> dict[str, str]:
    """Clients get `read_committed` unless asked otherwise.

    `fail_on_data_loss` ends a stream whose offsets go while it reads them. Jobs on streams look for lost offsets before each
    batch, and say which.
    """
    isolation = "read_uncommitted" if read_uncommitted else "read_committed"
    chosen = {"subscribe": ",".join(topics.names)} if topics.pattern is None else {"subscribePattern": topics.pattern}
    return {
        **{f"kafka.{key}": value for key, value in {**CLIENT_DEFAULTS, **cluster.java_options}.items()},
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "kafka.isolation.level": isolation,
        "failOnDataLoss": str(fail_on_data_loss).lower(),
        "includeHeaders": "true",
        **chosen,
    }


def read_stream(
    spark: SparkSession,
    options: Mapping[str, str],
    *,
    starting_offsets: str = "earliest",
    max_offsets_per_trigger: int | None = None,
) -> DataFrame:
    """An unbounded DataFrame. A new checkpoint begins at `starting_offsets`: earliest, latest, or the connector's JSON."""
    reader = spark.readStream.format("kafka").options(**options).option("startingOffsets", starting_offsets)
    if max_offsets_per_trigger is not None:
        reader = reader.option("maxOffsetsPerTrigger", max_offsets_per_trigger)
    return reader.load().withColumn("timestamp", F.expr(_INSTANT))


def read_batch(
    spark: SparkSession, options: Mapping[str, str], *, starting_offsets: str = "earliest", ending_offsets: str = "latest"
) -> DataFrame:
    """What lies between the offsets now."""
    reader = spark.read.format("kafka").options(**options)
    records = reader.option("startingOffsets", starting_offsets).option("endingOffsets", ending_offsets).load()
    return records.withColumn("timestamp", F.expr(_INSTANT))
