"""The memory of an idle cluster, and the seconds until it is ready. Each system is started for the purpose."""

import signal
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from services.local.cluster_shape import NODE_ROLES
from tests.bench import frames, load
from tests.bench.own_figure import own_figure
from tests.bench.sides import Side
from tests.compat.kafka.broker import KafkaBroker
from tests.support.cluster_harness import LocalCluster
from tests.support.process_memory import memory_bytes

MB = 1_000_000
STARTS = 10
LOG_BYTES = 1 << 30
LOG_TOPIC = {"segment.bytes": str(LOG_BYTES)}


def _figure(name: str, penstock: float, kafka: float, unit: str, mark: str, settings: str) -> dict[str, object]:
    return {
        "name": name,
        "penstock": round(penstock, 2),
        "kafka": round(kafka, 2),
        "ratio": round(penstock / kafka, 3),
        "unit": unit,
        "mark": mark,
        "durability": {"penstock": "synced", "kafka": "page cache"},
        "settings": settings,
    }


def memory(idle_s: float = 60.0) -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as root:
        with LocalCluster(Path(root), storage=3) as cluster:
            ours = idle_megabytes(cluster, idle_s)
        with KafkaBroker(Path(root) / "kafka") as broker:
            time.sleep(idle_s)
            theirs = memory_bytes(broker.pid)
            assert theirs is not None
    settings = f"all processes of the default cluster, idle for {idle_s:.0f} s; Kafka: one broker with a heap of 1 GB"
    figure = _figure("memory-idle", sum(ours.values()), theirs / MB, "MB (Pss)", "< 500 MB", settings)
    return [{**figure, "processes": {name: round(size, 1) for name, size in ours.items()}}]


def idle_megabytes(cluster: LocalCluster, idle_s: float) -> dict[str, float]:
    """The Pss of each process, after a rest: what processes share counts once."""
    time.sleep(idle_s)
    return {name: cluster.memory_bytes(name) / MB for name in cluster.names}


def startup() -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as root:
        with LocalCluster(Path(root) / "fresh", storage=3) as cluster:
            cluster.stop()
            fresh = seconds_of(cluster.up)
        with LocalCluster(Path(root) / "filled") as cluster:
            _fill(Side("penstock", cluster.bootstrap, LOG_TOPIC))
            cluster.kill("storage-1")
            restarted = seconds_of(lambda: _start_again(cluster, "storage-1"))
        with KafkaBroker(Path(root) / "kafka") as broker:
            broker.stop()  # the first start formatted its directory
            kafka_fresh = seconds_of(broker.start)
            _fill(Side("kafka", broker.bootstrap, LOG_TOPIC))
            broker.stop(number=signal.SIGKILL)
            kafka_restarted = seconds_of(broker.start)
    return [
        _figure("startup", fresh, kafka_fresh, "s", "< 3 s", "set up, no data; 3 storage nodes, Kafka: one broker"),
        _figure(
            "restart-after-kill", restarted, kafka_restarted, "s", "< 3 s", "SIGKILL of the (only) storage node with 1 GB of log"
        ),
    ]


def node_footprint(idle_s: float = 20.0) -> list[dict[str, object]]:
    """Of `make up ROLES=node` with one node: its memory, and the time of the command until all of it is ready. Nothing of Kafka's
    is like it: it stands beside targets only."""
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as root,
        LocalCluster(Path(root), storage=1, roles=NODE_ROLES) as cluster,
    ):
        ours = idle_megabytes(cluster, idle_s)
        seconds = []
        for _ in range(STARTS):
            cluster.stop()
            seconds.append(seconds_of(cluster.up))
    one_node = "`make up ROLES=node NODES=1`"
    started = f"{one_node} of a stopped cluster, from the command to its end; the median of {STARTS}"
    processes = {name: round(size, 1) for name, size in ours.items()}
    values = [round(value, 2) for value in seconds]
    return [
        own_figure(
            "node-memory",
            ours["node-1"],
            "MB (Pss)",
            "≤ 80",
            f"the node of {one_node}, idle for {idle_s:.0f} s",
            processes=processes,
        ),
        own_figure("node-ready", statistics.median(seconds), "s", "≤ 1", started, values=values),
    ]


def _start_again(cluster: LocalCluster, name: str) -> None:
    cluster.start(name)
    cluster.wait_ready([name])


def seconds_of(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _fill(side: Side) -> None:
    """One partition with `LOG_BYTES` of batches, all acknowledged."""
    topic = "filled"
    side.create_topic(topic, 1)
    batch, _ = frames.batch_of_about(1000 * 1024, 1000, time.time_ns() // 1_000_000)
    frame = frames.produce_frame(topic, 0, batch, -1)
    load.produce([(side.leaders(topic)[0], frame)], frames.produce_error_position(topic), len(batch), 5, 300, LOG_BYTES)
