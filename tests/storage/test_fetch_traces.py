"""Spans of fetches at the node that reads: of those that a gateway traces, and of slow ones, whether they waited or not."""

from time import monotonic

import pytest

from libs.rpc.contracts.storage import FETCH, Fetch, FetchPartition
from libs.telemetry.tracing.rpc_context import pack_context
from libs.telemetry.tracing.sampling import TraceRules
from libs.telemetry.tracing.span import SpanContext
from services.storage.fetch import fetches
from services.storage.fetch.reading import Reading, read
from tests.storage.cluster import WAIT_S, StorageCluster, batch, fetched

CONTEXT = SpanContext(0xABC, 0xDEF)
LOOKUP_S = 0.02


@pytest.fixture
def slow_lookups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each lookup takes `LOOKUP_S` of the event loop."""

    def slowly(*arguments: object) -> Reading:
        ends_at = monotonic() + LOOKUP_S
        while monotonic() < ends_at:
            pass
        return read(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(fetches, "read", slowly)


async def topic_with_a_record(cluster: StorageCluster) -> bytes:
    topic = await cluster.topic("orders")
    await cluster.append(topic, batch(b"a"))
    return topic


@pytest.mark.usefixtures("slow_lookups")
async def test_a_traced_fetch_that_is_answered_at_once_shows_its_lookup(cluster: StorageCluster) -> None:
    assert cluster.client is not None
    topic = await topic_with_a_record(cluster)
    fetch = Fetch(0, 1, 1 << 20, 0, (FetchPartition(topic, 0, 0, 1 << 20),))
    await cluster.client.call(FETCH, fetch, timeout_s=WAIT_S, trace=pack_context(CONTEXT))
    root, lookup = [span for span in cluster.spans if span.context.trace_id == CONTEXT.trace_id]
    assert (root.name, root.parent_id) == ("read orders", CONTEXT.span_id)
    assert (lookup.name, lookup.parent_id) == ("lookup", root.context.span_id)
    assert root.start_ns == lookup.start_ns
    assert LOOKUP_S * 1e9 <= lookup.end_ns - lookup.start_ns <= root.end_ns - root.start_ns


@pytest.mark.usefixtures("slow_lookups")
@pytest.mark.parametrize(("slow_ms", "names"), [(10, ["read orders", "lookup"]), (60_000, [])])
async def test_a_fetch_that_is_answered_at_once_has_a_trace_if_it_was_slow(
    cluster: StorageCluster, slow_ms: int, names: list[str]
) -> None:
    cluster.trace_rules = TraceRules(slow_ms=slow_ms)
    await cluster.stop()
    await cluster.start()
    topic = await topic_with_a_record(cluster)
    (answer,) = fetched(await cluster.fetching(topic, 0))
    assert len(answer.ranges) == 1
    assert [span.name for span in cluster.spans if span.name in ("read orders", "lookup")] == names


async def test_a_wait_begins_after_the_lookup(cluster: StorageCluster) -> None:
    assert cluster.client is not None
    topic = await topic_with_a_record(cluster)
    fetch = Fetch(10, 1, 1 << 20, 0, (FetchPartition(topic, 0, 1, 1 << 20),))
    await cluster.client.call(FETCH, fetch, timeout_s=WAIT_S, trace=pack_context(CONTEXT))
    _, lookup, poll = [span for span in cluster.spans if span.context.trace_id == CONTEXT.trace_id]
    assert (lookup.name, poll.name) == ("lookup", "long poll")
    assert poll.start_ns == lookup.end_ns


@pytest.mark.parametrize(
    ("offset", "current_epoch", "names"),
    [(7, -1, ["read orders"]), (0, 99, [])],
    ids=["an offset that does not exist", "an epoch that this node does not know yet"],
)
async def test_a_fetch_that_fails_has_a_trace_unless_another_leader_will_answer_it(
    cluster: StorageCluster, offset: int, current_epoch: int, names: list[str]
) -> None:
    assert cluster.client is not None
    topic = await topic_with_a_record(cluster)
    fetch = Fetch(0, 1, 1 << 20, 0, (FetchPartition(topic, 0, offset, 1 << 20, current_epoch),))
    response = await cluster.client.call(FETCH, fetch, timeout_s=WAIT_S)
    assert response.body[0][0][0] != 0
    roots = [span for span in cluster.spans if span.name.startswith("read ")]
    assert [root.name for root in roots] == names
    assert [root.error for root in roots] == ["OFFSET_OUT_OF_RANGE"] * len(names)
