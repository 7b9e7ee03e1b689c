"""What one task does: one transaction with its rows and its ledger entry, unless the ledger says that this was done.

The order is the argument (docs/pipeline/sink.md): fence others, let a record of ours into the ledger, read the ledger up to it,
write rows, write the entry, commit.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

import pyarrow as pa

from services.pipeline.sink import ledger, steps
from services.pipeline.sink.client.cluster import ClusterClient
from services.pipeline.sink.client.errors import Fenced, Refused, SinkError
from services.pipeline.sink.client.transactional_producer import TransactionalProducer
from services.pipeline.sink.columns import record_columns
from services.pipeline.sink.entry_checks import check_entries, check_other_tasks, check_rows, entries_of_earlier_runs
from services.pipeline.sink.ledger import LedgerEntry, LedgerView
from services.pipeline.sink.options import SinkOptions
from services.pipeline.sink.record_encoder import RecordBatch, encode
from services.pipeline.sink.rows import RowEncoder, gathered, spooled
from services.pipeline.sink.task_identity import Handout, TaskIdentity

QUEUED_BYTES_MAX = 32 << 20
POLL_S = 0.2
SEVERAL = "rows name their topics"


def write_task(batches: Iterable[pa.RecordBatch], task: TaskIdentity, options: SinkOptions, handout: Handout) -> LedgerEntry:
    """The committed entry, of this attempt or of another. Raises SinkError.

    A task without rows writes at most its entry, and none in a stream: most tasks of a small batch have no rows.
    """
    rows = gathered(batches)
    first = next(rows, None)
    cluster = ClusterClient(options.bootstrap, options.security)
    try:
        writer = _TaskWriter(cluster, task, options, handout)
        if first is None and not task.enters_no_rows:
            return writer.without_rows()
        return writer.write(rows if first is None else chain([first], rows))
    except Refused as error:
        raise SinkError(f"{_name(task)}: {error}") from error
    finally:
        cluster.close()


def _name(task: TaskIdentity) -> str:
    return f"sink {task.sink_id}, epoch {task.epoch}, task {task.task}"


class _TaskWriter:
    def __init__(self, cluster: ClusterClient, task: TaskIdentity, options: SinkOptions, handout: Handout) -> None:
        self.entry = LedgerEntry(
            task.sink_id, task.task, task.epoch, task.tasks, options.topic or SEVERAL, task.writer, run=task.run
        )
        self._cluster = cluster
        self._task = task
        self._options = options
        self._handout = handout
        self._encoder = RowEncoder(cluster, options.topic, options.batch_bytes)
        self._producer = TransactionalProducer(
            cluster, task.transactional_id, timeout_ms=options.transaction_timeout_ms, codec=options.codec
        )
        self._started = time.monotonic()

    def without_rows(self) -> LedgerEntry:
        """What the driver has read of the ledger is enough: nothing is written that could come twice."""
        written = check_entries(self.entry, self._handout.view)
        if written is None:
            return self.entry
        self._check_skipped(iter(()), written)
        return written

    def write(self, batches: Iterator[pa.RecordBatch]) -> LedgerEntry:
        try:
            steps.reached("before InitProducerId")
            self._producer.begin()
            steps.reached("after InitProducerId")
            self._started = time.monotonic()
            view = self._ledger_now()
            written = check_entries(self.entry, view)
            if written is None:
                return self._write_unless_committed(batches, view)
            self._producer.abort()
        except Fenced as error:
            written = self._await_other_attempt(error)
        except BaseException:
            self._abort_quietly()
            raise
        finally:
            self._producer.close()
        self._check_skipped(batches, written)
        return written

    def _ledger_now(self) -> LedgerView:
        """The ledger up to a record of this attempt: a leader that acknowledged it knows all that was committed before."""
        self._producer.add(self._handout.ledger, _ledger_batch(self.entry))
        self._producer.drain()
        through = self._producer.last_base_offset(self._handout.ledger)
        return ledger.read(self._cluster, self._handout.ledger, self._handout.view, through=through)

    def _write_unless_committed(self, batches: Iterator[pa.RecordBatch], view: LedgerView) -> LedgerEntry:
        """A driver that knows the number of tasks has spread the rows by their content: they cannot be another task's."""
        earlier = entries_of_earlier_runs(self.entry, view)
        if self._task.tasks is not None or not earlier:
            return self._write_rows(batches)
        counter = RowEncoder(self._cluster, self._options.topic, self._options.batch_bytes)
        with spooled(batches, counter.count) as rows:
            check_other_tasks(self.entry, earlier, counter.counts)
            return self._write_rows(rows)

    def _write_rows(self, batches: Iterator[pa.RecordBatch]) -> LedgerEntry:
        for batch in batches:
            for place, encoded in self._encoder.encode(batch):
                self._producer.add(place, encoded)
            self._producer.pump()
            self._producer.drain(QUEUED_BYTES_MAX)
        self._producer.drain()
        steps.reached("after produce")
        counts = self._encoder.counts
        entry = replace(self.entry, rows=counts.rows, payload_bytes=counts.payload_bytes, fingerprint=counts.fingerprint)
        self._producer.add(self._handout.ledger, _ledger_batch(entry))
        self._producer.drain()
        steps.reached("before commit")
        self._producer.commit()
        steps.reached("after commit")
        return entry

    def _await_other_attempt(self, fenced: Fenced) -> LedgerEntry:
        """The entry of the attempt that fenced this one, once it has committed."""
        until = time.monotonic() + self._options.fenced_wait_ms / 1000
        view = self._handout.view
        while True:
            view = ledger.read(self._cluster, self._handout.ledger, view)
            entry = check_entries(self.entry, view)
            if entry is not None:
                return entry
            took_ms = int((time.monotonic() - self._started) * 1000)
            if took_ms >= self._options.transaction_timeout_ms and time.monotonic() > until:
                raise SinkError(
                    f"{_name(self._task)}: its transaction took {took_ms} ms, more than kafka.transaction.timeout.ms="
                    f"{self._options.transaction_timeout_ms}: raise that, or give each task fewer rows"
                ) from fenced
            if time.monotonic() > until:
                raise SinkError(
                    f"{_name(self._task)}: another attempt took over ({fenced}) and did not commit within "
                    f"fenced.wait.ms={self._options.fenced_wait_ms}"
                ) from fenced
            time.sleep(POLL_S)

    def _check_skipped(self, batches: Iterator[pa.RecordBatch], written: LedgerEntry) -> None:
        """A task that need not write looks at its rows: they must be those that were written, unless its input has lost some."""
        if self._handout.rows_are_gone:
            return
        for batch in batches:
            self._encoder.count(batch)
        check_rows(written, self._encoder.counts)

    def _abort_quietly(self) -> None:
        """The transaction would end by its timeout, too, but readers would wait for that long."""
        try:
            self._producer.abort()
        except (Fenced, Refused, SinkError):
            pass


def _ledger_batch(entry: LedgerEntry) -> RecordBatch:
    row = pa.record_batch({"key": [entry.key()], "value": [entry.value()]})
    (batch,) = encode(record_columns(row, time.time_ns() // 1_000_000), record_columns(row, 0).timestamps_ms * 0, 1 << 20)
    return batch
