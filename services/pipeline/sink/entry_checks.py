"""What the ledger allows a task to do. Each refusal is one sentence, and comes before anything is written."""

from collections.abc import Iterable

from services.pipeline.sink.client.errors import SinkError
from services.pipeline.sink.ledger import LedgerEntry, LedgerView
from services.pipeline.sink.rows import RowCounts


def check_entries(mine: LedgerEntry, view: LedgerView) -> LedgerEntry | None:
    """The entry that makes this task's work unnecessary. None: the task has to write. Raises SinkError.

    `mine`: what the task would enter, without counts.
    """
    for entry in view.entries.values():
        if entry.sink_id == mine.sink_id:
            _check_owner(mine, entry)
            _check_tasks(mine, entry)
    written = view.entries.get(mine.key().decode())
    return written if written is not None and written.epoch == mine.epoch else None


def entries_of_earlier_runs(mine: LedgerEntry, view: LedgerView) -> list[LedgerEntry]:
    """What another driver's attempt at the same epoch has committed."""
    return [
        entry
        for entry in view.entries.values()
        if (entry.sink_id, entry.epoch) == (mine.sink_id, mine.epoch) and entry.run != mine.run
    ]


def check_other_tasks(mine: LedgerEntry, earlier: Iterable[LedgerEntry], counts: RowCounts) -> None:
    """Raises SinkError if an earlier run of the epoch has committed this task's rows, as those of a task of another number."""
    for entry in earlier:
        if counts.rows and _has(entry, counts):
            raise SinkError(
                f"sink {mine.sink_id}, epoch {mine.epoch}, task {mine.task}: its {counts.rows} rows were committed as task "
                f"{entry.task}; Spark has numbered the tasks of the repeated batch anew, so spread rows by their content"
            )


def check_rows(written: LedgerEntry, counts: RowCounts) -> None:
    """Raises SinkError if a repeated task has other rows than those that were committed."""
    if not _has(written, counts):
        raise SinkError(
            f"sink {written.sink_id}, epoch {written.epoch}, task {written.task}: {written.rows} rows "
            f"({written.payload_bytes} bytes) were committed, and the repeated task has {counts.rows} "
            f"({counts.payload_bytes} bytes) or others: "
            f"the query must give each task the same rows when a batch is repeated, and other rows need an epoch of their own"
        )


def _has(entry: LedgerEntry, counts: RowCounts) -> bool:
    return (entry.rows, entry.payload_bytes, entry.fingerprint) == (counts.rows, counts.payload_bytes, counts.fingerprint)


def _check_owner(mine: LedgerEntry, entry: LedgerEntry) -> None:
    if entry.writer != mine.writer:
        raise SinkError(
            f"sink.id={mine.sink_id} belongs to the query {entry.writer}, not to {mine.writer}: choose another sink.id"
        )
    if entry.topic != mine.topic:
        raise SinkError(f"sink.id={mine.sink_id} writes to {entry.topic}, not to {mine.topic}: choose another sink.id")
    if entry.epoch > mine.epoch:
        raise SinkError(
            f"sink {mine.sink_id} has committed epoch {entry.epoch}, so epoch {mine.epoch} comes too late: "
            f"another run of the query is ahead, or the checkpoint is an old copy"
        )


def _check_tasks(mine: LedgerEntry, entry: LedgerEntry) -> None:
    if entry.epoch == mine.epoch and None not in (entry.tasks, mine.tasks) and entry.tasks != mine.tasks:
        raise SinkError(
            f"epoch {mine.epoch} of sink {mine.sink_id} was begun with {entry.tasks} tasks and is repeated with {mine.tasks}: "
            f"run it once with the former number, then change it"
        )
