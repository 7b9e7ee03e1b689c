"""Table jobs: the latest record of each key."""

from pathlib import Path

from pyspark.sql import SparkSession

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
