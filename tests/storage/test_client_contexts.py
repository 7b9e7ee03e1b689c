"""Contexts of clients in compressed batches, which their leader finds where it opens them, and tells their gateway."""

import pytest

from libs.rpc.client.rpc_client import Response
from libs.rpc.contracts.storage import APPEND, Append, AppendPartition, AppendReply
from libs.rpc.messages.schema import unpack
from libs.telemetry.tracing import recorder
from libs.telemetry.tracing.ids import RpcRequest, derived_context
from libs.telemetry.tracing.rpc_context import pack_contexts, unpack_contexts
from libs.telemetry.tracing.sampling import TraceRules
from libs.telemetry.tracing.span import Span, SpanContext
from libs.telemetry.tracing.traceparent import TRACEPARENT, format_traceparent
from libs.wire.record_batches.batch_layout import Codec
from libs.wire.record_batches.records import Record, build_batch
from tests.storage.cluster import NODE_ID, WAIT_S, StorageCluster

OF_CLIENT, OF_GATEWAY = SpanContext(0xABC, 0xDEF), SpanContext(0x123, 0x456)


def batch_with(text: str, codec: Codec = Codec.GZIP) -> bytes:
    headers = [(TRACEPARENT, text.encode())]
    return bytes(build_batch([Record(b"k", b"v" * 1000, -1, headers), *[Record(b"k", b"v" * 1000)] * 9], codec=codec))


async def append(cluster: StorageCluster, topic: bytes, batches: list[bytes], *, traced: int = -1) -> AppendReply:
    """`traced`: the index of the batch whose trace the gateway has decided on."""
    assert cluster.client is not None
    parts = tuple([AppendPartition(topic, 0, -1, len(content)) for content in batches])
    trace = pack_contexts([(traced, OF_GATEWAY)]) if traced >= 0 else None
    response: Response = await cluster.client.call(APPEND, Append(-1, 5000, parts), batches, timeout_s=WAIT_S, trace=trace)
    reply = unpack(AppendReply, response.body)
    assert [each.error for each in reply.partitions] == [0] * len(batches)
    return reply


def appends(cluster: StorageCluster) -> list[Span]:
    return [span for span in cluster.spans if span.name.startswith("append ")]


async def restart(cluster: StorageCluster, rules: TraceRules) -> None:
    cluster.trace_rules = rules
    await cluster.stop()
    await cluster.start()


@pytest.fixture(autouse=True)
async def nothing_is_slow(cluster: StorageCluster) -> None:
    await restart(cluster, TraceRules(slow_ms=600_000))


async def test_the_answer_tells_the_context_and_the_spans_are_below_the_gateways(cluster: StorageCluster) -> None:
    topic = await cluster.topic("orders", record_validation="full")
    reply = await append(cluster, topic, [batch_with(format_traceparent(OF_CLIENT))])
    assert unpack_contexts(reply.contexts) == [(0, OF_CLIENT)]
    (span,) = appends(cluster)
    request = RpcRequest("gateway-2-1", f"storage-{NODE_ID}-{cluster.incarnation}", 1)
    assert span.context.trace_id == OF_CLIENT.trace_id
    assert span.parent_id == derived_context(request).span_id


async def test_a_batch_that_its_gateway_traces_already_is_not_looked_at(cluster: StorageCluster) -> None:
    topic = await cluster.topic("orders", record_validation="full")
    batches = [batch_with(format_traceparent(OF_CLIENT))] * 2
    reply = await append(cluster, topic, batches, traced=1)
    assert unpack_contexts(reply.contexts) == [(0, OF_CLIENT)]
    assert {span.context.trace_id for span in appends(cluster)} == {OF_CLIENT.trace_id, OF_GATEWAY.trace_id}


@pytest.mark.parametrize(
    ("text", "codec", "rules"),
    [
        (format_traceparent(OF_CLIENT._replace(sampled=False)), Codec.ZSTD, TraceRules(slow_ms=600_000)),
        ("nonsense", Codec.ZSTD, TraceRules(slow_ms=600_000)),
        (format_traceparent(OF_CLIENT), Codec.NONE, TraceRules(slow_ms=600_000)),
        (format_traceparent(OF_CLIENT), Codec.ZSTD, TraceRules(slow_ms=600_000, heeds_clients=False)),
        (format_traceparent(OF_CLIENT), Codec.ZSTD, TraceRules(spans_per_second=0)),
    ],
    ids=["not sampled", "malformed", "the gateway sees it itself", "clients are not heeded", "traces are off"],
)
async def test_an_answer_without_a_context_says_nothing(
    cluster: StorageCluster, text: str, codec: Codec, rules: TraceRules
) -> None:
    await restart(cluster, rules)
    topic = await cluster.topic("orders", record_validation="full")
    assert (await append(cluster, topic, [batch_with(text, codec)])).contexts is None
    assert not appends(cluster)


async def test_looks_have_the_rate_of_a_process(cluster: StorageCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "LOOKS_PER_SECOND", 3)
    await restart(cluster, TraceRules(slow_ms=600_000))
    topic = await cluster.topic("orders", record_validation="full")
    reply = await append(cluster, topic, [batch_with(format_traceparent(OF_CLIENT))] * 8)
    assert [slot for slot, _ in unpack_contexts(reply.contexts)] == [0, 1, 2]
