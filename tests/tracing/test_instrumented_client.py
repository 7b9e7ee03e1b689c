"""A client that OpenTelemetry's own instrumentation traces, and this cluster, give one trace."""

import asyncio
import json
from dataclasses import dataclass

from libs.telemetry.tracing.conventions import REASON
from libs.telemetry.tracing.sampling import Reason, TraceRules
from tests.compat.clients.groups.builds import PROGRAMS, instrumented_python
from tests.dev import clients
from tests.tracing.dev_cluster import traced_cluster
from tests.tracing.trees import named, tree

TOPIC = "orders"
ONLY_WHAT_CLIENTS_ASK_FOR = TraceRules(sample_ratio=0.0, slow_ms=600_000)
WITHIN_S = 120.0


@dataclass(frozen=True)
class ClientSpan:
    name: str
    kind: str
    trace_id: int
    span_id: int
    parent_id: int | None
    links: list[int]


async def client_spans(servers: str) -> list[ClientSpan]:
    python = await asyncio.to_thread(instrumented_python)
    program = str(PROGRAMS / "instrumented_python" / "program.py")
    running = await asyncio.create_subprocess_exec(
        str(python), program, servers, TOPIC, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    said, wrong = await asyncio.wait_for(running.communicate(), WITHIN_S)
    assert running.returncode == 0, wrong.decode()
    return [ClientSpan(**json.loads(line)) for line in said.splitlines()]


async def test_an_instrumented_client_and_the_cluster_give_one_trace() -> None:
    async with traced_cluster(ONLY_WHAT_CLIENTS_ASK_FOR) as cluster:
        await asyncio.to_thread(clients.create_topic, cluster.bootstrap_servers, TOPIC)
        own = await client_spans(cluster.bootstrap_servers)
        checkout = next(span for span in own if span.name == "checkout")
        (sent,) = [span for span in own if span.kind == "PRODUCER"]
        (read,) = [span for span in own if span.kind == "CONSUMER" and checkout.trace_id in (span.trace_id, *span.links)]
        assert (sent.trace_id, sent.parent_id) == (checkout.trace_id, checkout.span_id)
        spans = await cluster.trace_of(lambda span: span.context.trace_id == checkout.trace_id)
        assert [line.strip() for line in tree(spans) if line.strip() != "queued"] == [
            "Produce orders",
            "parse",
            "storage.append",
            "append orders",
            "check",
            "write",
            "sync",
            "answer",
            "send",
        ]
        produce = named(spans, "Produce orders")
        assert (produce.parent_id, produce.attributes[REASON]) == (sent.span_id, Reason.CLIENT)
        assert {span.context.trace_id for span in cluster.spans} == {checkout.trace_id}, read
