"""What the pipeline's benchmarks share: a session, systems with a filled topic, and turns that alternate."""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from services.pipeline.spark.session import make_session
from services.pipeline.spark.settings import SparkSettings
from tests.compat.kafka.broker import KafkaBroker
from tests.compat.kafka.tools import run_tool
from tests.support.cluster_harness import LocalCluster

RECORD_BYTES = 200
PARTITIONS = 4
TOPIC = "bench"


def parser(description: str, records: int, rounds: int | None = 5) -> argparse.ArgumentParser:
    """`rounds`: None for a benchmark that has one only."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--records", type=int, default=records, help=f"records of {RECORD_BYTES} bytes (default {records})")
    if rounds is not None:
        counted = f"rounds that count; one before is for warming (default {rounds})"
        made.add_argument("--rounds", type=int, default=rounds, help=counted)
    made.add_argument("--driver-memory", default="2g", help="heap of Spark's driver (default 2g)")
    return made


def session(driver_memory: str) -> SparkSession:
    return make_session(SparkSettings("local[*]", {"spark.driver.memory": driver_memory}), "penstock pipeline benchmark")


@contextmanager
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="penstock-bench-") as made:
        yield Path(made)


@contextmanager
def penstock(records: int) -> Iterator[str]:
    """The bootstrap servers of one storage node with the filled topic."""
    with LocalCluster() as cluster:
        cluster.up()
        fill(cluster.bootstrap, records)
        yield cluster.bootstrap


@contextmanager
def kafka(records: int, directory: Path) -> Iterator[str]:
    with KafkaBroker(directory) as broker:
        fill(broker.bootstrap, records)
        yield broker.bootstrap


def fill(bootstrap: str, records: int) -> None:
    create = ("--create", "--topic", TOPIC, "--partitions", str(PARTITIONS), "--replication-factor", "1")
    run_tool("kafka-topics", "--bootstrap-server", bootstrap, *create)
    load = ("--topic", TOPIC, "--num-records", str(records), "--record-size", str(RECORD_BYTES), "--throughput", "-1")
    properties = ("--producer-props", f"bootstrap.servers={bootstrap}", "batch.size=131072", "linger.ms=20", "acks=all")
    run_tool("kafka-producer-perf-test", *load, *properties, timeout_s=3600, heap="512m", options=())


def alternating(subjects: dict[str, Callable[[], None]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each round. All run in turn, the first round uncounted; each round turns the order round."""
    seconds: dict[str, list[float]] = {name: [] for name in subjects}
    for number in range(rounds + 1):
        for name in list(subjects) if number % 2 else reversed(list(subjects)):
            started = time.monotonic()
            subjects[name]()
            if number:
                seconds[name].append(time.monotonic() - started)
    return seconds


def print_ratio(case: str, records: int, seconds: dict[str, list[float]], target: float) -> None:
    """The first subject's rate over the second's, by the median of the rounds' ratios."""
    ours, theirs = seconds
    pairs = [that / this for this, that in zip(seconds[ours], seconds[theirs], strict=True)]
    print_line(
        case,
        {
            "records": records,
            **{f"{name}_records_per_s": round(records / statistics.median(each)) for name, each in seconds.items()},
            "ratio": round(statistics.median(pairs), 2),
            "ratios": [round(each, 2) for each in sorted(pairs)],
            "target": target,
        },
    )


def print_line(case: str, figures: dict[str, object] | Sequence[object]) -> None:
    print(json.dumps({"case": case, **dict(figures), "load_average": round(os.getloadavg()[0], 1)}), flush=True)
