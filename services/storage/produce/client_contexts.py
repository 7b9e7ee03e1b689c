"""The trace contexts in compressed batches, which gateways cannot see. Only batches that are opened anyway are looked at."""

from libs.runtime.record_contexts import WANTED, RecordContexts
from libs.telemetry.tracing.recorder import SpanRecorder
from libs.wire.record_batches.first_record import WantedHeader
from libs.wire.record_batches.opened_batches import OpenedBatch, RefusedBatch
from services.storage.produce.validation_job import PendingBatch


class ClientContexts:
    def __init__(self, recorder: SpanRecorder) -> None:
        self._contexts = RecordContexts(recorder)
        self._heeds_clients = recorder.rules.heeds_clients

    def wanted(self, batch: PendingBatch, now: float) -> WantedHeader | None:
        """What to ask the first record of a batch for that is opened now. None: nothing, or there were too many looks."""
        if not self._heeds_clients or not batch.header.codec or batch.request.context_of(batch.slot) is not None:
            return None
        return WANTED if self._contexts.may_look(now) else None

    def take(self, batch: PendingBatch, outcome: OpenedBatch | RefusedBatch) -> None:
        """Notes the context of a sampled client in the batch's request, whose gateway hears of it with the answer."""
        if isinstance(outcome, OpenedBatch) and outcome.header is not None:
            context = self._contexts.of_text(outcome.header)
            if context is not None and context.sampled:
                batch.request.found_context(batch.slot, context)
