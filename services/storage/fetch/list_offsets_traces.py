"""Spans of ListOffsets at the node that answers: of traced, slow and failed ones."""

from collections.abc import Sequence

from libs.rpc.contracts.storage import ListedOffset, ListOffsets
from libs.rpc.server.call import Call
from libs.telemetry.tracing.conventions import (
    DESTINATION_NAME,
    DESTINATION_PARTITION_ID,
    KAFKA,
    MESSAGING_SYSTEM,
    NODE_ID,
    PARTITIONS,
    REASON,
)
from libs.telemetry.tracing.guard import GUARDED
from libs.telemetry.tracing.recorder import SpanRecorder
from libs.telemetry.tracing.rpc_context import unpack_context
from libs.telemetry.tracing.span import AttributeValue
from libs.wire.api_keys import ApiKey
from libs.wire.errors import error_name
from services.storage.partition.partition_table import PartitionTable
from services.storage.partition.trace_reasons import TraceReasons, first_unexpected


class ListOffsetsTraces:
    def __init__(self, partitions: PartitionTable, recorder: SpanRecorder) -> None:
        self._reasons = TraceReasons(recorder, ApiKey.LIST_OFFSETS)
        self._partitions = partitions
        self._recorder = recorder

    @GUARDED
    def answered(self, call: Call, request: ListOffsets, offsets: Sequence[ListedOffset], found_at: float, now: float) -> None:
        """Makes the spans of a request that is answered now, if it has any. `found_at`: when the offsets were known. Then the
        node may have had to make sure that it still leads."""
        if not request.partitions:
            return
        error = first_unexpected(offset.error for offset in offsets)
        begun = self._reasons.begin(call, unpack_context(call.trace), now - call.received_at, error, now)
        if begun is None:
            return
        _, tree, reason = begun
        first = request.partitions[0]
        partition = self._partitions.by_key.get((first.topic_id, first.partition))
        topic = partition.topic if partition is not None else first.topic_id.hex()
        attributes: dict[str, AttributeValue] = {
            MESSAGING_SYSTEM: KAFKA,
            DESTINATION_NAME: topic,
            DESTINATION_PARTITION_ID: str(first.partition),
            PARTITIONS: len(request.partitions),
            NODE_ID: self._partitions.node_id,
        }
        if reason is not None:
            attributes[REASON] = reason
        failed = error_name(error) if error else None
        tree.root(f"list offsets {topic}", call.received_at, now, attributes, error=failed)
        tree.child("lookup", call.received_at, found_at)
        if now > found_at:
            tree.child("confirm leadership", found_at, now)
        self._recorder.record(tree.spans)
