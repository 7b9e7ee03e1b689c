"""Whole traces of ListOffsets, and of what waits for a transaction coordinator, over all services of a cluster."""

import asyncio

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from libs.telemetry.tracing.conventions import PARTITIONS, WAITED_FOR
from libs.telemetry.tracing.sampling import TraceRules
from libs.telemetry.tracing.span import Span
from tests.dev import clients
from tests.tracing.dev_cluster import traced_cluster
from tests.tracing.trees import named, tree

EVERYTHING = TraceRules(sample_ratio=1.0, spans_per_second=100_000)
SLOW = TraceRules(sample_ratio=0.0, slow_ms=0, spans_per_second=100_000)
"""Each request counts as slow, and nobody decides on a trace in advance."""
TOPIC = "orders"


def of_both(spans: list[Span]) -> bool:
    """Whether the gateway and the leader have recorded theirs."""
    return {"send", "lookup"} <= {span.name for span in spans}


def ends_of(servers: str, partitions: int) -> list[int]:
    """By one request for all of them."""
    wanted = {TopicPartition(TOPIC, index): OffsetSpec.latest() for index in range(partitions)}
    admin = AdminClient({"bootstrap.servers": servers})
    found = admin.list_offsets(wanted)
    return [each.result(clients.WAIT_S).offset for each in found.values()]


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("rules", [EVERYTHING, SLOW], ids=["sampled", "slow"])
async def test_a_question_for_logs_ends_is_one_tree_from_the_gateway_to_the_leader(rules: TraceRules, partitions: int) -> None:
    async with traced_cluster(rules) as cluster:
        await asyncio.to_thread(clients.create_topic, cluster.bootstrap_servers, TOPIC, partitions)
        assert await asyncio.to_thread(ends_of, cluster.bootstrap_servers, partitions) == [0] * partitions
        spans = await cluster.trace_of(lambda span: span.name == f"ListOffsets {TOPIC}", of_both)
    assert named(spans, f"list offsets {TOPIC}").attributes[PARTITIONS] == partitions
    assert [line for line in tree(spans) if line.strip() not in ("queued", "confirm leadership")] == [
        f"ListOffsets {TOPIC}",
        "  parse",
        "  storage.list_offsets",
        f"    list offsets {TOPIC}",
        "      lookup",
        "  answer",
        "  send",
    ]


def asks_coordinator(spans: list[Span]) -> bool:
    """Whether all three have recorded theirs."""
    return {"send", "AddPartitionsToTxn decided"} <= {span.name for span in spans}


def transact(servers: str) -> None:
    """A record, and an offset of a group."""
    producer = clients.transactional_producer(servers, "payments")
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "readers"})
    producer.begin_transaction()
    producer.produce(TOPIC, b"one", partition=0)
    group = consumer.consumer_group_metadata()
    producer.send_offsets_to_transaction([TopicPartition(TOPIC, 0, 1)], group, clients.WAIT_S)
    producer.commit_transaction(clients.WAIT_S)
    consumer.close()


@pytest.mark.parametrize("rules", [EVERYTHING, SLOW], ids=["sampled", "slow"])
async def test_questions_to_the_coordinator_of_a_transaction_are_below_what_waits_for_them(rules: TraceRules) -> None:
    """The first batch in a partition, and the first offsets in a shard, wait until it has said that they belong to it."""
    async with traced_cluster(rules) as cluster:
        await asyncio.to_thread(clients.create_topic, cluster.bootstrap_servers, TOPIC)
        await asyncio.to_thread(transact, cluster.bootstrap_servers)
        spans = await cluster.trace_of(lambda span: span.name == f"Produce {TOPIC}", asks_coordinator)
        offsets = await cluster.trace_of(lambda span: span.name == "TxnOffsetCommit readers", asks_coordinator)
    others = ("  queued", "          append")  # an append of another request, after which this is answered
    assert [line for line in tree(spans) if line not in others] == [
        f"Produce {TOPIC}",
        "  parse",
        "  storage.append",
        f"    append {TOPIC}",
        "      wait",
        "        AddPartitionsToTxn decided",
        "      check",
        "      write",
        "      sync",
        "  answer",
        "  send",
    ]
    assert named(spans, "wait").attributes == {WAITED_FOR: "transaction coordinator"}
    lines = tree(offsets)
    at = lines.index("    TxnOffsetCommit decided")
    assert "      AddPartitionsToTxn decided" in lines[at:]
