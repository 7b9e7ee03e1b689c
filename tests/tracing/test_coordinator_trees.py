"""Whole traces of what coordinators decide, over all services of a cluster, with real clients."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest
from confluent_kafka import Consumer

from libs.telemetry.tracing.conventions import (
    CONSUMER_GROUP_NAME,
    GROUP_MEMBERS,
    OPERATION_TYPE,
    OUTCOME,
    REASON,
    REBALANCE_REASON,
    SETTLE,
    TRANSACTIONAL_ID,
)
from libs.telemetry.tracing.sampling import Reason, TraceRules
from libs.telemetry.tracing.span import Span
from libs.wire.api_keys import ApiKey
from libs.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    write_request,
)
from libs.wire.primitives import Writer
from tests.dev import clients
from tests.gateway.kafka_client import RawClient
from tests.support.polling import rounds
from tests.tracing.dev_cluster import TracedCluster, traced_cluster
from tests.tracing.trees import named, seconds, tree

EVERYTHING = TraceRules(sample_ratio=1.0, spans_per_second=100_000)
ONLY_WHAT_STANDS_OUT = TraceRules(sample_ratio=0.0, slow_ms=600, spans_per_second=100_000)
TOPIC = "orders"
WRITTEN = ["append", "  append {}", "    check", "    write", "    sync"]


def written(topic: str, depth: int) -> list[str]:
    """An append of a coordinator, and its leader's spans."""
    return ["  " * depth + line.format(topic) for line in WRITTEN]


def transact(servers: str, transactional_id: str) -> None:
    producer = clients.transactional_producer(servers, transactional_id)
    producer.begin_transaction()
    producer.produce(TOPIC, b"one", partition=0)
    producer.commit_transaction(clients.WAIT_S)


def completed(spans: list[Span]) -> bool:
    return any(span.name == "complete" for span in spans)


def join_one_after_the_other(servers: str) -> None:
    """Two members, until both have partitions."""
    given = {"bootstrap.servers": servers, "group.id": "readers", "heartbeat.interval.ms": 100}
    first, second = Consumer(given), Consumer(given)
    try:
        for each, others in ((first, []), (second, [first])):
            each.subscribe([TOPIC])
            for _ in rounds("its partition", clients.WAIT_S):
                for consumer in (each, *others):
                    consumer.poll(0.05)
                if each.assignment() and all(consumer.assignment() for consumer in others):
                    break
    finally:
        first.close()
        second.close()


async def commit_as_nobody(port: int) -> None:
    """A commit of a member that its group does not know."""
    partition = OffsetCommitRequestPartition(0, 1)
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    writer = Writer()
    write_request(writer, OffsetCommitRequest("readers", 7, "nobody", topics=[topic]), 7)
    client = await RawClient.connect(port)
    client.ask(ApiKey.OFFSET_COMMIT, 7, bytes(writer.buffer))
    await client.answer()
    await client.close()


@pytest.fixture
def rules() -> TraceRules:
    return EVERYTHING


@pytest.fixture
def initial_delay_ms() -> int:
    return 0


@pytest.fixture
async def cluster(rules: TraceRules, initial_delay_ms: int) -> AsyncIterator[TracedCluster]:
    async with traced_cluster(rules, group_initial_rebalance_delay_ms=str(initial_delay_ms)) as made:
        await asyncio.to_thread(clients.create_topic, made.bootstrap_servers, TOPIC, 2)
        yield made


async def test_a_commit_is_one_tree_from_the_gateway_to_the_log_of_offsets(cluster: TracedCluster) -> None:
    servers = cluster.bootstrap_servers
    await asyncio.to_thread(clients.produce, servers, TOPIC, [b"one"])
    await asyncio.to_thread(clients.consume, servers, TOPIC, 1)
    spans = await cluster.trace_of(lambda span: span.name == "OffsetCommit readers")
    assert tree(spans) == [
        "OffsetCommit readers",
        "  parse",
        "  groups.ask",
        "    OffsetCommit decided",
        *written("__consumer_offsets", 3),
        "  answer",
        "  send",
    ]
    root = named(spans, "OffsetCommit readers")
    assert root.attributes[CONSUMER_GROUP_NAME] == "readers"
    assert root.attributes[OPERATION_TYPE] == SETTLE


async def test_a_transaction_is_one_tree_a_request_and_its_end_shows_both_phases_and_each_marker(cluster: TracedCluster) -> None:
    servers = cluster.bootstrap_servers
    await asyncio.to_thread(transact, servers, "warm-up")  # its coordinator's shards are loaded from then on
    await asyncio.to_thread(transact, servers, "payments")
    ended = await cluster.trace_of(lambda span: span.name == "EndTxn payments", completed)
    assert tree(ended) == [
        "EndTxn payments",
        "  parse",
        "  transactions.ask",
        "    EndTxn decided",
        *written("__transaction_state", 3),
        "      write markers",
        "        marker orders-0",
        "          append orders",
        "            check",
        "            write",
        "            sync",
        "      complete",
        "        append __transaction_state",
        "          check",
        "          write",
        "          sync",
        "  answer",
        "  send",
    ]
    assert named(ended, "EndTxn payments").attributes[TRANSACTIONAL_ID] == "payments"
    assert named(ended, "write markers").attributes[OUTCOME] == "PrepareCommit"
    for api in ("InitProducerId", "AddPartitionsToTxn"):
        spans = await cluster.trace_of(lambda span, api=api: span.name == f"{api} payments")  # type: ignore[misc]
        lines = [line for line in tree(spans) if line.strip() != "queued"]
        assert lines == [
            f"{api} payments",
            "  parse",
            "  transactions.ask",
            f"    {api} decided",
            *written("__transaction_state", 3),
            "  answer",
            "  send",
        ]


async def test_a_rebalance_shows_each_members_wait_for_the_others(cluster: TracedCluster) -> None:
    """The first member joins again, when it hears of the second one."""
    servers = cluster.bootstrap_servers
    await asyncio.to_thread(join_one_after_the_other, servers)

    def of_both(span: Span) -> bool:
        return span.name == "rebalance readers" and span.attributes[GROUP_MEMBERS] == 2

    spans = await cluster.trace_of(of_both)
    root, join = next(filter(of_both, spans)), named(spans, "join")
    names = [line.split()[0] for line in tree(spans)]
    assert names == ["rebalance", "join", "JoinGroup", "JoinGroup", "sync", "SyncGroup", "SyncGroup"]
    assert "joined" in str(root.attributes[REBALANCE_REASON])
    first, last = [span for span in spans if span.name.startswith("JoinGroup")]
    assert {first.parent_id, last.parent_id} == {join.context.span_id}
    assert abs(first.end_ns - last.end_ns) < 50_000_000, "both hear when the last has come"
    (link,) = last.links
    joined = [span for span in cluster.spans if span.context.trace_id == link.context.trace_id]
    assert {"JoinGroup readers", "JoinGroup decided"} <= {span.name for span in joined}, "the member's own request"


@pytest.mark.parametrize("rules", [ONLY_WHAT_STANDS_OUT])
@pytest.mark.parametrize("initial_delay_ms", [900])
async def test_a_rebalance_that_is_slow_has_a_trace_that_nobody_asked_for(cluster: TracedCluster) -> None:
    servers = cluster.bootstrap_servers
    await asyncio.to_thread(clients.produce, servers, TOPIC, [b"one"])
    for group in ("warm-up", "readers"):  # the first one waits for shards to be loaded, too
        await asyncio.to_thread(partial(clients.consume, servers, TOPIC, 1, group=group))
    spans = await cluster.trace_of(lambda span: span.name == "rebalance readers")
    assert [line.split()[0] for line in tree(spans)] == ["rebalance", "join", "JoinGroup", "sync", "SyncGroup"]
    assert seconds(named(spans, "join")) > 0.6
    assert not [span for span in cluster.spans if span.name == "JoinGroup readers"], "it waited as asked"


@pytest.mark.parametrize("rules", [ONLY_WHAT_STANDS_OUT])
async def test_a_request_that_a_group_refuses_has_a_trace_at_both_ends(cluster: TracedCluster) -> None:
    """The gateway does not read the group's answer. The coordinator tells it that this one failed."""
    servers = cluster.bootstrap_servers
    await asyncio.to_thread(clients.produce, servers, TOPIC, [b"one"])
    await asyncio.to_thread(clients.consume, servers, TOPIC, 1)  # the shards are loaded
    await commit_as_nobody(int(servers.rpartition(":")[2]) + 1)
    spans = await cluster.trace_of(lambda span: span.name == "OffsetCommit readers")
    assert tree(spans) == ["OffsetCommit readers", "  parse", "  groups.ask", "    OffsetCommit decided", "  answer", "  send"]
    root, decided = named(spans, "OffsetCommit readers"), named(spans, "OffsetCommit decided")
    assert root.error == decided.error == "UNKNOWN_MEMBER_ID"
    assert root.attributes[REASON] == decided.attributes[REASON] == Reason.FAILED
