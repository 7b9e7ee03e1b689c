"""Whatever fails in the making of a trace, a storage node answers all requests, and leads."""

import pytest

from libs.rpc.contracts.storage import FETCH, Fetch, FetchPartition
from libs.telemetry.tracing.rpc_context import pack_context
from libs.telemetry.tracing.sampling import TraceRules
from libs.telemetry.tracing.span import SpanContext
from libs.wire.errors import ErrorCode
from tests.storage.cluster import WAIT_S, StorageCluster, appended, batch, fetched, partition_of
from tests.storage.fake_follower import FakeFollower, at, replicated_topic
from tests.support.failing_spans import FailingSpans
from tests.support.polling import until


@pytest.fixture
async def spans(cluster: StorageCluster) -> FailingSpans:
    """Every request has a trace, and none of them succeeds."""
    cluster.trace_rules = TraceRules(slow_ms=0, spans_per_second=1_000_000)
    cluster.spans = failing = FailingSpans()
    await cluster.stop()
    await cluster.start()
    return failing


async def test_all_appends_that_a_commit_ends_are_answered(cluster: StorageCluster, spans: FailingSpans) -> None:
    follower = await FakeFollower(cluster, 2).register()
    topic = await replicated_topic(cluster, "orders", replicas=(1, 2), isr=(1, 2))
    await follower.pull(at(topic, 0))
    waiting = [cluster.send([(topic, 0, batch(b"a"))]) for _ in range(3)]
    await until(lambda: partition_of(cluster, topic).replica.durable == 3)
    before = spans.failed
    await follower.pull(at(topic, 3))
    assert [appended(await each)[0].error for each in waiting] == [0, 0, 0]
    assert spans.failed == before + 3
    await follower.close()


async def test_all_appends_that_wait_for_too_long_are_answered(cluster: StorageCluster, spans: FailingSpans) -> None:
    follower = await FakeFollower(cluster, 2).register()
    topic = await replicated_topic(cluster, "orders", replicas=(1, 2), isr=(1, 2))
    await follower.pull(at(topic, 0))
    waiting = [cluster.send([(topic, 0, batch(b"a"))], timeout_ms=300) for _ in range(3)]
    errors = [appended(await each)[0].error for each in waiting]
    assert errors == [ErrorCode.REQUEST_TIMED_OUT] * 3
    assert spans.failed >= 3
    await follower.close()


async def test_a_fetch_is_answered(cluster: StorageCluster, spans: FailingSpans) -> None:
    topic = await cluster.topic("lines")
    await cluster.append(topic, batch(b"a"))
    assert cluster.client is not None
    before, trace = spans.failed, pack_context(SpanContext(0xABC, 0xDEF))
    request = Fetch(0, 1, 1 << 20, 0, (FetchPartition(topic, 0, 0, 1 << 20),))
    (answer,) = fetched(await cluster.client.call(FETCH, request, timeout_s=WAIT_S, trace=trace))
    assert (answer.error, answer.high_watermark) == (0, 1)
    assert spans.failed == before + 1


async def test_a_new_leader_leads(cluster: StorageCluster, spans: FailingSpans, caplog: pytest.LogCaptureFixture) -> None:
    topic = await cluster.topic("lines", epoch=1)
    assert spans.failed == 1
    assert (await cluster.append(topic, batch(b"a"))).error == 0
    assert not [record for record in caplog.records if record.exc_info and record.message != "spans not made"]
