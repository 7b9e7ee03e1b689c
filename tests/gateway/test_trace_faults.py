"""Whatever fails in the making of a trace, the request is answered, and what it holds is given back."""

import pytest

from libs.rpc.contracts.storage import Fetched as Result
from libs.telemetry.tracing.conventions import DESTINATION_NAME, DESTINATION_PARTITION_ID, REASON
from libs.telemetry.tracing.sampling import Reason, TraceRules
from libs.wire.errors import ErrorCode
from tests.gateway.conftest import TOPIC, Rig
from tests.gateway.fetch_requests import with_file
from tests.gateway.kafka_client import FETCH, fetch_body
from tests.gateway.produce_requests import serves
from tests.support.failing_spans import FailingSpans
from tests.support.polling import until

ALL = TraceRules(sample_ratio=1.0, slow_ms=600_000, spans_per_second=1_000_000)
FAILED = TraceRules(sample_ratio=0.0, slow_ms=600_000, spans_per_second=1_000_000)
BEHIND_A_TOPIC_WITHOUT_PARTITIONS = [("orders", []), (TOPIC, [(0, 9999)])]


async def test_a_failed_fetch_is_traced_by_its_first_partition_though_its_first_topic_has_none(rig: Rig) -> None:
    rig.trace_rules = FAILED
    await rig.start()
    with_file(rig, 100)
    rig.nodes[1].fetch_result = Result(ErrorCode.OFFSET_OUT_OF_RANGE)
    client = await rig.client(1)
    await client.fetch(12, fetch_body(12, BEHIND_A_TOPIC_WITHOUT_PARTITIONS))
    (root,) = [span for span in rig.spans if REASON in span.attributes]
    assert root.attributes[REASON] == Reason.FAILED
    assert (root.attributes[DESTINATION_NAME], root.attributes[DESTINATION_PARTITION_ID]) == (TOPIC, "0")


@pytest.mark.parametrize("fails", [False, True])
async def test_a_traced_fetch_whose_client_leaves_gives_back_its_room(rig: Rig, fails: bool) -> None:
    rig.trace_rules = ALL
    if fails:
        rig.spans = FailingSpans()
    gateway = await rig.start()
    client, node = await rig.client(1), rig.nodes[1]
    client.ask(FETCH, 12, fetch_body(12, BEHIND_A_TOPIC_WITHOUT_PARTITIONS, max_wait_ms=60_000))
    await until(lambda: bool(node.parked_fetches))
    assert gateway.meters.requests.used > 0
    await client.close()
    await until(lambda: not len(gateway.connections))
    assert gateway.meters.requests.used == 0
    if isinstance(rig.spans, FailingSpans):
        assert rig.spans.failed == 1
    else:
        (root,) = [span for span in rig.spans if REASON in span.attributes]
        assert (root.attributes[DESTINATION_NAME], root.error) == (TOPIC, "connection ended")


async def test_answers_leave_though_their_traces_fail(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rig.trace_rules = ALL
    rig.spans = spans = FailingSpans()
    gateway = await rig.start()
    client = await rig.client(1)
    for _ in range(3):
        assert await serves(client)
    await until(lambda: spans.failed == 3)
    monkeypatch.setattr("services.gateway.exchange.request_traces.AnsweredRequest", None)  # it cannot be called
    assert await serves(client)
    assert gateway.meters.requests.used == 0
    assert not [record.message for record in caplog.records if record.message != "spans not made" and record.exc_info]
