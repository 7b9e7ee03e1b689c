"""The spans of a fetch, from its stage times."""

import pytest

from libs.telemetry.tracing.sampling import Reason
from libs.telemetry.tracing.span import SpanContext
from libs.telemetry.tracing.span_tree import SpanTree
from libs.telemetry.tracing.trace_ring import TraceKind, kind_of
from services.storage.core.fetch.fetch_spans import AnsweredFetch, add_spans


@pytest.mark.parametrize(("reason", "kind"), [(Reason.SLOW, TraceKind.SLOW), (None, TraceKind.SAMPLED)])
def test_a_sampled_fetch_that_is_slow_says_so(reason: Reason | None, kind: TraceKind) -> None:
    tree = SpanTree(SpanContext(1, 9), 8, 0, lambda: 10)
    fetch = AnsweredFetch(
        topic="orders",
        partition=0,
        offset=5,
        partitions=1,
        node_id=1,
        bytes=9,
        received_at=1.0,
        looked_up_at=1.1,
        disk_at=1.2,
        answered_at=2.0,
        parked=True,
        produced=(),
        error=None,
        reason=reason,
    )
    add_spans(fetch, tree)
    assert [span.name for span in tree.spans] == ["read orders", "lookup", "long poll", "cold read"]
    assert kind_of(tree.spans[0]) is kind
