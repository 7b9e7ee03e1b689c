"""Epochs of a DataFrame written from the driver, as `foreachBatch` calls it. Unlike `format("penstock")`, it knows the number of
tasks, so that a repeated epoch with another number is refused before a task runs."""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from services.pipeline.sink import steps
from services.pipeline.sink.client.errors import SinkError
from services.pipeline.sink.encoded_headers import with_encoded_headers
from services.pipeline.sink.entry_checks import check_entries
from services.pipeline.sink.handouts import prepare
from services.pipeline.sink.ledger import LedgerEntry
from services.pipeline.sink.options import SinkOptions, read_options
from services.pipeline.sink.schema import check_columns
from services.pipeline.sink.task_identity import Handout, TaskIdentity
from services.pipeline.sink.task_writer import SEVERAL, write_task

COUNTS = "rows bigint, bytes bigint"
ADAPTIVE = "spark.sql.adaptive.enabled"


def last_epoch(options: SinkOptions, sink_id: str) -> int | None:
    """The newest epoch of which a task has committed."""
    entries = prepare(options, sink_id, None).view.entries.values()
    return max((entry.epoch for entry in entries), default=None)


@dataclass(frozen=True)
class EpochWritten:
    epoch: int
    rows: int
    bytes: int
    tasks: int


class EpochWriter:
    """Writes DataFrames to the sink `sink_id`. `writer`: who does; another writer of the same sink id is refused."""

    def __init__(self, options: Mapping[str, str], sink_id: str, writer: str) -> None:
        self.options: SinkOptions = read_options(options)
        self._sink_id = sink_id
        self._writer = writer

    def begun_with(self, epoch: int) -> int | None:
        """The number of tasks of an epoch of which a task has committed. None: none has."""
        entries = prepare(self.options, self._sink_id, None).view.entries.values()
        return next((entry.tasks for entry in entries if entry.epoch == epoch), None)

    def __call__(self, frame: DataFrame, epoch: int, *, tasks: int | None = None, rows_are_gone: bool = False) -> EpochWritten:
        """Returns when every task has committed. Raises SinkError before any task runs, or what Spark raises when a task fails.

        Repeated with the same rows in each task, it writes only what is missing. The plan must not be adaptive: Spark could then
        choose another number of tasks. `tasks`: how many the frame has; None: Spark is asked, which makes a plan.
        `rows_are_gone`: the repeated epoch may have fewer rows than those that were committed.
        """
        steps.reached("before the epoch")
        check_columns({field.name: field.dataType.simpleString() for field in frame.schema.fields}, self.options.topic)
        if frame.sparkSession.conf.get(ADAPTIVE) == "true":
            raise SinkError(f"{ADAPTIVE} is on: tasks of a repeated epoch would not be the same, so set it to false")
        tasks = frame.rdd.getNumPartitions() if tasks is None else tasks
        handout = replace(prepare(self.options, self._sink_id, tasks), rows_are_gone=rows_are_gone)
        run = str(uuid.uuid4())
        check_entries(
            LedgerEntry(self._sink_id, 0, epoch, tasks, self.options.topic or SEVERAL, self._writer, run=run), handout.view
        )
        steps.reached("before tasks")
        written = with_encoded_headers(frame).mapInArrow(self._task_function(epoch, run, handout), COUNTS).collect()
        steps.reached("after tasks")
        return EpochWritten(epoch, sum(row.rows for row in written), sum(row.bytes for row in written), tasks)

    def _task_function(self, epoch: int, run: str, handout: Handout):  # type: ignore[no-untyped-def]
        options, sink_id, writer = self.options, self._sink_id, self._writer

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            context = TaskContext.get()
            assert context is not None
            task = TaskIdentity(sink_id, context.partitionId(), epoch, handout.tasks, writer, run)
            entry = write_task(batches, task, options, handout)
            yield pa.record_batch({"rows": [entry.rows], "bytes": [entry.payload_bytes]})

        return write
