"""Spans of fetches at the node that reads, made when they are answered: of traced, slow and failed ones."""

from libs.rpc.contracts.storage import Fetch
from libs.telemetry.tracing.guard import GUARDED
from libs.telemetry.tracing.recorder import SpanRecorder
from libs.telemetry.tracing.rpc_context import unpack_context
from libs.telemetry.tracing.span import SpanContext
from libs.wire.api_keys import ApiKey
from libs.wire.errors import error_name
from services.storage.core.fetch.fetch_spans import AnsweredFetch, add_spans
from services.storage.core.produce.produced_traces import ProducedTraces
from services.storage.fetch.accepted_fetch import AcceptedFetch
from services.storage.fetch.reading import PartitionRead, Reading
from services.storage.partition.partition_table import PartitionTable
from services.storage.partition.trace_reasons import TraceReasons, first_unexpected


class FetchTraces:
    def __init__(self, partitions: PartitionTable, recorder: SpanRecorder, produced: ProducedTraces) -> None:
        self._reasons = TraceReasons(recorder, ApiKey.FETCH)
        self._partitions = partitions
        self._recorder = recorder
        self._produced = produced

    @property
    def slow_s(self) -> float:
        return self._reasons.slow_s

    @GUARDED
    def answered(self, fetch: AcceptedFetch, reading: Reading, now: float, took_s: float) -> None:
        """Makes the spans of a fetch that is answered now, if it is traced, slow or failed. `took_s`: without its long poll."""
        call, request = fetch.call, fetch.request
        if not request.partitions:
            return
        error = first_unexpected(result.error for result in reading.partitions)
        begun = self._reasons.begin(call, unpack_context(call.trace), took_s, error, now)
        if begun is None:
            return
        _, tree, reason = begun
        first = request.partitions[0]
        partition = self._partitions.by_key.get((first.topic_id, first.partition))
        add_spans(
            AnsweredFetch(
                topic=partition.topic if partition is not None else first.topic_id.hex(),
                partition=first.partition,
                offset=first.fetch_offset,
                partitions=len(request.partitions),
                node_id=self._partitions.node_id,
                bytes=sum([result.slice.length for result in reading.partitions if result.slice is not None]),
                received_at=call.received_at,
                looked_up_at=fetch.looked_up_at,
                disk_at=fetch.disk_at,
                answered_at=now,
                parked=fetch.parked,
                produced=self._stored_by(request, reading),
                error=error_name(error) if error else None,
                reason=reason,
            ),
            tree,
        )
        self._recorder.record(tree.spans)

    def _stored_by(self, request: Fetch, reading: Reading) -> list[SpanContext]:
        """The spans of appends to the first partition that a reader at its end has read. Elsewhere nobody knows where it ends."""
        first, result = request.partitions[0], reading.partitions[0]
        if not _reads_to_the_end(result):
            return []
        return self._produced.between((first.topic_id, first.partition), first.fetch_offset, result.high_watermark)


def _reads_to_the_end(result: PartitionRead) -> bool:
    piece = result.slice
    return piece is not None and piece.position + piece.length >= piece.readable_to
