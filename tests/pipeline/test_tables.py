"""Table jobs: the latest record of each key, and what they refuse."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.lake.table import read_table
from tests.pipeline.jobs_in_process import run_jobs
from tests.pipeline.topics import Record, make_topic, produce


def table(topic: str, extra: str = "") -> str:
    return f'[jobs.t]\nkind = "table"\ntopics = ["{topic}"]\n{extra}\n'


def test_a_record_that_is_no_longer_parsed_keeps_no_older_parsed_value(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    make_topic(bootstrap, topic, 1)
    produce(bootstrap, topic, [Record(0, b"a", b'{"n": 1}'), Record(0, b"b", b'{"n": 2}'), Record(0, None, b"no key")])
    run_jobs(spark, bootstrap, tmp_path, table(topic, 'schema = { format = "json", ddl = "n INT" }'))
    produce(bootstrap, topic, [Record(0, b"a", b'{"n": 3}'), Record(0, b"c", b'{"n": 4}')])
    run_jobs(spark, bootstrap, tmp_path, table(topic))
    rows = read_table(spark, str(tmp_path / "t")).orderBy("key").collect()
    assert [(bytes(row.key), bytes(row.value), row.parsed and row.parsed.n) for row in rows] == [
        (b"a", b'{"n": 3}', None),
        (b"b", b'{"n": 2}', 2),
        (b"c", b'{"n": 4}', None),
    ]
    dead = read_table(spark, str(tmp_path / "t_dead_letters")).collect()
    assert [(row.reason, bytes(row.value)) for row in dead] == [("no key", b"no key")]


def test_a_latest_record_whose_time_spark_cannot_hold_is_in_the_table(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    make_topic(bootstrap, topic, 1, {"message.timestamp.after.max.ms": str((1 << 63) - 1)})
    produce(
        bootstrap, topic, [Record(0, b"a", b'{"n": 1}'), Record(0, b"a", b'{"n": 2}', 1 << 62), Record(0, None, b"", 1 << 62)]
    )
    run_jobs(spark, bootstrap, tmp_path, table(topic, 'schema = { format = "json", ddl = "n INT" }'))
    rows = read_table(spark, str(tmp_path / "t")).collect()
    assert [(bytes(row.key), row.parsed.n, row.timestamp) for row in rows] == [(b"a", 2, None)]
    dead = read_table(spark, str(tmp_path / "t_dead_letters")).orderBy("offset").collect()
    assert [(row.offset, row.reason) for row in dead] == [
        (1, "the timestamp 4611686018427387904 ms is beyond what Spark holds"),
        (2, "no key"),
    ]


def test_a_topic_that_has_grown_is_refused(spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path) -> None:
    make_topic(bootstrap, topic, 1)
    produce(bootstrap, topic, [Record(0, b"a", b"old")])
    run_jobs(spark, bootstrap, tmp_path, table(topic))
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(60)
    produce(bootstrap, topic, [Record(1, b"a", b"new"), Record(0, b"a", b"between")])
    for _ in range(2):
        with pytest.raises(PipelineError, match=f"t: {topic} has grown to 2 partitions: records of one key may now lie"):
            run_jobs(spark, bootstrap, tmp_path, table(topic))
    assert [bytes(row.value) for row in read_table(spark, str(tmp_path / "t")).collect()] == [b"old"]
