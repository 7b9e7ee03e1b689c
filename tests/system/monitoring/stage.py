"""What the situations are played on: a cluster that Prometheus scrapes, with clients that write and read a little."""

import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from libs.cluster import keys
from libs.cluster.records import ConfigOverrides
from services.pipeline.observing.pipeline_meters import PipelineMeters
from services.pipeline.observing.serving import MetricsServer
from tests.compat.clients.admin import Admin
from tests.monitoring.alerts import LIMITS
from tests.monitoring.rules_yaml import rules_yaml
from tests.support.cluster_harness import LocalCluster
from tests.support.otlp_collector import OtlpCollector
from tests.support.polling import rounds
from tests.system.faults.small_disks import small_disk
from tests.system.faults.stored_records import store_record
from tests.system.monitoring.prometheus_server import Prometheus
from tests.system.monitoring.watch import Watch

CONNECTIONS_MAX: Final = 200
GATEWAY: Final = {
    "PENSTOCK_CONNECTIONS_MAX": str(CONNECTIONS_MAX),
    "PENSTOCK_CROWDED_S_MAX": "60",  # clients that take all room for requests have it for longer than the alert needs
    "PENSTOCK_MEMBER_TTL_S": "30",  # a gateway that is stopped for a while is silent, and not gone
}
HOLD: Final = "2s"
"""For how long each expression must hold, instead of up to an hour."""
SHORT_LIMITS: Final = {
    **LIMITS,
    "window": "4s",
    "rebalance_s": "5",
    "transaction_s": "4",
    "isr_changes_per_s": "1",
    "store_s": "1",
    "starts": "2",
    "starts_window": "10s",
    # A busy machine reaches these by itself: `promtool test rules` has their cases.
    "busy_share": "99",
    "sync_s": "99",
}
LOADED, SINGLE, RISKY, FILLED, COMPACTED, OLD = "loaded", "single", "risky", "filled", "compacted", "old"
DISK_NODE: Final = "storage-4"
"""The node whose disks break. It has replicas of `FILLED` only."""
PIPELINE_JOB: Final = "packages"


class Trickle:
    """Clients that go on through everything: a producer with acks=all, and a group that reads and commits."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._produce, self._consume)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def _produce(self) -> None:
        # A cluster that is not mended, since the test fails, holds up its end for no longer than that.
        limits = {"message.timeout.ms": 30_000}
        producer = Producer({**client(self._bootstrap), "acks": "all", "linger.ms": 0, **limits})
        while not self._stopping.wait(0.02):  # of many requests, one that is slow is no alert
            with contextlib.suppress(BufferError):
                producer.produce(LOADED, b"x" * 200)
                producer.produce(COMPACTED, b"x", key=b"same")
            producer.poll(0)
        producer.close()

    def _consume(self) -> None:
        consumer = Consumer({**group_settings(self._bootstrap, "readers"), "auto.commit.interval.ms": 500})
        consumer.subscribe([LOADED])
        while not self._stopping.is_set():
            consumer.poll(0.1)
        consumer.close()


class Stage(NamedTuple):
    cluster: LocalCluster
    prometheus: Prometheus
    watch: Watch
    pipeline: PipelineMeters
    trickle: Trickle
    disks: tuple[Path, Path]
    """Of `DISK_NODE`: the first can be filled, the second loses its power."""

    @property
    def admin(self) -> Admin:
        return Admin(self.cluster.bootstrap)


@contextmanager
def staged(folder: Path) -> Iterator[Stage]:
    """The cluster is not up yet, and Prometheus asks for it already."""
    with contextlib.ExitStack() as stack:
        first, second = (stack.enter_context(small_disk(kind, folder, 48)) for kind in ("tmpfs", "ext4"))
        collector = stack.enter_context(OtlpCollector())
        cluster = LocalCluster(
            storage=4,
            environment={"PENSTOCK_TRACE_ENDPOINT": collector.endpoint},
            expected_complaints="log directory retired",
            environment_of={
                DISK_NODE: {"PENSTOCK_LOG_DIRS": f"{first}/logs,{second}/logs"},
                "gateway-1": GATEWAY,
            },
        )
        pipeline = PipelineMeters()
        server = MetricsServer(pipeline, "127.0.0.1", 0)
        stack.callback(server.close)
        targets = [f"{host}:{port}" for host, port in map(cluster.admin_address, set(cluster.names) - {"etcd"})]
        jobs = {"penstock": targets, "pipeline": [f"127.0.0.1:{server.port}"]}
        rules = rules_yaml(SHORT_LIMITS, HOLD)
        prometheus = stack.enter_context(Prometheus(folder / "prometheus", jobs, rules))
        stack.push(lambda kind, error, trace: cluster.close(check=kind is None))
        trickle = Trickle(cluster.bootstrap)
        stack.callback(trickle.stop)
        yield Stage(cluster, prometheus, Watch(prometheus), pipeline, trickle, (first, second))


def make_topics(stage: Stage) -> None:
    """Nodes 1 to 3 have all replicas but those of `DISK_NODE`. Internal topics are small, and leaders return at once."""
    configs = {
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.num.partitions": "3",
        "leader.imbalance.check.interval.seconds": "1",
    }
    store_record(stage.cluster, keys.config("broker", ""), ConfigOverrides(configs))
    placed = {
        LOADED: ([[1, 2, 3], [2, 3, 1], [3, 1, 2]], {"min.insync.replicas": "2"}),
        SINGLE: ([[3]], {}),
        RISKY: ([[3, 2]], {"unclean.leader.election.enable": "true"}),
        COMPACTED: ([[1, 2]], {"cleanup.policy": "compact"}),
        OLD: ([[1, 2]], {"retention.ms": "-1"}),
    }
    stage.admin.create_all(
        [NewTopic(name, len(at), replica_assignment=at, config=configs) for name, (at, configs) in placed.items()]
    )


def client(bootstrap: str) -> dict[str, object]:
    """Its log would tell of each connection that a situation ends."""
    return {"bootstrap.servers": bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 500}


def group_settings(bootstrap: str, group: str) -> dict[str, object]:
    return {**client(bootstrap), "group.id": group, "auto.offset.reset": "earliest"}


def produce(
    bootstrap: str, topic: str, partition: int = 0, *, timestamp_ms: int = 0, records: int = 1, **settings: object
) -> int:
    """Returns how many of the records were acknowledged."""
    acknowledged = []
    named = {name.replace("_", "."): value for name, value in settings.items()}
    producer = Producer({**client(bootstrap), **named})
    for _ in range(records):
        producer.produce(
            topic,
            b"x" * 1000,
            partition=partition,
            timestamp=timestamp_ms,
            on_delivery=lambda error, _: None if error else acknowledged.append(1),
        )
    producer.flush(30)
    producer.close()
    return len(acknowledged)


def read_first(bootstrap: str, topic: str, **settings: object) -> None:
    """Reads the first record of partition 0."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    consumer = Consumer({**group_settings(bootstrap, "none"), **named, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    for _ in rounds("the first record"):
        if (record := consumer.poll(0.5)) is not None and record.error() is None:
            break
    consumer.close()


def commit(bootstrap: str, group: str, topic: str, offset: int) -> None:
    """As a consumer that is assigned partition 0 does."""
    consumer = Consumer({**group_settings(bootstrap, group), "enable.auto.commit": False})
    for _ in rounds("the commit"):
        with contextlib.suppress(KafkaException):
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
            break
    consumer.close()


@contextmanager
def transaction(bootstrap: str, id: str, *, timestamp_ms: int = 0) -> Iterator[Producer]:
    """An open transaction with one record. At the end it is committed."""
    producer = Producer({**client(bootstrap), "transactional.id": id})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(LOADED, b"in a transaction", timestamp=timestamp_ms)
    producer.flush(30)
    yield producer
    producer.commit_transaction(60)
    producer.close()
