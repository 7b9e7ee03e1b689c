"""The sink as a Spark data source: `df.writeStream.format("penstock")` and `df.write.format("penstock")`, after `register`.

Spark makes a writer in a Python process beside the driver for each epoch, and sends it to the tasks. Spark 4.0 gives Arrow
batches to any writer that is a `DataSourceArrowWriter`, of a stream too, though it documents that for batch writes only.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from services.pipeline.sink.client.errors import SinkError
from services.pipeline.sink.handouts import prepare
from services.pipeline.sink.options import SinkOptions, read_options
from services.pipeline.sink.schema import check_columns
from services.pipeline.sink.task_identity import BATCH_ID, QUERY_ID, Handout, identify
from services.pipeline.sink.task_writer import write_task

FORMAT = "penstock"


def register(spark: SparkSession) -> None:
    """Makes `format("penstock")` known to the session."""
    spark.dataSource.register(PenstockDataSource)


@dataclass
class TaskWritten(WriterCommitMessage):  # type: ignore[misc]
    rows: int
    bytes: int


class PenstockWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """One for each epoch. Only tasks know a query's id, so without `sink.id` the driver hands out no ledger entries."""

    def __init__(self, options: SinkOptions, default_id: str, handout: Handout | None) -> None:
        self._options = options
        self._default_id = default_id
        self._handout = handout

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        context = TaskContext.get()
        assert context is not None
        properties = {name: context.getLocalProperty(name) for name in (BATCH_ID, QUERY_ID)}
        task = identify(self._options, context.partitionId(), None, properties, self._default_id)
        handout = self._handout or prepare(self._options, task.sink_id, None)
        entry = write_task(iterator, task, self._options, handout)
        return TaskWritten(entry.rows, entry.payload_bytes)

    def commit(self, messages: list[Any], batch_id: int | None = None) -> None:
        """Nothing: each task has committed its own transaction."""

    def abort(self, messages: list[Any], batch_id: int | None = None) -> None:
        """Nothing: what tasks have committed counts, and the batch is repeated."""


class PenstockDataSource(DataSource):  # type: ignore[misc]
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> PenstockWriter:
        if overwrite:
            raise SinkError("a topic cannot be overwritten: use mode append")
        return self._writer(schema, stream=False)

    def streamWriter(self, schema: StructType, overwrite: bool) -> PenstockWriter:
        if overwrite:
            raise SinkError("a topic keeps what was written: output modes append and update are allowed, complete is not")
        return self._writer(schema, stream=True)

    def _writer(self, schema: StructType, *, stream: bool) -> PenstockWriter:
        options = read_options(self.options)
        check_columns({field.name: field.dataType.simpleString() for field in schema.fields}, options.topic)
        if stream and options.epoch is not None:
            raise SinkError(f"the option epoch={options.epoch} is for batch writes: a stream's epochs are its batches")
        default_id = f"write-{uuid.uuid4()}"
        sink_id = options.sink_id or (None if stream else default_id)
        return PenstockWriter(options, default_id, prepare(options, sink_id, None) if sink_id else None)
