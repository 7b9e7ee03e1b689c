"""Records of topics read by librdkafka in Python workers, for batches that Spark's connector cannot read.

The connector fails at a record whose timestamp is beyond Spark's own, and tells neither record nor offset.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from libs.client.security import NO_SECURITY, Security
from services.pipeline.errors import PipelineError
from services.pipeline.spark.cluster_security import librdkafka_properties
from services.pipeline.spark.offset_ranges import OffsetRange, Partition

TIMESTAMP_ERROR = "timestamp_error"
TIMESTAMP_MS_MAX = (2**63 - 1) // 1000
"""Spark counts microseconds in 64 bits."""
SILENCE_S = 60.0
BATCH_RECORDS, BATCH_BYTES = 10_000, 8 << 20
_SHARED_OPTIONS = ("kafka.client.", "kafka.security.", "kafka.sasl.", "kafka.ssl.")
"""Of the connector's options, which are those of Kafka's Java clients: what librdkafka may understand, too."""
_COLUMNS = (
    ("key", "binary", pa.binary()),
    ("value", "binary", pa.binary()),
    ("topic", "string", pa.string()),
    ("partition", "int", pa.int32()),
    ("offset", "bigint", pa.int64()),
    ("timestamp", "timestamp", pa.timestamp("us", "UTC")),
    ("timestampType", "int", pa.int32()),
    ("headers", "array<struct<key: string, value: binary>>", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    (TIMESTAMP_ERROR, "string", pa.string()),
)


def is_timestamp_overflow(error: Exception) -> bool:
    """Whether a Spark job may have failed at a record whose timestamp the connector cannot convert."""
    return isinstance(error, Py4JJavaError) and "ArithmeticException: long overflow" in str(error)


def read_raw(
    spark: SparkSession, options: Mapping[str, str], ranges: Mapping[Partition, OffsetRange], security: Security = NO_SECURITY
) -> DataFrame:
    """The records of these ranges, in the connector's columns and `timestamp_error`. `options` are the connector's.

    A timestamp that Spark cannot hold is null, and `timestamp_error` the reason. Raises PipelineError if librdkafka refuses the
    options; a task does so if the cluster does not return the records.
    """
    client = _client_options(options, security)
    try:
        Consumer({**client, **librdkafka_properties(security)}).close()
    except KafkaException as error:
        raise PipelineError(
            "a record's timestamp is beyond what Spark holds, and cluster.options do not suit librdkafka, which could read it: "
            + error.args[0].str()
        ) from None
    wanted = [(*partition, each.start, each.end) for partition, each in ranges.items() if each.start < each.end]
    rows = spark.createDataFrame(wanted, "topic string, partition int, start bigint, end bigint")

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for each in batch.to_pylist():
                yield from _in_batches(_records({**client, **librdkafka_properties(security)}, **each))

    schema = ", ".join(f"`{name}` {spark_type}" for name, spark_type, _ in _COLUMNS)
    return rows.repartition(max(1, len(wanted)), "topic", "partition").mapInArrow(read, schema)


def _client_options(options: Mapping[str, str], security: Security) -> dict[str, Any]:
    """Without those of `security`, which each task makes itself: it reads the password."""
    prefixes = _SHARED_OPTIONS if security == NO_SECURITY else _SHARED_OPTIONS[:1]
    shared = {name.removeprefix("kafka."): value for name, value in options.items() if name.startswith(prefixes)}
    return {
        **shared,
        "bootstrap.servers": options["kafka.bootstrap.servers"],
        "isolation.level": options["kafka.isolation.level"],
        "log_level": 0,
        "group.id": "penstock-pipeline",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error" if options["failOnDataLoss"] == "true" else "earliest",
    }


def _records(client: Mapping[str, Any], topic: str, partition: int, start: int, end: int) -> Iterator[Any]:
    """The messages of one range. At its end there may be none: markers of transactions are no messages."""
    with closing(Consumer(dict(client))) as consumer:
        consumer.assign([TopicPartition(topic, partition, start)])
        heard_s, reason = time.monotonic(), ""
        while time.monotonic() - heard_s < SILENCE_S:
            for message in consumer.consume(num_messages=1000, timeout=0.5):
                error = message.error()
                if error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET:
                    raise PipelineError(f"the log no longer has {topic}-{partition} from offset {start} on")
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    reason = f": {error.str()}"
                    continue
                if message.offset() >= end:
                    return
                if error is None:
                    heard_s = time.monotonic()
                    yield message
    raise PipelineError(f"{topic}-{partition} could not be read up to offset {end} for {SILENCE_S:.0f} s{reason}")


def _in_batches(messages: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    rows: list[tuple[Any, ...]] = []
    size = 0
    for message in messages:
        rows.append(_row(message))
        size += len(message.key() or b"") + len(message.value() or b"")
        if len(rows) >= BATCH_RECORDS or size >= BATCH_BYTES:
            yield _batch(rows)
            rows, size = [], 0
    if rows:
        yield _batch(rows)


def _batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(zip(*rows, strict=True), _COLUMNS, strict=True)
    arrays = [pa.array(values, arrow_type) for values, (_, _, arrow_type) in columns]
    return pa.RecordBatch.from_arrays(arrays, [name for name, _, _ in _COLUMNS])


def _row(message: Any) -> tuple[Any, ...]:
    """In the order of `_COLUMNS`. Types of timestamps have other numbers in librdkafka: 1 is the producer's."""
    kind, time_ms = message.timestamp()
    fits = abs(time_ms) <= TIMESTAMP_MS_MAX
    headers = [{"key": name, "value": value} for name, value in message.headers() or ()] or None
    place = message.topic(), message.partition(), message.offset()
    error = None if fits else f"the timestamp {time_ms} ms is beyond what Spark holds"
    return message.key(), message.value(), *place, time_ms * 1000 if fits else None, kind - 1, headers, error
