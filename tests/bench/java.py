"""Kafka's own benchmarks of its clients as cases: what a Java user sees, client included."""

import re

from tests.bench.cases import Case, Measured, unique
from tests.bench.client_cases import BATCH_BYTES, consumer_case, producer_case
from tests.bench.sides import Side
from tests.compat.kafka.tools import run_tool

RATE = re.compile(r"(\d+) records sent, ([\d.]+) records/sec")
TIMEOUT_S = 300.0
MARK = "≥ 1.2"


def producer_performance_case(name: str, record_size: int, records: int) -> Case:
    def run(side: Side, topic: str) -> Measured:
        producer = (f"bootstrap.servers={side.bootstrap}", "acks=1")
        result = run_tool(
            "kafka-producer-perf-test",
            *("--topic", topic, "--num-records", str(records), "--record-size", str(record_size)),
            *("--throughput", "-1", "--producer-props", *producer),
            timeout_s=TIMEOUT_S,
            heap="512m",
            options=(),
        )
        # Intermediate lines have the same form: the last one is the whole run's.
        sent, rate = RATE.findall(result.text)[-1]
        assert int(sent) == records, result.text
        return Measured(float(rate), records)

    words = f"ProducerPerformance, {records} records of {record_size} B, acks=1, defaults otherwise"
    return producer_case(name, words, run, mark=MARK)


def consumed_rate(text: str) -> tuple[int, float]:
    """What ConsumerPerformance says at its end: its records, and records/s since it had joined its group."""
    headings, figures = text.splitlines()[-2:]
    said = dict(zip(headings.split(", "), figures.split(", "), strict=True))
    kind = "nMsg" if "fetch.nMsg.sec" in said else "nRecord"
    return int(said[f"data.consumed.in.{kind}"]), float(said[f"fetch.{kind}.sec"])


def consumer_performance_case(name: str, record_size: int, records: int) -> Case:
    def run(side: Side, topic: str) -> Measured:
        result = run_tool(
            "kafka-consumer-perf-test",
            *("--bootstrap-server", side.bootstrap, "--topic", topic, "--group", unique(name)),
            *("--num-records", str(records), "--timeout", "30000"),
            timeout_s=TIMEOUT_S,
            heap="512m",
            options=(),
        )
        taken, rate = consumed_rate(result.text)
        assert taken >= records, result.text
        return Measured(rate, taken)

    words = (
        f"ConsumerPerformance, {records} records of {record_size} B in batches of {BATCH_BYTES} B, defaults, from the end of its "
        "rebalance on"
    )
    return consumer_case(name, words, record_size, records, run, mark=MARK)


def java_cases() -> list[Case]:
    return [
        producer_performance_case("java-producer-100B", 100, 2_000_000),
        producer_performance_case("java-producer-1KB", 1024, 400_000),
        consumer_performance_case("java-consumer-100B", 100, 4_000_000),
        consumer_performance_case("java-consumer-1KB", 1024, 600_000),
    ]
