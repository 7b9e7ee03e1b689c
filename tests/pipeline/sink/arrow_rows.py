"""Rows as the sink gets them from Spark, made for tests."""

from collections.abc import Sequence

import pyarrow as pa

from libs.wire.record_batches.records import Record

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def arrow_rows(records: Sequence[Record]) -> pa.RecordBatch:
    """Records as columns of Arrow, with Spark's types."""
    headers = [[{"key": name, "value": content} for name, content in record.headers] or None for record in records]
    return pa.record_batch(
        {
            "key": pa.array([record.key for record in records], pa.binary()),
            "value": pa.array([record.value for record in records], pa.binary()),
            "headers": pa.array(headers, HEADERS),
            "timestamp": pa.array([record.timestamp * 1000 for record in records], pa.timestamp("us", "UTC")),
        }
    )
