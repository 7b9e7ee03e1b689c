"""Drills: etcd is lost as a whole, and the metadata is rebuilt from what the storage nodes hold."""

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import ResourceType

from libs.cluster.saved_metadata import IMAGE_FILE, parse_file
from services.storage.refusals import OTHER_CLUSTER
from tests.compat.clients.admin import Admin
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually
from tests.support.requirements import ROOT
from tests.system.faults.produce_run import ProduceRun, read_all

GROUP, PARTITIONS = "billing", 3
NODES = ("storage-1", "storage-2", "storage-3")


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(storage=3) as running:
        yield running


def lose_etcd(cluster: LocalCluster) -> None:
    """Everything dies at once, and nothing of etcd is left."""
    for name in cluster.names:
        cluster.kill(name)
    shutil.rmtree(cluster.data_directory("etcd"))


def rebuild(cluster: LocalCluster, *arguments: str) -> str:
    """What `make rebuild` says."""
    argv = [sys.executable, "-m", "services.local", "rebuild", f"--run={cluster.run.path}", *arguments]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def commit(cluster: LocalCluster, topic: str, offsets: list[int]) -> None:
    group = member(cluster)
    group.commit(offsets=[TopicPartition(topic, index, offset) for index, offset in enumerate(offsets)], asynchronous=False)
    group.close()


def committed(cluster: LocalCluster, topic: str) -> list[int]:
    group = member(cluster)
    found = group.committed([TopicPartition(topic, index) for index in range(PARTITIONS)], timeout=60)
    group.close()
    return [partition.offset for partition in found]


def member(cluster: LocalCluster) -> Consumer:
    return Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": GROUP, "enable.auto.commit": False})


def copies_name(cluster: LocalCluster, *topics: str) -> bool:
    files = [cluster.data_directory(name) / IMAGE_FILE for name in NODES]
    return all(file.exists() and parse_file(file.read_bytes()).image.topics.keys() >= set(topics) for file in files)


def until_acknowledged(cluster: LocalCluster, run: ProduceRun) -> float:
    """Starts everything. Returns the seconds from the start until each partition has acknowledged a record again."""
    before = [len(acknowledged) for acknowledged in run.acknowledged]
    began = time.monotonic()
    cluster.up()
    eventually(lambda: all(len(now) > then for now, then in zip(run.acknowledged, before, strict=True)), 120)
    return time.monotonic() - began


def start_on_an_empty_etcd(cluster: LocalCluster) -> None:
    """What somebody may do who does not know yet that etcd's data is gone: the storage node refuses the new cluster."""
    for name in ("etcd", "controller-1", "storage-1"):
        cluster.start(name)
    eventually(lambda: "log directory belongs to another cluster" in cluster.log("storage-1"))
    eventually(lambda: not cluster.is_running("storage-1"))
    assert f'way_out="{OTHER_CLUSTER}"' in cluster.log("storage-1")
    assert "make down, make rebuild, make up" in OTHER_CLUSTER, "which the test does from here on"
    for name in ("controller-1", "etcd"):
        cluster.kill(name)


def test_after_etcd_is_lost_every_acknowledged_record_and_committed_offset_is_there(cluster: LocalCluster) -> None:
    Admin(cluster.bootstrap).create(
        "orders", PARTITIONS, replicas=3, config={"retention.ms": "777000", "min.insync.replicas": "2"}
    )
    with ProduceRun(cluster.bootstrap, "orders", partitions=PARTITIONS) as run:
        run.advance()
        commit(cluster, "orders", [100, 200, 300])
        eventually(lambda: copies_name(cluster, "orders", "__consumer_offsets"))
        run.advance()
        lose_etcd(cluster)

        shown = rebuild(cluster, "--dry-run")
        assert "would rebuild the metadata of cluster" in shown
        assert not cluster.data_directory("etcd").exists()
        said = rebuild(cluster)
        assert f"topics: 2, partitions: {PARTITIONS + 50}" in said, said
        assert "note:" not in said
        seconds = until_acknowledged(cluster, run)
        print(f"acks=all goes on {seconds:.1f} s after the start")
        run.advance()
        run.finish()
    run.check(cluster.bootstrap)
    assert committed(cluster, "orders") == [100, 200, 300]
    admin = Admin(cluster.bootstrap)  # a new client: one that has lost the controller may ask for it once in minutes
    assert admin.config(ResourceType.TOPIC, "orders")["retention.ms"].value == "777000"
    admin.create("orders-2")
    with ProduceRun(cluster.bootstrap, "orders-2") as newcomer:
        newcomer.advance(50)
        newcomer.finish()
    newcomer.check(cluster.bootstrap)


def test_topics_newer_than_every_copy_are_rebuilt_even_after_a_start_on_an_empty_etcd(
    cluster: LocalCluster,
) -> None:
    admin = Admin(cluster.bootstrap)
    admin.create("known")
    eventually(lambda: copies_name(cluster, "known"))
    former = {name: (cluster.data_directory(name) / IMAGE_FILE).read_bytes() for name in NODES}
    admin.create("orders", PARTITIONS, replicas=3)
    with ProduceRun(cluster.bootstrap, "orders", partitions=PARTITIONS) as run:
        run.advance()
        commit(cluster, "orders", [10, 20, 30])
        lose_etcd(cluster)
        for name, content in former.items():
            (cluster.data_directory(name) / IMAGE_FILE).write_bytes(content)
        start_on_an_empty_etcd(cluster)
        said = rebuild(cluster)
        for topic in ("orders", "__consumer_offsets"):
            assert f"topic {topic} is newer than all saved metadata: its configs are the defaults" in said
        until_acknowledged(cluster, run)
        run.advance()
        run.finish()
    run.check(cluster.bootstrap)
    assert committed(cluster, "orders") == [10, 20, 30]
    assert read_all(cluster.bootstrap, "known", 0) == []
