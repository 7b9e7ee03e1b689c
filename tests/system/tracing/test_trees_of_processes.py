"""Whole trees over really separate processes, as a collector gets them: each span has its parent, and who made it."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer

from tests.compat.clients.admin import Admin
from tests.support.cluster_harness import LocalCluster
from tests.support.otlp_collector import CollectedSpan, OtlpCollector
from tests.support.polling import eventually, rounds

TOPIC, GROUP, TRANSACTION = "orders", "readers", "payments"
GATEWAY, STORAGE = "penstock-gateway", "penstock-storage"
GROUPS, TRANSACTIONS = "penstock-group-coordinator", "penstock-transaction-coordinator"
SETTINGS: Final = {
    "OTEL_TRACES_SAMPLER": "parentbased_always_on",
    "PENSTOCK_TRACE_SPANS_PER_SECOND": "100000",
}
WAIT_S = 60.0


class Traced(NamedTuple):
    cluster: LocalCluster
    collector: OtlpCollector

    def tree(self, expected: Sequence[str]) -> list[CollectedSpan]:
        """The spans of the first whole trace that has all of the lines. A line is a name and a service, below its parent's."""

        def whole() -> list[CollectedSpan]:
            return next((each for each in traces(self.collector) if is_whole(each) and is_part(expected, lines(each))), [])

        return eventually(whole)


def traces(collector: OtlpCollector) -> Iterator[list[CollectedSpan]]:
    """All that were collected so far."""
    by_trace = sorted(collector.spans, key=lambda span: span.trace_id)
    for _, spans in groupby(by_trace, key=lambda span: span.trace_id):
        yield list(spans)


def is_whole(spans: Sequence[CollectedSpan]) -> bool:
    """One root, below which all others are."""
    known = {span.span_id for span in spans}
    return [span.parent_id for span in spans if span.parent_id not in known] == [""]


def lines(spans: Sequence[CollectedSpan]) -> list[str]:
    def below(parent_id: str, depth: int) -> Iterable[str]:
        for span in sorted((span for span in spans if span.parent_id == parent_id), key=lambda span: (span.start_ns, span.name)):
            yield f"{'  ' * depth}{span.name} @{span.resource['service.name']}"
            yield from below(span.span_id, depth + 1)

    return list(below("", 0))


def is_part(expected: Sequence[str], shown: Sequence[str]) -> bool:
    """Whether all lines are there, in that order. Others, such as waits of a busy machine, may stand in between."""
    rest = iter(shown)
    return all(line in rest for line in expected)


def named(spans: Iterable[CollectedSpan], name: str) -> list[CollectedSpan]:
    return [span for span in spans if span.name == name]


def below(lead: str, depth: int, topic: str) -> list[str]:
    """An append of a process, and its leader's spans."""
    indent = "  " * depth
    return [f"{indent}append @{lead}", f"{indent}  append {topic} @{STORAGE}", f"{indent}    write @{STORAGE}"]


def asked(api: str, subject: str, method: str, service: str, topic: str = "") -> list[str]:
    """A request that a coordinator decides and, with a topic, writes."""
    return [
        f"{api} {subject} @{GATEWAY}",
        f"  {method} @{GATEWAY}",
        f"    {api} decided @{service}",
        *(below(service, 3, topic) if topic else ()),
        f"  answer @{GATEWAY}",
        f"  send @{GATEWAY}",
    ]


@pytest.fixture(scope="module")
def traced() -> Iterator[Traced]:
    with OtlpCollector() as collector:
        environment = {**SETTINGS, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint}
        with LocalCluster(storage=3, environment=environment) as cluster:
            Admin(cluster.bootstrap).create(TOPIC, config={"min.insync.replicas": "2"}, replicas=3)
            yield Traced(cluster, collector)


def test_a_produce_on_three_nodes(traced: Traced) -> None:
    producer = Producer({"bootstrap.servers": traced.cluster.bootstrap, "acks": "all"})
    producer.produce(TOPIC, b"one")
    assert producer.flush(WAIT_S) == 0
    spans = traced.tree(
        [
            f"Produce {TOPIC} @{GATEWAY}",
            f"  parse @{GATEWAY}",
            f"  storage.append @{GATEWAY}",
            f"    append {TOPIC} @{STORAGE}",
            f"      check @{STORAGE}",
            f"      write @{STORAGE}",
            f"      replication wait @{STORAGE}",
            f"  answer @{GATEWAY}",
            f"  send @{GATEWAY}",
        ]
    )
    (append,), (wait,) = named(spans, f"append {TOPIC}"), named(spans, "replication wait")
    leader = append.resource["service.instance.id"]
    followers = [span for span in spans if span.parent_id == wait.span_id]
    nodes = {leader, *(span.name.replace("follower ", "storage-") for span in followers)}
    assert nodes == {"storage-1", "storage-2", "storage-3"}
    assert {span.resource["service.instance.id"] for span in followers} == {leader}, "it asks no follower for spans"
    assert append.resource["penstock.node.id"] == int(leader.removeprefix("storage-"))
    assert {span.resource["service.version"] for span in spans} == {spans[0].resource["service.version"]} != {""}


def test_a_group_that_joins_reads_and_commits(traced: Traced) -> None:
    consumer = Consumer({"bootstrap.servers": traced.cluster.bootstrap, "group.id": GROUP, "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    for _ in rounds("the record", WAIT_S):
        record = consumer.poll(0.1)
        if record is not None and record.error() is None:
            break
    consumer.commit(asynchronous=False)
    consumer.close()
    traced.tree(asked("JoinGroup", GROUP, "groups.ask", GROUPS))
    traced.tree(asked("OffsetCommit", GROUP, "groups.ask", GROUPS, "__consumer_offsets"))
    traced.tree(
        [
            f"Fetch {TOPIC} @{GATEWAY}",
            f"  storage.fetch @{GATEWAY}",
            f"    read {TOPIC} @{STORAGE}",
            f"      lookup @{STORAGE}",
            f"  answer @{GATEWAY}",
            f"  send @{GATEWAY}",
        ]
    )


def test_a_transaction(traced: Traced) -> None:
    producer = Producer({"bootstrap.servers": traced.cluster.bootstrap, "transactional.id": TRANSACTION})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(TOPIC, b"paid", partition=0)
    producer.commit_transaction(WAIT_S)
    of_log = "__transaction_state"
    traced.tree(asked("InitProducerId", TRANSACTION, "transactions.ask", TRANSACTIONS, of_log))
    traced.tree(asked("AddPartitionsToTxn", TRANSACTION, "transactions.ask", TRANSACTIONS, of_log))
    decided, *_, answer, send = asked("EndTxn", TRANSACTION, "transactions.ask", TRANSACTIONS)
    traced.tree(
        [
            decided,
            f"  transactions.ask @{GATEWAY}",
            f"    EndTxn decided @{TRANSACTIONS}",
            *below(TRANSACTIONS, 3, of_log),
            f"      write markers @{TRANSACTIONS}",
            f"        marker {TOPIC}-0 @{TRANSACTIONS}",
            f"          append {TOPIC} @{STORAGE}",
            f"      complete @{TRANSACTIONS}",
            f"        append {of_log} @{STORAGE}",
            answer,
            send,
        ]
    )
