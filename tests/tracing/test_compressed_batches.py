"""A client's `traceparent` in a compressed batch: a leader that opens it anyway finds that, and the request joins the trace."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from confluent_kafka import Producer

from libs.telemetry.tracing.conventions import REASON, WAITED_FOR
from libs.telemetry.tracing.sampling import Reason, TraceRules
from libs.telemetry.tracing.span import Span
from libs.telemetry.tracing.traceparent import TRACEPARENT
from tests.dev import clients
from tests.support.polling import until
from tests.tracing.dev_cluster import TracedCluster, traced_cluster
from tests.tracing.trees import named, tree

ONLY_WHAT_CLIENTS_ASK_FOR = TraceRules(sample_ratio=0.0, slow_ms=600_000, spans_per_second=100_000)
TRACE_ID, CLIENT_SPAN = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7
OPENED, UNOPENED = "opened", "unopened"


@pytest.fixture
async def cluster() -> AsyncIterator[TracedCluster]:
    async with traced_cluster(ONLY_WHAT_CLIENTS_ASK_FOR) as made:
        servers = made.bootstrap_servers
        await asyncio.to_thread(clients.create_topic, servers, OPENED, record_validation="full")
        await asyncio.to_thread(clients.create_topic, servers, UNOPENED)
        yield made


def produce(servers: str, topic: str, codec: str, *, sampled: bool = True, acks: str = "all") -> None:
    """One batch of records that compress well, of which the first has a context."""
    producer = Producer({"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 1000, "acks": acks})
    text = f"00-{TRACE_ID:032x}-{CLIENT_SPAN:016x}-{sampled:02x}"
    for number in range(100):
        headers: list[tuple[str, str | bytes | None]] = [(TRACEPARENT, text)] if number == 0 else []
        producer.produce(topic, b"the same value" * 10, headers=headers)
    assert producer.flush(clients.WAIT_S) == 0


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_a_compressed_batch_that_is_opened_anyway_joins_its_clients_trace(cluster: TracedCluster, codec: str) -> None:
    await asyncio.to_thread(produce, cluster.bootstrap_servers, OPENED, codec)
    spans = await cluster.trace_of(of_the_client, lambda spans: any(span.name == "send" for span in spans))
    assert tree(spans) == [
        "Produce opened",
        "  parse",
        "  storage.append",
        "    append opened",
        "      wait",
        "      check",
        "      write",
        "      sync",
        "  answer",
        "  send",
    ]
    assert named(spans, "wait").attributes == {WAITED_FOR: "validation of records"}
    root = named(spans, "Produce opened")
    assert (root.parent_id, root.attributes[REASON]) == (CLIENT_SPAN, Reason.CLIENT)
    assert {span.context.trace_id for span in cluster.spans} == {TRACE_ID}, "nothing else has a trace"


async def test_without_an_answer_the_leaders_spans_are_the_clients_own(cluster: TracedCluster) -> None:
    """The gateway's request is over before the leader has opened the batch."""
    await asyncio.to_thread(produce, cluster.bootstrap_servers, OPENED, "zstd", acks="0")
    spans = await cluster.trace_of(of_the_client)
    assert tree(spans) == ["append opened", "  wait", "  check", "  write"]
    assert named(spans, "append opened").parent_id == CLIENT_SPAN


@pytest.mark.parametrize(("topic", "sampled"), [(UNOPENED, True), (OPENED, False)])
async def test_a_batch_that_nobody_opens_or_samples_has_no_trace(cluster: TracedCluster, topic: str, sampled: bool) -> None:
    await asyncio.to_thread(produce, cluster.bootstrap_servers, topic, "gzip", sampled=sampled)
    await asyncio.to_thread(produce, cluster.bootstrap_servers, OPENED, "gzip")
    await until(lambda: any(map(of_the_client, cluster.spans)))
    assert [span.name for span in cluster.spans if span.name.startswith("append")] == ["append opened"]


def of_the_client(span: Span) -> bool:
    return span.context.trace_id == TRACE_ID
