"""Which part of which epoch a task writes, and what the driver told it of the ledger."""

from collections.abc import Mapping
from dataclasses import dataclass

from services.pipeline.sink.client.errors import SinkError
from services.pipeline.sink.client.requests import TopicPartition
from services.pipeline.sink.ledger import LedgerView
from services.pipeline.sink.options import SinkOptions


@dataclass(frozen=True)
class Handout:
    """What the driver gives to all tasks of an epoch. `view`: the ledger's entries of this sink, and where to read on.

    `tasks`: of the epoch, None if Spark does not say. `rows_are_gone`: the input has lost rows since the epoch was begun.
    """

    ledger: TopicPartition
    view: LedgerView
    tasks: int | None = None
    rows_are_gone: bool = False


@dataclass(frozen=True)
class TaskIdentity:
    """`run`: one driver's attempt at the epoch, the same for all of its tasks.

    `enters_no_rows`: a task without rows has an entry, too, since the epoch may be given again with rows for it.
    """

    sink_id: str
    task: int
    epoch: int
    tasks: int | None
    writer: str
    run: str = ""
    enters_no_rows: bool = False

    @property
    def transactional_id(self) -> str:
        return f"{self.sink_id}-{self.task}"


BATCH_ID = "streaming.sql.batchId"
QUERY_ID = "sql.streaming.queryId"
"""Local properties that Spark sets for the tasks of a streaming query."""


def task_of_stream(options: SinkOptions, task: int, properties: Mapping[str, str | None], run: str) -> TaskIdentity:
    """A task of a stream that writes to the sink itself: each batch is an epoch. `properties`: the task's local properties."""
    query, batch = properties[QUERY_ID], properties[BATCH_ID]
    assert query is not None, "Spark sets it for every task of a stream"
    assert batch is not None, "Spark sets it for every task of a stream"
    return TaskIdentity(options.sink_id or query, task, int(batch), None, query, run)


def task_of_batch_write(options: SinkOptions, task: int, properties: Mapping[str, str | None], run: str) -> TaskIdentity:
    """A task of a `save()`. It counts once if it has a sink id; without one, its run is its sink. Raises SinkError.

    In `foreachBatch`, the epoch is the batch's number unless it is given.
    """
    query, batch = properties[QUERY_ID], properties[BATCH_ID]
    if options.sink_id is None:
        if query is not None:
            raise SinkError(
                "a save() inside foreachBatch needs the option sink.id, another one for each save() of a batch: "
                "without it, a repeated batch would write its rows again"
            )
        return TaskIdentity(run, task, 0, None, run, run)
    epoch = options.epoch if options.epoch is not None else batch
    if epoch is None:
        raise SinkError(
            f"a save() with sink.id={options.sink_id} needs the option epoch, a number of its own for each save() of other rows"
        )
    return TaskIdentity(options.sink_id, task, int(epoch), None, query or options.sink_id, run, enters_no_rows=True)
