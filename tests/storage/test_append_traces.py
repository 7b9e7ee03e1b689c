"""Spans of appends at their leader: of those that a gateway traces, of slow and of failed ones."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from libs.rpc.client.rpc_client import Response
from libs.rpc.contracts.storage import APPEND, Append, AppendPartition
from libs.telemetry.tracing import conventions
from libs.telemetry.tracing.ids import RpcRequest, derived_context
from libs.telemetry.tracing.rpc_context import pack_contexts
from libs.telemetry.tracing.sampling import FAILED_PER_SECOND, Reason, TraceRules
from libs.telemetry.tracing.span import Span, SpanContext
from libs.telemetry.tracing.trace_ring import TraceKind, TraceRing
from libs.wire.errors import ErrorCode
from tests.storage.cluster import NODE_ID, WAIT_S, StorageCluster, batch, partition_of
from tests.storage.fake_follower import FakeFollower, at, replicated_state, replicated_topic, show
from tests.support.polling import until

NEVER_MS = 600_000
CONTEXT = SpanContext(0xABC, 0xDEF)


@pytest.fixture
async def followers(cluster: StorageCluster) -> AsyncIterator[tuple[FakeFollower, FakeFollower]]:
    both = await FakeFollower(cluster, 2).register(), await FakeFollower(cluster, 3).register()
    yield both
    for follower in both:
        await follower.close()


def sent(
    cluster: StorageCluster, batches: list[tuple[bytes, bytes]], *, traced: int = -1, joined: bool = False
) -> "asyncio.Future[Response]":
    """`traced`: the index of the batch whose trace the gateway has decided on."""
    assert cluster.client is not None
    parts = tuple([AppendPartition(topic_id, 0, -1, len(content)) for topic_id, content in batches])
    trace = pack_contexts([(traced, CONTEXT)]) if traced >= 0 else None
    body = Append(-1, 5000, parts, joined=joined)
    return cluster.client.call(APPEND, body, [content for _, content in batches], timeout_s=WAIT_S, trace=trace)


async def restart(cluster: StorageCluster, *, slow_ms: int) -> None:
    """Restarts the node with another threshold."""
    cluster.trace_rules = TraceRules(slow_ms=slow_ms)
    await cluster.stop()
    await cluster.start()


def made(cluster: StorageCluster) -> list[Span]:
    """All but those of elections."""
    return [span for span in cluster.spans if not span.name.startswith("lead ")]


def named(cluster: StorageCluster) -> dict[str, Span]:
    return {span.name: span for span in made(cluster)}


def request_of(cluster: StorageCluster, request_id: int, part: int = 0) -> RpcRequest:
    """A call of the client that the cluster's fixture made: the first of all callers."""
    return RpcRequest("gateway-1-1", f"storage-{NODE_ID}-{cluster.incarnation}", request_id, part)


async def test_a_traced_append_shows_each_follower_when_it_had_the_batch(
    cluster: StorageCluster, followers: tuple[FakeFollower, FakeFollower]
) -> None:
    topic = await replicated_topic(cluster, "orders")
    two, three = followers
    await two.pull(at(topic, 0))
    await three.pull(at(topic, 0))
    waiting = sent(cluster, [(topic, batch(b"a"))], traced=0)
    await until(lambda: partition_of(cluster, topic).replica.durable == 1)
    await two.pull(at(topic, 1))
    second = asyncio.get_running_loop().time() + 0.05
    await until(lambda: asyncio.get_running_loop().time() > second)
    await three.pull(at(topic, 1))
    await waiting
    spans = named(cluster)
    assert list(spans) == ["append orders", "check", "write", "sync", "replication wait", "follower 2", "follower 3"]
    root, wait = spans["append orders"], spans["replication wait"]
    assert {span.context.trace_id for span in spans.values()} == {CONTEXT.trace_id}
    assert root.parent_id == CONTEXT.span_id
    assert spans["follower 2"].parent_id == spans["follower 3"].parent_id == wait.context.span_id
    assert spans["follower 3"].end_ns - spans["follower 2"].end_ns >= 50_000_000
    assert spans["follower 3"].end_ns <= wait.end_ns <= root.end_ns
    assert root.attributes[conventions.KAFKA_OFFSET] == 0
    assert root.attributes[conventions.DESTINATION_PARTITION_ID] == "0"


async def test_an_append_that_nobody_traces_has_no_spans(cluster: StorageCluster) -> None:
    await restart(cluster, slow_ms=NEVER_MS)
    topic = await cluster.topic("quick")
    await cluster.append(topic, batch(b"a"))
    assert not made(cluster)


async def test_a_slow_append_has_the_ids_that_its_gateway_derives(
    cluster: StorageCluster, followers: tuple[FakeFollower, FakeFollower]
) -> None:
    topic = await replicated_topic(cluster, "slow", replicas=(1, 2), isr=(1, 2))
    two, _ = followers
    await two.pull(at(topic, 0))
    waiting = sent(cluster, [(topic, batch(b"a"))])
    await until(lambda: partition_of(cluster, topic).replica.durable == 1)
    half = asyncio.get_running_loop().time() + 0.06
    await until(lambda: asyncio.get_running_loop().time() > half)
    await two.pull(at(topic, 1))
    await waiting
    root = named(cluster)["append slow"]
    caller = derived_context(request_of(cluster, 1))
    assert (root.context.trace_id, root.parent_id) == (caller.trace_id, caller.span_id)


@pytest.mark.parametrize("traced", [-1, 0], ids=["nobody decided", "sampled"])
async def test_a_slow_append_is_kept_as_slow_whether_it_is_sampled_or_not(cluster: StorageCluster, traced: int) -> None:
    await restart(cluster, slow_ms=0)
    topic = await cluster.topic("kept", epoch=1)
    await sent(cluster, [(topic, batch(b"a"))], traced=traced)
    spans = made(cluster)
    assert named(cluster)["append kept"].attributes[conventions.REASON] == Reason.SLOW
    assert {span.context.sampled for span in spans} == {traced == 0}
    ring = TraceRing()
    ring.offer(spans)
    assert [trace.kind for trace in ring] == [TraceKind.SLOW]


async def test_a_sampled_append_that_is_quick_is_kept_as_sampled(cluster: StorageCluster) -> None:
    await restart(cluster, slow_ms=NEVER_MS)
    topic = await cluster.topic("fast", epoch=1)
    await sent(cluster, [(topic, batch(b"a"))], traced=0)
    ring = TraceRing()
    ring.offer(made(cluster))
    assert [trace.kind for trace in ring] == [TraceKind.SAMPLED]


async def test_batches_of_several_clients_in_one_append_have_a_trace_each(cluster: StorageCluster) -> None:
    await restart(cluster, slow_ms=0)
    topic = await cluster.topic("joined")
    await sent(cluster, [(topic, batch(b"a")), (topic, batch(b"b"))], joined=True)
    roots = [(span.context.trace_id, span.parent_id) for span in cluster.spans if span.name == "append joined"]
    callers = [derived_context(request_of(cluster, 1, part)._replace(client="gateway-2-1")) for part in (0, 1)]
    assert roots == [(caller.trace_id, caller.span_id) for caller in callers]


async def test_batches_of_one_client_share_its_trace(cluster: StorageCluster) -> None:
    await restart(cluster, slow_ms=0)
    topic = await cluster.topic("shared")
    await sent(cluster, [(topic, batch(b"a")), (topic, batch(b"b"))])
    assert len({span.context.trace_id for span in made(cluster)}) == 1


async def test_only_the_batch_that_is_traced_has_spans(cluster: StorageCluster) -> None:
    await restart(cluster, slow_ms=NEVER_MS)
    topic = await cluster.topic("one")
    await sent(cluster, [(topic, batch(b"a")), (topic, batch(b"b"))], traced=1, joined=True)
    (root,) = [span for span in cluster.spans if span.name == "append one"]
    assert root.attributes[conventions.KAFKA_OFFSET] == 1


async def test_an_append_that_times_out_shows_the_follower_that_never_had_it(
    cluster: StorageCluster, followers: tuple[FakeFollower, FakeFollower]
) -> None:
    topic = await replicated_topic(cluster, "late", isr=(1, 2), replicas=(1, 2))
    two, _ = followers
    await two.pull(at(topic, 0))
    assert (await cluster.append(topic, batch(b"a"), timeout_ms=80)).error == 7
    spans = named(cluster)
    assert spans["append late"].error == "REQUEST_TIMED_OUT"
    assert spans["follower 2"].attributes[conventions.REACHED] is False


async def test_an_append_that_fails_at_once_has_the_ids_that_its_gateway_derives(cluster: StorageCluster) -> None:
    await restart(cluster, slow_ms=NEVER_MS)
    topic = await cluster.topic("damaged")
    response = await sent(cluster, [(topic, b"no batch")])
    assert response.body[0][0][0] == ErrorCode.INVALID_RECORD
    (root,) = made(cluster)
    caller = derived_context(request_of(cluster, 1)._replace(client="gateway-2-1"))
    assert (root.context.trace_id, root.parent_id) == (caller.trace_id, caller.span_id)
    assert (root.error, root.attributes[conventions.REASON]) == ("INVALID_RECORD", Reason.FAILED)


async def test_clients_cause_five_failed_appends_a_second_that_have_a_trace(cluster: StorageCluster) -> None:
    await restart(cluster, slow_ms=NEVER_MS)
    topic = await cluster.topic("damaged")
    await sent(cluster, [(topic, b"no batch")] * 20, joined=True)
    assert len(made(cluster)) == FAILED_PER_SECOND


async def test_an_append_that_another_leader_will_take_is_no_failure(cluster: StorageCluster) -> None:
    """Its gateway has an old image. Where somebody traces it, its trace shows the refusal."""
    await restart(cluster, slow_ms=NEVER_MS)
    topic = await replicated_topic(cluster, "moved")
    await show(cluster, topic, replicated_state(cluster, (1, 2, 3), epoch=1, partition_epoch=1), leader=2)
    for traced, names in ((-1, []), (0, ["append moved"])):
        response = await sent(cluster, [(topic, batch(b"a"))], traced=traced)
        assert response.body[0][0][0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert [span.name for span in made(cluster)] == names
