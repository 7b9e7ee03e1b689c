"""A transform job goes on while processes of the cluster die: a storage node, a gateway, a coordinator of transactions."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from services.pipeline.job_file.file import parse_job_file
from services.pipeline.job_file.transform import TransformJob
from services.pipeline.jobs.running import Environment, RunningStream
from services.pipeline.jobs.transform import start_transform
from tests.pipeline.jobs_in_process import job_file
from tests.pipeline.sink.topics import read_topic
from tests.pipeline.topics import make_topic, numbered, produce
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually

WAVE = 60
PARTITIONS = 3


@pytest.fixture(scope="module")
def broken_cluster() -> Iterator[LocalCluster]:
    with LocalCluster(storage=3, gateways=2, transaction_coordinators=2) as cluster:
        yield cluster


def start(spark: SparkSession, bootstrap: str, topic: str, lake: Path) -> RunningStream:
    job = f"""
[jobs.copy]
kind = "transform"
query = "SELECT key, value, timestamp FROM given"
topic = "{topic}-out"
trigger = "200 milliseconds"
[jobs.copy.inputs.given]
topics = ["{topic}"]
"""
    file = parse_job_file(job_file(bootstrap, lake, job))
    copy = file.jobs["copy"]
    assert isinstance(copy, TransformJob)
    return start_transform(copy, Environment(spark, file.cluster, file.lake))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("victim", ["storage-2", "gateway-1", "transaction_coordinator-1"])
def test_a_transform_goes_on_exactly_while_a_process_is_killed(
    spark: SparkSession, broken_cluster: LocalCluster, topic: str, tmp_path: Path, victim: str
) -> None:
    cluster, waves = broken_cluster, 0
    for name in (topic, f"{topic}-out"):
        make_topic(cluster.bootstrap, name, PARTITIONS)

    def pass_a_wave() -> None:
        nonlocal waves
        produce(cluster.bootstrap, topic, numbered(WAVE, partitions=PARTITIONS, first=waves * WAVE))
        waves += 1
        eventually(lambda: len(read_topic(cluster.bootstrap, f"{topic}-out")) >= waves * WAVE, 240.0)

    job = start(spark, cluster.bootstrap, topic, tmp_path)
    try:
        pass_a_wave()
        cluster.kill(victim)
        pass_a_wave()
        cluster.start(victim)
        cluster.wait_ready([victim])
        pass_a_wave()
    finally:
        job.stop()
    written = sorted((record.key, record.value) for record in read_topic(cluster.bootstrap, f"{topic}-out"))
    assert written == sorted((record.key, record.value) for record in numbered(waves * WAVE))
