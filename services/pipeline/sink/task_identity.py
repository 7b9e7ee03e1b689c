"""Which part of which epoch a task writes, and what the driver told it of the ledger."""

from collections.abc import Mapping
from dataclasses import dataclass

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
    """`run`: one driver's attempt at the epoch, the same for all of its tasks."""

    sink_id: str
    task: int
    epoch: int
    tasks: int | None
    writer: str
    run: str = ""

    @property
    def transactional_id(self) -> str:
        return f"{self.sink_id}-{self.task}"


BATCH_ID = "streaming.sql.batchId"
QUERY_ID = "sql.streaming.queryId"
"""Local properties that Spark sets for the tasks of a streaming query."""


def identify(
    options: SinkOptions, task: int, tasks: int | None, properties: Mapping[str, str | None], default_id: str
) -> TaskIdentity:
    """`properties`: the task's local properties. `default_id`: of this run, and of a write that is no stream and names no sink id."""
    query = properties.get(QUERY_ID)
    batch = properties.get(BATCH_ID)
    sink_id = options.sink_id or query or default_id
    epoch = options.epoch if options.epoch is not None else int(batch or 0)
    return TaskIdentity(sink_id, task, epoch, tasks, query or sink_id, default_id)
