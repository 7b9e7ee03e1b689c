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
from services.pipeline.sink.task_identity import BATCH_ID, QUERY_ID, Handout, task_of_batch_write, task_of_stream
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
    """One for each epoch; `run` names this attempt at it.

    Only tasks know a query's id, so a stream without `sink.id` has no handout of its driver.
    """

    def __init__(self, options: SinkOptions, run: str, handout: Handout | None, *, is_stream: bool) -> None:
        self._options = options
        self._run = run
        self._handout = handout
        self._is_stream = is_stream

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        context = TaskContext.get()
        assert context is not None
        properties = {name: context.getLocalProperty(name) for name in (BATCH_ID, QUERY_ID)}
        identify = task_of_stream if self._is_stream else task_of_batch_write
        task = identify(self._options, context.partitionId(), properties, self._run)
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
        return self._writer(schema, is_stream=False)

    def streamWriter(self, schema: StructType, overwrite: bool) -> PenstockWriter:
        if overwrite:
            raise SinkError("a topic keeps what was written: output modes append and update are allowed, complete is not")
        return self._writer(schema, is_stream=True)

    def _writer(self, schema: StructType, *, is_stream: bool) -> PenstockWriter:
        options = read_options(self.options)
        check_columns({field.name: field.dataType.simpleString() for field in schema.fields}, options.topic)
        if is_stream and options.epoch is not None:
            raise SinkError(f"the option epoch={options.epoch} is for batch writes: a stream's epochs are its batches")
        if options.epoch is not None and options.sink_id is None:
            raise SinkError(f"the option epoch={options.epoch} needs the option sink.id, which names the sink whose epoch it is")
        run = f"write-{uuid.uuid4()}"
        sink_id = options.sink_id or (None if is_stream else run)
        return PenstockWriter(options, run, prepare(options, sink_id, None) if sink_id else None, is_stream=is_stream)
