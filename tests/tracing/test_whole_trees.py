"""Whole traces over a gateway and three storage nodes, all in this process, with one list of spans for each."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from libs.clock import SystemClock
from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import GATEWAY, ConfigOverrides
from libs.commitlog.files.filesystem import OsFileSystem
from libs.rpc.transport.socket_transport import SocketTransport
from libs.runtime.process import Environment, Identity
from libs.telemetry.metrics import Metrics
from libs.telemetry.tracing.conventions import KAFKA_OFFSET, REASON
from libs.telemetry.tracing.recorder import Tracing
from libs.telemetry.tracing.sampling import Reason, TraceRules
from libs.telemetry.tracing.span import Span
from libs.wire.record_batches.records import Record, build_batch
from services.gateway.config import GatewayConfig
from services.gateway.service import Gateway
from tests.gateway.kafka_client import FETCH, PRODUCE, RawClient, fetch_body, produce_body
from tests.storage.cluster import batch
from tests.storage.held_disk import HeldDisk
from tests.storage.three_nodes import Nodes
from tests.support.polling import until
from tests.support.ports import reserve_ports
from tests.support.span_ring import SpanRing
from tests.tracing.trees import named, of_trace, seconds, tree

TRACE_ID, CLIENT_SPAN = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7
TRACED = bytes(build_batch([Record(None, b"one", 0, [("traceparent", b"00-%032x-%016x-01" % (TRACE_ID, CLIENT_SPAN))])]))
RULES = TraceRules(sample_ratio=0.0, slow_ms=600_000, spans_per_second=100_000)
TOPIC = "orders"


class Cluster:
    """A gateway and three storage nodes. Node 1 leads the topic, and node 3 has a disk that can be held."""

    def __init__(self, nodes: Nodes, disk: HeldDisk, port_base: int, rules: TraceRules) -> None:
        self.nodes = nodes
        self.disk = disk
        self.port_base = port_base
        self.spans = SpanRing()
        self.store = nodes.store.peer()
        identity = Identity(GATEWAY, 1, 1, "this-host", "test")
        tracing = Tracing(rules, self.spans)
        world = Environment(identity, SystemClock(), self.store, SocketTransport(), Random(7), tracing=tracing)
        config = GatewayConfig(node_id=1, etcd=(), port_base=port_base, data_dir="")
        self.deaths: list[BaseException] = []
        self.gateway = Gateway(config, world, Metrics("gateway"), die=self.deaths.append, descriptors_max=20_000)

    @property
    def all_spans(self) -> list[Span]:
        return [span for ring in (self.spans, *[node.spans for node in self.nodes.by_id.values()]) for span in ring]

    async def client(self) -> RawClient:
        return await RawClient.connect(self.port_base + 1)

    def roots(self) -> list[Span]:
        return [span for span in self.spans if REASON in span.attributes]


@pytest.fixture
def rules() -> TraceRules:
    return RULES


@pytest.fixture
async def cluster(tmp_path: Path, rules: TraceRules) -> AsyncIterator[Cluster]:
    sockets, ports, disk = Path(tempfile.mkdtemp(prefix="ps-")), reserve_ports(10), HeldDisk()
    nodes = Nodes(tmp_path, sockets, (1, 2, 3))
    try:
        for node_id, node in nodes.by_id.items():
            node.fs = disk if node_id == 3 else OsFileSystem()
            node.trace_rules = rules
            await node.write(keys.config("broker", str(node_id)), encode(ConfigOverrides({"log.segment.delete.delay.ms": "50"})))
            await node.start()
        made = Cluster(nodes, disk, ports.first, rules)
        await made.gateway.start()
        topic_id = await nodes.topic(TOPIC, leader=1, min_insync_replicas="2")
        await until(lambda: made.gateway.data_path.routes.topic(TOPIC) and made.gateway.data_path.nodes.ready(1))
        await nodes.alike(topic_id)
        yield made
    finally:
        disk.release()
        await made.gateway.stop()
        await made.store.close()
        for node in nodes.by_id.values():
            await node.stop()
        await nodes.store.close()
        ports.release()
        shutil.rmtree(sockets)


async def passes(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    over = loop.time() + seconds
    await until(lambda: loop.time() >= over)


async def test_a_produce_to_three_replicas_is_one_tree_from_the_client_to_each_follower(cluster: Cluster) -> None:
    client = await cluster.client()
    await client.produce(9, produce_body(9, [(TOPIC, [(0, TRACED)])]))
    await client.close()
    spans = of_trace(cluster.all_spans, TRACE_ID)
    assert tree(spans) == [
        "Produce orders",
        "  parse",
        "  storage.append",
        "    append orders",
        "      check",
        "      write",
        "      replication wait",
        "        follower 2",
        "        follower 3",
        "      sync",
        "  answer",
        "  send",
    ]
    root = named(spans, "Produce orders")
    assert (root.parent_id, root.attributes[REASON]) == (CLIENT_SPAN, Reason.CLIENT)
    assert named(spans, "append orders").attributes[KAFKA_OFFSET] == 0
    assert len(spans) == len(cluster.all_spans), "nothing else has a trace"


@pytest.mark.parametrize("rules", [replace(RULES, slow_ms=200)])
async def test_a_slow_follower_is_seen_in_a_trace_that_nobody_asked_for(cluster: Cluster) -> None:
    """Gateway and leader derive the same ids, without a word."""
    client = await cluster.client()
    cluster.disk.hold()
    client.ask(PRODUCE, 9, produce_body(9, [(TOPIC, [(0, batch(b"a"))])]))
    await until(lambda: cluster.disk.syncs_begun > 0)
    await passes(0.4)
    cluster.disk.release()
    await client.answer(PRODUCE, 9)
    await client.close()
    (root,) = cluster.roots()
    spans = of_trace(cluster.all_spans, root.context.trace_id)
    assert root.attributes[REASON] == Reason.SLOW
    assert tree(spans)[:4] == ["Produce orders", "  parse", "  storage.append", "    append orders"]
    assert seconds(named(spans, "follower 3")) > 0.3
    assert seconds(named(spans, "follower 2")) < seconds(named(spans, "follower 3"))
    assert seconds(named(spans, "replication wait")) >= seconds(named(spans, "follower 3"))


async def test_a_produce_that_fails_at_once_has_its_leaders_part(cluster: Cluster) -> None:
    """Nobody asked for its trace. Both ends keep what failed, and derive the same ids."""
    damaged = bytearray(batch(b"a"))
    damaged[-1] ^= 1
    client = await cluster.client()
    await client.produce(9, produce_body(9, [(TOPIC, [(0, bytes(damaged))])]))
    await client.close()
    (root,) = [span for span in cluster.spans if span.name == "Produce orders"]
    spans = of_trace(cluster.all_spans, root.context.trace_id)
    assert tree(spans) == ["Produce orders", "  parse", "  storage.append", "    append orders", "  answer", "  send"]
    assert root.error == named(spans, "append orders").error == "CORRUPT_MESSAGE"
    assert root.attributes[REASON] == named(spans, "append orders").attributes[REASON] == Reason.FAILED


async def test_a_fetch_that_fails_at_once_has_its_leaders_part(cluster: Cluster) -> None:
    client = await cluster.client()
    await client.fetch(12, fetch_body(12, [(TOPIC, [(0, 77)])]))
    await client.close()
    (root,) = [span for span in cluster.spans if span.name == "Fetch orders"]
    spans = of_trace(cluster.all_spans, root.context.trace_id)
    assert tree(spans) == [
        "Fetch orders",
        "  parse",
        "  storage.fetch",
        "    read orders",
        "      lookup",
        "  answer",
        "  send",
    ]
    assert root.error == named(spans, "read orders").error == "OFFSET_OUT_OF_RANGE"


async def long_poll(cluster: Cluster, wait_s: float) -> None:
    """A consumer waits at the end of the log, and a producer ends its wait."""
    client, producer = await cluster.client(), await cluster.client()
    client.ask(FETCH, 12, fetch_body(12, [(TOPIC, [(0, 0)])], max_wait_ms=20_000))
    leader = cluster.nodes[1].node
    assert leader is not None
    await until(lambda: leader.opened.fetches.parked == 1)
    await passes(wait_s)
    await producer.produce(9, produce_body(9, [(TOPIC, [(0, TRACED)])]))
    await client.answer(FETCH, 12)
    await client.close()
    await producer.close()


@pytest.mark.parametrize("rules", [replace(RULES, slow_ms=2_000)])
async def test_a_long_poll_that_waits_as_asked_is_not_slow(cluster: Cluster) -> None:
    await long_poll(cluster, 2.1)
    assert "Fetch orders" not in [root.name for root in cluster.roots()]


@pytest.mark.parametrize("rules", [replace(RULES, sample_ratio=1.0)])
async def test_a_sampled_long_poll_shows_its_wait_and_links_to_what_it_read(cluster: Cluster) -> None:
    await long_poll(cluster, 0.3)
    (root,) = [root for root in cluster.roots() if root.name == "Fetch orders"]
    spans = of_trace(cluster.all_spans, root.context.trace_id)
    assert tree(spans) == [
        "Fetch orders",
        "  parse",
        "  storage.fetch",
        "    read orders",
        "      lookup",
        "      long poll",
        "  answer",
        "  send",
    ]
    assert seconds(named(spans, "long poll")) > 0.25
    (link,) = named(spans, "read orders").links
    assert link.context.trace_id == TRACE_ID
