"""Rows of Arrow batches on their way to partitions: gathered until they are worth a request, then sorted and encoded."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from tempfile import TemporaryFile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from services.pipeline.sink.client.cluster import ClusterClient
from services.pipeline.sink.client.errors import SinkError
from services.pipeline.sink.client.requests import TopicPartition
from services.pipeline.sink.columns import Numbers, RecordColumns, record_columns, slices_of, times_ms
from services.pipeline.sink.fingerprints import fingerprint
from services.pipeline.sink.record_encoder import RecordBatch, encode
from services.pipeline.transforms.partitioning import content_hashes, murmur2, partitions_of_hashes

GATHERED_BYTES = 8 << 20


@dataclass
class RowCounts:
    """What a task has taken. `fingerprint`: a sum over rows, modulo 2**64, that does not depend on their order."""

    rows: int = 0
    payload_bytes: int = 0
    fingerprint: int = 0


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order, in fewer and larger batches."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            size += batch.nbytes
        if size >= GATHERED_BYTES:
            yield pa.concat_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


@contextmanager
def spooled(batches: Iterable[pa.RecordBatch], look_at: Callable[[pa.RecordBatch], None]) -> Iterator[Iterator[pa.RecordBatch]]:
    """The same rows from a temporary file, after all of them were looked at."""
    rows = iter(batches)
    first = next(rows, None)
    if first is None:
        yield iter(())
        return
    with TemporaryFile() as file:
        with pa.ipc.new_stream(file, first.schema) as writer:
            for batch in chain([first], rows):
                look_at(batch)
                writer.write_batch(batch)
        file.seek(0)
        with pa.ipc.open_stream(file) as reader:
            yield iter(reader)


class RowEncoder:
    """Turns rows into record batches for partitions, and counts them."""

    def __init__(self, cluster: ClusterClient, topic: str | None, bytes_max: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._bytes_max = bytes_max
        self._partition_counts: dict[str, int] = {}
        self.counts = RowCounts()

    def encode(self, batch: pa.RecordBatch) -> Iterator[tuple[TopicPartition, RecordBatch]]:
        for topic, rows in self._by_topic(batch):
            yield from self._encode_for(topic, rows)

    def count(self, batch: pa.RecordBatch) -> None:
        """Counts rows without encoding them."""
        for _, rows in self._by_topic(batch):
            self._count(rows, record_columns(rows, 0))

    def _encode_for(self, topic: str, rows: pa.RecordBatch) -> Iterator[tuple[TopicPartition, RecordBatch]]:
        columns = record_columns(rows, time.time_ns() // 1_000_000)
        partitions = self._partitions(topic, rows, columns)
        self._count(rows, columns)
        if np.any(partitions[1:] < partitions[:-1]):
            order = np.argsort(partitions, kind="stable")
            rows, partitions = rows.take(pa.array(order)), partitions[order]
            columns = record_columns(rows, time.time_ns() // 1_000_000)
        for encoded in encode(columns, partitions, self._bytes_max):
            yield TopicPartition(topic, encoded.partition), encoded

    def _by_topic(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self._topic is not None:
            yield self._topic, batch
            return
        column = batch.column("topic")
        if column.null_count:
            raise SinkError("a row has no topic: give the option topic, or let the column topic have no nulls")
        for topic in sorted(pc.unique(column).to_pylist()):
            yield topic, batch.filter(pc.equal(column, topic))

    def _partitions(self, topic: str, rows: pa.RecordBatch, columns: RecordColumns) -> Numbers:
        """The row's own partition, else that of its key, else that of its content."""
        count = self._partition_count(topic)
        if "partition" in rows.schema.names and rows.column("partition").null_count < rows.num_rows:
            self._check_given(topic, rows.column("partition"), count)
        chosen = _given_partitions(rows)
        if count == 1:
            return np.zeros(len(chosen), np.int64)
        keyed = np.flatnonzero((chosen < 0) & ~columns.key_is_null)
        if len(keyed):
            data, starts, lengths = slices_of(columns.keys)
            chosen = _put(chosen, keyed, partitions_of_hashes(murmur2(data, starts[keyed], lengths[keyed]), count))
        rest = np.flatnonzero(chosen < 0)
        if len(rest):
            data, starts, lengths = slices_of(columns.values)
            times = times_ms(rows, 0)[rest]
            chosen = _put(chosen, rest, partitions_of_hashes(content_hashes(data, starts[rest], lengths[rest], times), count))
        return chosen

    def _check_given(self, topic: str, given: pa.Array, count: int) -> None:
        extremes = pc.min_max(given)
        for number in (extremes["min"].as_py(), extremes["max"].as_py()):
            if not 0 <= number < count:
                raise SinkError(
                    f"a row names partition {number} of topic {topic}, which has {count}: 0 to {count - 1} are allowed"
                )

    def _partition_count(self, topic: str) -> int:
        if topic not in self._partition_counts:
            count = self._cluster.partition_count(topic)
            if count is None:
                raise SinkError(f"there is no topic {topic}: create it before rows are written to it")
            self._partition_counts[topic] = count
        return self._partition_counts[topic]

    def _count(self, rows: pa.RecordBatch, columns: RecordColumns) -> None:
        self.counts.rows += rows.num_rows
        self.counts.payload_bytes += int(columns.payload_bytes.sum())
        partitions = _given_partitions(rows) if "partition" in rows.schema.names else None
        of_rows = fingerprint(columns, times_ms(rows, 0), partitions)
        self.counts.fingerprint = (self.counts.fingerprint + of_rows) % (1 << 64)


def _put(chosen: Numbers, rows: Numbers, partitions: Numbers) -> Numbers:
    result = chosen.copy()
    result[rows] = partitions
    return result


def _given_partitions(rows: pa.RecordBatch) -> Numbers:
    """-1 where a row names none."""
    if "partition" not in rows.schema.names:
        return np.full(rows.num_rows, -1, np.int64)
    given = rows.column("partition").cast(pa.int64())
    return np.asarray(pc.fill_null(given, -1).to_numpy(zero_copy_only=False), np.int64)
