"""Spans of appends at their leader, made when they are answered: of those that a gateway traces, of slow and of failed ones."""

from libs.runtime.tracing.call_contexts import derived_from
from libs.telemetry.tracing.guard import GUARDED
from libs.telemetry.tracing.ids import random_span_id
from libs.telemetry.tracing.recorder import SpanRecorder
from libs.telemetry.tracing.span import SpanContext
from libs.telemetry.tracing.span_tree import SpanTree
from libs.wire.api_keys import ApiKey
from libs.wire.errors import error_name
from services.storage.core.produce.append_spans import AnsweredAppend, add_spans
from services.storage.core.produce.produced_traces import ProducedTraces
from services.storage.core.produce.progress_trail import ProgressTrail
from services.storage.partition.partition import Partition
from services.storage.partition.pending_append import NOT_WRITTEN, AppendCall, Staged
from services.storage.partition.trace_reasons import BegunTrace, TraceReasons


class AppendTraces:
    def __init__(self, recorder: SpanRecorder) -> None:
        self._reasons = TraceReasons(recorder, ApiKey.PRODUCE)
        self.recorder = recorder
        self.trail = ProgressTrail()
        """Whoever learns of a replica's progress notes it there while appends wait."""
        self.produced = ProducedTraces()
        """The spans of appends, to which fetches of their records link."""

    @property
    def slow_s(self) -> float:
        return self._reasons.slow_s

    @GUARDED
    def answered(self, partition: Partition, append: Staged, now: float, error: int = 0) -> None:
        """Makes the spans of an append with offsets that is answered now, if it is traced, slow or failed."""
        request = append.request
        begun = self._begin(request, append.slot, now, error)
        if begun is None:
            return
        own, tree, reason = begun
        if not error:
            self.produced.note(partition.key, append.base_offset, own)
        replica, write = partition.replica, append.write
        waited = request.acks == -1 and write is not NOT_WRITTEN
        self._record(
            AnsweredAppend(
                topic=partition.topic,
                partition=partition.key[1],
                node_id=partition.node_id,
                leader_epoch=replica.leader_epoch,
                acks=request.acks,
                base_offset=append.base_offset if not error else -1,
                received_at=request.received_at,
                write=write if write is not NOT_WRITTEN else None,
                answered_at=now,
                synced=replica.synced,
                followers=replica.followers if waited else (),
                in_sync=tuple(replica.isr.committed),
                reached=self.trail.reached(partition.key, append.end_offset, write[2]) if waited else None,
                error=error_name(error) if error else None,
                reason=reason,
                wait=request.wait_of(append.slot),
            ),
            tree,
        )

    @GUARDED
    def refused(self, partition: Partition, request: AppendCall, slot: int, now: float, error: int) -> None:
        """Makes the span of an append that got no offsets, if it is traced, slow or failed."""
        begun = self._begin(request, slot, now, error)
        if begun is None:
            return
        _, tree, reason = begun
        self._record(
            AnsweredAppend(
                topic=partition.topic,
                partition=partition.key[1],
                node_id=partition.node_id,
                leader_epoch=partition.replica.leader_epoch,
                acks=request.acks,
                base_offset=-1,
                received_at=request.received_at,
                write=None,
                answered_at=now,
                synced=False,
                error=error_name(error),
                reason=reason,
                wait=request.wait_of(slot),
            ),
            tree,
        )

    def question(self, request: AppendCall, slot: int) -> SpanContext:
        """The context of a batch's wait for another process, which is told of it. It is not sampled where nobody asked for a
        trace: then both have their parts only of what is slow or fails."""
        told = self._told(request, slot)
        trace = told or derived_from(request.call, self.recorder.process, request.part_of(slot))
        return SpanContext(trace.trace_id, random_span_id(self.recorder.random), sampled=told is not None)

    def _begin(self, request: AppendCall, slot: int, now: float, error: int) -> BegunTrace | None:
        told, took_s = self._told(request, slot), now - request.received_at
        return self._reasons.begin(request.call, told, took_s, error, now, request.part_of(slot))

    def _told(self, request: AppendCall, slot: int) -> SpanContext | None:
        """The span that asked for the append, if somebody decided on a trace: the gateway, or a client that wrote its context
        into a compressed batch. With acks=0 the gateway made no span for that: it hears of no context before the request ends."""
        if (told := request.context_of(slot)) is not None:
            return told
        client = request.client_of(slot)
        if client is None or request.acks == 0:
            return client
        return SpanContext(client.trace_id, derived_from(request.call, self.recorder.process, request.part_of(slot)).span_id)

    def _record(self, append: AnsweredAppend, tree: SpanTree) -> None:
        add_spans(append, tree)
        self.recorder.record(tree.spans)
