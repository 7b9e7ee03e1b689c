"""The trace contexts that clients put into records, read at a bounded rate. Nothing that clients send is an error.

Only the first record of an uncompressed batch is looked at, which costs 3 to 5 µs. No compressed batch is opened for it. Whoever
opens one anyway may look then, and has `of_text` parse what it found.
"""

from typing import Final

from libs.telemetry.tracing.recorder import SpanRecorder
from libs.telemetry.tracing.span import SpanContext
from libs.telemetry.tracing.traceparent import TRACEPARENT, TRACEPARENT_BYTES_MAX, parse_traceparent
from libs.wire.record_batches.batch_layout import CODEC_MASK, FLAGS_AT, HEADER_SIZE
from libs.wire.record_batches.first_record import WantedHeader, wanted_header
from libs.wire.record_batches.varints import Buffer

WANTED: Final = WantedHeader(TRACEPARENT.encode(), TRACEPARENT_BYTES_MAX)


class RecordContexts:
    """Those of one process. Its recorder counts them."""

    def __init__(self, recorder: SpanRecorder) -> None:
        self._recorder = recorder

    def may_look(self, now: float) -> bool:
        """Whether another batch may be looked at this second. If so, this counts as a look."""
        return self._recorder.looks.takes(1, now)

    def of_batch(self, batch: Buffer, now: float) -> SpanContext | None:
        """The context in a produced batch that nobody has checked. None: it has none, it is compressed, or there were too many
        looks this second."""
        if len(batch) <= HEADER_SIZE or batch[FLAGS_AT] & CODEC_MASK or not self.may_look(now):
            return None
        return self.of_text(wanted_header(batch, WANTED, HEADER_SIZE))

    def of_text(self, text: bytes | None) -> SpanContext | None:
        """The context that a first record's `traceparent` says. `text`: None if the record has none."""
        if text is None:
            return None
        try:
            context = parse_traceparent(text)
        except ValueError:
            self._recorder.malformed_contexts += 1
            return None
        self._recorder.contexts += 1
        return context
