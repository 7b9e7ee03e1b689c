"""Starts the systems under comparison, each in its plainest shape: one broker, one storage node behind one gateway, a node for
each core; or three."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from services.local.cluster_shape import NODE_ROLES
from services.local.python_setup import venv_python
from tests.bench.sides import Side
from tests.compat.kafka.broker import KafkaBroker
from tests.compat.kafka.trio import NODES, KafkaTrio
from tests.support.cluster_harness import LocalCluster
from tests.support.requirements import ROOT

SEGMENT_BYTES = {"segment.bytes": str(1024**3)}


def other_pids(cluster: LocalCluster, pids: Mapping[str, int]) -> dict[str, int]:
    return {name: cluster.pid(name) for name in cluster.names if name not in pids}


@contextmanager
def start_penstock(
    durability: str,
    checkout: Path = ROOT,
    name: str = "penstock",
    *,
    environment_of: Mapping[str, Mapping[str, str]] | None = None,
) -> Iterator[Side]:
    """`checkout`: whose code runs. `environment_of`: settings of a process, by its name."""
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory,
        LocalCluster(Path(directory), storage=1, root=checkout, environment_of=environment_of) as cluster,
    ):
        configs = {**SEGMENT_BYTES, "durability": durability}
        pids = {name: cluster.pid(name) for name in ("gateway-1", "storage-1", "group_coordinator-1")}

        @contextmanager
        def stopped() -> Iterator[None]:
            cluster.kill("storage-1", signal.SIGTERM)
            yield
            pids["storage-1"] = cluster.start("storage-1")
            cluster.wait_ready(["storage-1"])

        logs = cluster.data_directory("storage-1") / "logs"
        yield Side(name, cluster.bootstrap, configs, durability, pids, logs, stopped, other_pids=other_pids(cluster, pids))


@contextmanager
def start_nodes(durability: str, checkout: Path = ROOT, name: str = "penstock") -> Iterator[Side]:
    """A node for each core, as `make up ROLES=node` has them. Partitions have one replica, and their leaders take turns."""
    numbers = tuple(range(1, len(os.sched_getaffinity(0)) + 1))
    with _running_nodes(durability, checkout, name, numbers, {}, replicas=1) as side:
        yield side


@contextmanager
def start_replicated_nodes(durability: str, checkout: Path = ROOT, name: str = "penstock") -> Iterator[Side]:
    """Three nodes. Of every first partition, node 1 is the leader."""
    with _running_nodes(durability, checkout, name, NODES, {"min.insync.replicas": "2"}, replicas=len(NODES)) as side:
        yield side


@contextmanager
def _running_nodes(
    durability: str, checkout: Path, name: str, numbers: tuple[int, ...], configs: Mapping[str, str], *, replicas: int
) -> Iterator[Side]:
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory,
        LocalCluster(Path(directory), storage=len(numbers), roles=NODE_ROLES, root=checkout) as cluster,
    ):
        configs = {**SEGMENT_BYTES, "durability": durability, **configs}
        pids = {each: cluster.pid(each) for each in ("group_coordinator-1", *[f"node-{number}" for number in numbers])}
        others = other_pids(cluster, pids)
        yield Side(name, cluster.bootstrap, configs, durability, pids, nodes=numbers, replicas=replicas, other_pids=others)


@contextmanager
def start_one_process(durability: str, checkout: Path = ROOT, name: str = "penstock") -> Iterator[Side]:
    """`penstock dev`: all services in one process, which pass frames as objects."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
        argv = [str(venv_python(checkout)), "-m", "penstock", "dev", "--port", "0", "--data", directory]
        with subprocess.Popen(argv, cwd=checkout, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, encoding="utf-8") as process:
            try:
                assert process.stdout is not None
                told, _, bootstrap = process.stdout.readline().strip().partition("=")
                assert told == "bootstrap.servers", "penstock dev did not start: its reason is on stderr"
                yield Side(
                    name, bootstrap, {**SEGMENT_BYTES, "durability": durability}, durability, {"penstock dev": process.pid}
                )
            finally:
                process.terminate()


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
def start_replicated_penstock(durability: str, checkout: Path = ROOT, name: str = "penstock") -> Iterator[Side]:
    """Three storage nodes behind one gateway. Of every first partition, node 1 is the leader."""
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory,
        LocalCluster(Path(directory), storage=len(NODES), root=checkout) as cluster,
    ):
        configs = {**SEGMENT_BYTES, "durability": durability, "min.insync.replicas": "2"}
        pids = {name: cluster.pid(name) for name in ("gateway-1", "group_coordinator-1", *[f"storage-{node}" for node in NODES])}
        yield Side(name, cluster.bootstrap, configs, durability, pids, nodes=NODES, other_pids=other_pids(cluster, pids))


@contextmanager
def start_replicated_kafka(durability: str) -> Iterator[Side]:
    configs = {**SEGMENT_BYTES, "file.delete.delay.ms": "1000", "min.insync.replicas": "2"}
    properties = {}
    if durability == "synced":
        configs["flush.messages"] = properties["log.flush.interval.messages"] = "1"
    with tempfile.TemporaryDirectory(prefix="kafka-bench-") as root, KafkaTrio(Path(root), properties=properties) as trio:
        named = "flush.messages=1" if durability == "synced" else "page cache"
        yield Side("kafka", trio.bootstrap, configs, named, trio.pids, nodes=NODES)
