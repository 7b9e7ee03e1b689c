"""Starts the systems under comparison, each in its plainest shape: one broker, one storage node behind one gateway; or three."""

import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.sides import Side
from tests.cluster_harness import LocalCluster
from tests.kafka.broker import KafkaBroker
from tests.kafka.trio import NODES, KafkaTrio

SEGMENT_BYTES = {"segment.bytes": str(1024**3)}


@contextmanager
def start_penstock(durability: str) -> Iterator[Side]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as root, LocalCluster(Path(root), storage=1) as cluster:
        configs = {**SEGMENT_BYTES, "durability": durability}
        pids = {name: cluster.pid(name) for name in ("gateway-1", "storage-1", "group_coordinator-1")}

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
    """`synced` is Kafka's `flush.messages=1`, for offsets too; `replicated` its default: acknowledged from the page cache."""
    configs = {**SEGMENT_BYTES, "file.delete.delay.ms": "1000"}
    properties = {}
    if durability == "synced":
        configs["flush.messages"] = properties["log.flush.interval.messages"] = "1"
    with tempfile.TemporaryDirectory(prefix="kafka-bench-") as root, KafkaBroker(Path(root), properties=properties) as broker:
        named = "flush.messages=1" if durability == "synced" else "page cache"
        pids = {"broker": broker.pid}

        @contextmanager
        def stopped() -> Iterator[None]:
            broker.stop()
            yield
            pids["broker"] = broker.start().pid

        yield Side("kafka", broker.bootstrap, configs, named, pids, broker.log_directory, stopped)


@contextmanager
def start_replicated_penstock(durability: str) -> Iterator[Side]:
    """Three storage nodes behind one gateway. Of every first partition, node 1 is the leader."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as root, LocalCluster(Path(root), storage=len(NODES)) as cluster:
        configs = {**SEGMENT_BYTES, "durability": durability, "min.insync.replicas": "2"}
        pids = {name: cluster.pid(name) for name in ("gateway-1", "group_coordinator-1", *[f"storage-{node}" for node in NODES])}
        yield Side("penstock", cluster.bootstrap, configs, durability, pids, nodes=NODES)


@contextmanager
def start_replicated_kafka(durability: str) -> Iterator[Side]:
    configs = {**SEGMENT_BYTES, "file.delete.delay.ms": "1000", "min.insync.replicas": "2"}
    properties = {}
    if durability == "synced":
        configs["flush.messages"] = properties["log.flush.interval.messages"] = "1"
    with tempfile.TemporaryDirectory(prefix="kafka-bench-") as root, KafkaTrio(Path(root), properties=properties) as trio:
        named = "flush.messages=1" if durability == "synced" else "page cache"
        yield Side("kafka", trio.bootstrap, configs, named, trio.pids, nodes=NODES)
