"""Kafka's own producer benchmark as a case: what a Java user sees, client included."""

import re
import time

from tests.bench.cases import Case, Measured
from tests.bench.sides import Side
from tests.compat.kafka.tools import run_tool

RATE = re.compile(r"(\d+) records sent, ([\d.]+) records/sec")
TIMEOUT_S = 300.0


def producer_performance_case(name: str, record_size: int, records: int) -> Case:
    def prepare(side: Side) -> str:
        topic = f"{name}-{time.time_ns()}"
        side.create_topic(topic, 1)
        return topic

    def run(side: Side, prepared: object, seconds: float) -> Measured:
        """One run of the tool. Its time depends on `records`, so that both sides do the same work."""
        producer = (f"bootstrap.servers={side.bootstrap}", "acks=1")
        result = run_tool(
            "kafka-producer-perf-test",
            *("--topic", str(prepared), "--num-records", str(records), "--record-size", str(record_size)),
            *("--throughput", "-1", "--producer-props", *producer),
            timeout_s=TIMEOUT_S,
            heap="512m",
            options=(),
        )
        # Intermediate lines have the same form: the last one is the whole run's.
        sent, rate = RATE.findall(result.text)[-1]
        assert int(sent) == records, result.text
        return Measured(float(rate), records)

    return Case(
        name=name,
        unit="records/s",
        higher_is_better=True,
        settings=f"ProducerPerformance, {records} records of {record_size} B, acks=1, defaults otherwise",
        prepare=prepare,
        run=run,
        clean=lambda side, prepared: side.delete_topic(str(prepared)),
        per="record",
    )


def java_cases() -> list[Case]:
    return [
        producer_performance_case("java-producer-100B", 100, 2_000_000),
        producer_performance_case("java-producer-1KB", 1024, 400_000),
    ]
