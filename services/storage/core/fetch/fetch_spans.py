"""The spans of one fetch at the node that reads, from its stage times."""

from collections.abc import Sequence

from libs.lean_dataclass import dataclass
from libs.telemetry.tracing.conventions import (
    BODY_SIZE,
    DESTINATION_NAME,
    DESTINATION_PARTITION_ID,
    KAFKA,
    KAFKA_OFFSET,
    MESSAGING_SYSTEM,
    NODE_ID,
    PARTITIONS,
    REASON,
)
from libs.telemetry.tracing.sampling import Reason
from libs.telemetry.tracing.span import AttributeValue, Link, SpanContext
from libs.telemetry.tracing.span_tree import SpanTree


@dataclass(frozen=True, slots=True)
class AnsweredFetch:
    """What is known of a fetch when it is answered. Seconds of the loop."""

    topic: str
    """Of the first partition, as the next two."""
    partition: int
    offset: int
    partitions: int
    node_id: int
    bytes: int
    received_at: float
    looked_up_at: float
    """When the first lookup of its records ended."""
    disk_at: float
    """Since when it waited for a disk. 0.0: it did not."""
    answered_at: float
    parked: bool
    produced: Sequence[SpanContext]
    """The spans that stored the records that it read."""
    error: str | None
    reason: Reason | None = None
    """What stands out of it."""


def add_spans(fetch: AnsweredFetch, tree: SpanTree) -> None:
    """Adds the root and its steps."""
    attributes: dict[str, AttributeValue] = {
        MESSAGING_SYSTEM: KAFKA,
        DESTINATION_NAME: fetch.topic,
        DESTINATION_PARTITION_ID: str(fetch.partition),
        KAFKA_OFFSET: fetch.offset,
        PARTITIONS: fetch.partitions,
        NODE_ID: fetch.node_id,
        BODY_SIZE: fetch.bytes,
    }
    if fetch.reason is not None:
        attributes[REASON] = fetch.reason
    links = [Link(context) for context in fetch.produced]
    tree.root(f"read {fetch.topic}", fetch.received_at, fetch.answered_at, attributes, error=fetch.error, links=links)
    tree.child("lookup", fetch.received_at, fetch.looked_up_at)
    polled_until = fetch.disk_at or fetch.answered_at
    if fetch.parked and polled_until > fetch.looked_up_at:
        tree.child("long poll", fetch.looked_up_at, polled_until)
    if fetch.disk_at:
        tree.child("cold read", fetch.disk_at, fetch.answered_at)
