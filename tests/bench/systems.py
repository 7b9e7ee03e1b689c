"""Starts the systems under comparison, each in its plainest shape: one broker, one storage node behind one gateway."""

import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.sides import Side
from tests.cluster_harness import LocalCluster
from tests.kafka.broker import KafkaBroker

SEGMENT_BYTES = {"segment.bytes": str(1024**3)}


@contextmanager
def start_penstock(durability: str) -> Iterator[Side]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as root, LocalCluster(Path(root), storage=1) as cluster:
        configs = {**SEGMENT_BYTES, "durability": durability}
        pids = {name: cluster.pid(name) for name in ("gateway-1", "storage-1")}

        @contextmanager
        def stopped() -> Iterator[None]:
            cluster.kill("storage-1", signal.SIGTERM)
            yield
            pids["storage-1"] = cluster.start("storage-1")
            cluster.wait_ready(["storage-1"])

        directory = cluster.data_directory("storage-1") / "logs"
        yield Side("penstock", cluster.bootstrap, configs, durability, pids, directory, stopped)


@contextmanager
def start_kafka(durability: str) -> Iterator[Side]:
    """`synced` is Kafka's `flush.messages=1`; `replicated` its default, which acknowledges from the page cache."""
    configs = {**SEGMENT_BYTES, "file.delete.delay.ms": "1000"}
    if durability == "synced":
        configs["flush.messages"] = "1"
    with tempfile.TemporaryDirectory(prefix="kafka-bench-") as root, KafkaBroker(Path(root)) as broker:
        named = "flush.messages=1" if durability == "synced" else "page cache"
        pids = {"broker": broker.pid}

        @contextmanager
        def stopped() -> Iterator[None]:
            broker.stop()
            yield
            pids["broker"] = broker.start().pid

        yield Side("kafka", broker.bootstrap, configs, named, pids, broker.log_directory, stopped)
