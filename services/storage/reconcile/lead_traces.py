"""The last step of an election as a span: from the image that names this node as a leader until it leads.

The controller has made the other steps (`services/controller/elections/election_traces.py`). Both derive the trace's ids from the
partition and its new epoch.
"""

from typing import Final

from libs.telemetry.tracing import conventions
from libs.telemetry.tracing.guard import GUARDED
from libs.telemetry.tracing.ids import election_context, random_span_id
from libs.telemetry.tracing.recorder import SpanRecorder
from libs.telemetry.tracing.sampling import Allowance
from libs.telemetry.tracing.span import AttributeValue, SpanContext, SpanKind
from services.storage.partition.partition import Partition

LEADS_PER_SECOND: Final = 8
"""The partitions a second that have such a span. A node may begin to lead thousands at once."""


class LeadTraces:
    """Those of one node."""

    def __init__(self, recorder: SpanRecorder) -> None:
        self._recorder = recorder
        self._allowance = Allowance(LEADS_PER_SECOND)

    @GUARDED
    def leads(self, partition: Partition, leader_epoch: int, image_at: float, now: float) -> None:
        """The partition has its leader. Loop times. Its first leader was named with the topic, without an election."""
        recorder = self._recorder
        if not leader_epoch or not self._allowance.takes(1, now) or not recorder.admits(now):
            return
        election = election_context(*partition.key, leader_epoch)
        own = SpanContext(election.trace_id, random_span_id(recorder.random), election.sampled)
        tree = recorder.tree(own, election.span_id)
        attributes: dict[str, AttributeValue] = {
            conventions.DESTINATION_NAME: partition.topic,
            conventions.DESTINATION_PARTITION_ID: str(partition.key[1]),
            conventions.NODE_ID: partition.node_id,
            conventions.LEADER_EPOCH: leader_epoch,
            conventions.KAFKA_OFFSET: partition.log_end_offset,
        }
        tree.root(f"lead {partition}", image_at, now, attributes, kind=SpanKind.INTERNAL)
        recorder.record(tree.spans)
