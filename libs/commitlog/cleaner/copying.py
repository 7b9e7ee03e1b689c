"""The second pass: it copies the records that are still needed, from the log's start to the end of the offset map.

A batch that cannot be opened stays as it is: it is too large, or a client filled it with bytes that are no records. It may have
any key, so tombstones behind it stay, too: without them a deleted key would have its value from there again.
"""

from libs.commitlog.cleaner.job import CleanJob
from libs.commitlog.cleaner.offset_map import OffsetMap
from libs.commitlog.cleaner.output import POSITION_MAX, Output
from libs.commitlog.cleaner.rebuilding import empty_batch, rebuilt_batch
from libs.commitlog.cleaner.record_bytes import InvalidRecord, RetainedRecords, retained_records
from libs.commitlog.cleaner.source import Batch, Source, TooLargeToOpen
from libs.commitlog.cleaner.transactions import CleanedTransactions, UnindexedAbort
from libs.wire.record_batches.batches import CONTROL, DELETE_HORIZON, TRANSACTIONAL, BatchHeader
from libs.wire.record_batches.markers import read_marker


class Copier:
    """The second pass: it copies all sources in order, across outputs, since transactions span segments."""

    def __init__(self, job: CleanJob, keys: OffsetMap, end_offset: int, transactions: CleanedTransactions) -> None:
        self._job = job
        self._offset_of = keys.offsets.get
        self._end_offset = end_offset
        self._transactions = transactions
        self._growth_max = 0
        self.records_read = 0
        self.records_kept = 0
        self.unopened = 0
        """Batches that could not be opened."""
        self.first_unopened = -1
        self.why_unopened = ""

    def begin(self, source_bytes: int) -> None:
        """Begins a new output, made from so many bytes."""
        self._growth_max = POSITION_MAX - source_bytes

    def copy(self, source: Source, output: Output) -> None:
        """Raises LogDamaged, OSError."""
        end_offset = self._end_offset
        try:
            for batch in source.batches():
                header = batch.header
                self.records_read += header.record_count
                if header.base_offset >= end_offset:
                    self._copy_unmapped(batch, output)
                elif header.attributes & CONTROL:
                    self._copy_control(batch, output)
                else:
                    try:
                        self._copy_data(batch, output)
                    except (TooLargeToOpen, InvalidRecord) as error:
                        self._keep_unopened(batch, output, error)
                        source.goes_on()
        except (InvalidRecord, UnindexedAbort) as error:
            raise source.damaged(error) from error

    def _copy_unmapped(self, batch: Batch, output: Output) -> None:
        """Copies batches behind the end of the map as they are: the next pass cleans them."""
        header = batch.header
        if header.attributes & CONTROL:
            self._note_control(batch, output)
        elif header.attributes & TRANSACTIONAL:
            self._transactions.aborts(header)
        self._keep(batch, output)

    def _copy_control(self, batch: Batch, output: Output) -> None:
        header = batch.header
        is_useless = self._note_control(batch, output)
        if is_useless and not header.record_count:
            self._retain_empty(batch, output)
        elif not is_useless:
            self._keep(batch, output)
        elif not header.attributes & DELETE_HORIZON:
            data, start, stop = batch.records()
            self._rebuild(batch, output, data, RetainedRecords(header.record_count, [(start, stop)], False), begins_horizon=True)
        elif self._job.now_ms < header.base_timestamp:
            self._keep(batch, output)
        else:
            self._retain_empty(batch, output)

    def _note_control(self, batch: Batch, output: Output) -> bool:
        """Whether the marker can be dropped without a loss."""
        header = batch.header
        if not header.record_count:
            return True
        marker = read_marker(batch.view[batch.start : batch.stop])
        if marker is None:
            return False
        is_useless, aborted = self._transactions.end(header, marker)
        if aborted is not None:
            output.add_aborted(aborted)
        return is_useless

    def _copy_data(self, batch: Batch, output: Output) -> None:
        header = batch.header
        attributes, count = header.attributes, header.record_count
        if attributes & TRANSACTIONAL and self._transactions.aborts(header):
            self._retain_empty(batch, output)
            return
        has_horizon = attributes & DELETE_HORIZON
        data, start, stop = batch.records()
        retained = retained_records(
            self._offset_of,
            data,
            start,
            stop,
            count,
            header.base_offset,
            header.last_offset_delta,
            not has_horizon or self._job.now_ms < header.base_timestamp or self.unopened > 0,
        )
        begins_horizon = retained.tombstones and not has_horizon
        if not retained.record_count:
            self._retain_empty(batch, output)
        elif retained.record_count == count and not begins_horizon:
            self._keep(batch, output)
        else:
            self._rebuild(batch, output, data, retained, begins_horizon=begins_horizon)

    def _keep(self, batch: Batch, output: Output) -> None:
        self.records_kept += batch.header.record_count
        output.keep(batch)

    def _keep_unopened(self, batch: Batch, output: Output, error: Exception) -> None:
        if not self.unopened:
            self.first_unopened, self.why_unopened = batch.header.base_offset, str(error)
        self.unopened += 1
        self._keep(batch, output)

    def _rebuild(self, batch: Batch, output: Output, data: bytes, retained: RetainedRecords, *, begins_horizon: bool) -> None:
        horizon_ms = self._job.now_ms + self._job.delete_retention_ms if begins_horizon else None
        rebuilt, max_timestamp = rebuilt_batch(batch.header, data, retained, horizon_ms)
        growth = len(rebuilt) - (batch.stop - batch.start)
        if growth > 0:
            # A horizon makes records longer, and another level may compress less. Positions are 32 bits wide. If the batch does
            # not fit, it stays as it is until a later pass has more room.
            if growth > self._growth_max:
                self._keep(batch, output)
                return
            self._growth_max -= growth
        self.records_kept += retained.record_count
        output.add(rebuilt, batch.header.last_offset, max_timestamp)

    def _retain_empty(self, batch: Batch, output: Output) -> None:
        """Handles a batch without remaining records. Its header stays while it alone tells something about its producer."""
        header = batch.header
        if self._is_last_of_producer(header) or header.last_offset + 1 == self._end_offset:
            if header.record_count:
                output.add(empty_batch(header), header.last_offset, header.max_timestamp)
            else:
                output.keep(batch)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        producer = self._job.producers.get(header.producer_id)
        if producer is None or header.producer_id < 0:
            return False
        if producer.last_data_offset >= 0:
            return header.last_offset == producer.last_data_offset
        return header.is_control and header.producer_epoch == producer.epoch
