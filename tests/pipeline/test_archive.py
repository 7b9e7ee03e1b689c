"""Archive jobs: each committed record of the topics is in the table once, in both formats."""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.lake.table import facts_of_commits, read_table, table_format
from tests.pipeline.jobs_in_process import run_jobs
from tests.pipeline.topics import FIRST_DAY_MS, Record, make_topic, numbered, produce

FORMATS = ("parquet", "delta")
LAST_MS = (1 << 63) - 1
HEADERS = (("header", b"of the record"), ("empty", b""))


def archive(topic: str, extra: str = "") -> str:
    return f'[jobs.a]\nkind = "archive"\ntopics = ["{topic}"]\n{extra}\n'


def contents(spark: SparkSession, path: Path) -> list[tuple[Any, ...]]:
    """What a record has from its producer, in the order of the log."""
    rows = read_table(spark, str(path)).orderBy("topic", "partition", "offset").select("partition", "key", "value", "headers")
    return [(r.partition, r.key, r.value, tuple((h.key, bytes(h.value)) for h in r.headers or ())) for r in rows.collect()]


def expected(records: list[Record], partitions: int = 2) -> list[tuple[Any, ...]]:
    return [(r.partition, r.key, r.value, r.headers) for p in range(partitions) for r in records if r.partition == p]


@pytest.mark.parametrize("table", FORMATS)
def test_each_record_is_in_the_table_once_with_all_that_it_has(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, table: str
) -> None:
    make_topic(bootstrap, topic)
    first, second = numbered(60), [*numbered(40, first=60), Record(1, None, None, FIRST_DAY_MS)]
    produce(bootstrap, topic, first)
    jobs = archive(topic, f'format = "{table}"\nmax_offsets_per_trigger = 25')
    run_jobs(spark, bootstrap, tmp_path, jobs)
    assert contents(spark, tmp_path / "a") == expected(first)
    produce(bootstrap, topic, second)
    run_jobs(spark, bootstrap, tmp_path, jobs)
    assert table_format(spark, str(tmp_path / "a")) == table
    assert contents(spark, tmp_path / "a") == expected(first + second)
    rows = read_table(spark, str(tmp_path / "a"))
    assert rows.where("topic = 'x'").count() == 0
    assert {row.offset for row in rows.where("partition = 0").collect()} == set(range(50))
    assert [str(row.date) for row in rows.select("date").distinct().orderBy("date").collect()] == ["2026-05-27", "2026-05-28"]
    assert rows.where("leader_epoch IS NOT NULL OR timestamp_type <> 0 OR ingest_time IS NULL").count() == 0
    batches = [facts for facts in facts_of_commits(spark, str(tmp_path / "a")) if facts["kind"] == "batch"]
    assert [facts["batch"] for facts in batches] == list(range(len(batches)))
    assert batches[-1]["offsets"][topic]["0"][1] == 50


def test_a_plain_reader_of_the_parquet_folder_sees_the_same_rows(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    make_topic(bootstrap, topic)
    produce(bootstrap, topic, numbered(20))
    run_jobs(spark, bootstrap, tmp_path, archive(topic))
    assert spark.read.parquet(str(tmp_path / "a")).count() == 20


def test_a_time_before_1582_is_the_one_that_the_record_has(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    """Spark's connector takes it for a time of the Julian calendar."""
    make_topic(bootstrap, topic, 1)
    times_ms = [-62_135_596_800_000, -12_219_292_800_001, -12_219_292_800_000, -1, FIRST_DAY_MS]
    produce(bootstrap, topic, [Record(0, b"k", None, time_ms) for time_ms in times_ms])
    run_jobs(spark, bootstrap, tmp_path, archive(topic))
    rows = read_table(spark, str(tmp_path / "a")).orderBy("offset").selectExpr("unix_millis(timestamp) AS ms", "date").collect()
    assert [row.ms for row in rows] == times_ms
    days = ["0001-01-01", "1582-10-14", "1582-10-15", "1969-12-31", "2026-05-27"]
    assert [str(row.date) for row in rows] == days


@pytest.mark.parametrize("table", FORMATS)
def test_a_time_that_spark_cannot_hold_is_a_dead_letter_and_its_record_a_row(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, table: str
) -> None:
    """Spark's connector fails at such a record. Of years behind 9999, only Python's own times know nothing."""
    make_topic(bootstrap, topic, 1, {"message.timestamp.after.max.ms": str(LAST_MS)})
    times_ms = [FIRST_DAY_MS, 253_402_300_800_000, LAST_MS // 1000 - 1, LAST_MS // 1000 + 1, 1 << 62, -62_135_596_800_000]
    records = [Record(0, b"key", b'{"n": %d}' % number, time_ms, HEADERS) for number, time_ms in enumerate(times_ms)]
    produce(bootstrap, topic, records[:3])
    jobs = archive(topic, f'format = "{table}"\ncompaction.min_files = 2')
    run_jobs(spark, bootstrap, tmp_path, jobs)
    produce(bootstrap, topic, records[3:])
    produce(bootstrap, topic, [Record(0, b"aborted", b"")], transactional_id=f"{topic}-id", abort=True)
    audit = f'[jobs.check]\nkind = "audit"\narchive = "a"\ntopics = ["{topic}"]\nreport = "{tmp_path}/report"\n'
    run_jobs(spark, bootstrap, tmp_path, jobs + audit)
    assert contents(spark, tmp_path / "a") == expected(records, 1)
    rows = read_table(spark, str(tmp_path / "a")).orderBy("offset")
    found = rows.selectExpr("unix_millis(timestamp) AS ms", "CAST(date AS string) AS date", "timestamp_type AS type").collect()
    assert [row.ms for row in found] == [*times_ms[:3], None, None, times_ms[5]]
    assert [row.date for row in found][1:3] == ["+10000-01-01", "+294247-01-10"]
    assert {row.type for row in found} == {0}
    assert rows.where("timestamp > '9999-12-31'").count() == 2
    dead = read_table(spark, str(tmp_path / "a_dead_letters")).orderBy("offset").collect()
    assert [(row.offset, bytes(row.value), row.reason) for row in dead] == [
        (3, b'{"n": 3}', "the timestamp 9223372036854776 ms is beyond what Spark holds"),
        (4, b'{"n": 4}', "the timestamp 4611686018427387904 ms is beyond what Spark holds"),
    ]
    run_jobs(spark, bootstrap, tmp_path, archive(topic, f'format = "{table}"\nschema = {{format = "json", ddl = "n INT"}}'))


@pytest.mark.parametrize("table", FORMATS)
def test_what_does_not_parse_is_a_dead_letter_with_reason_and_offset(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, table: str
) -> None:
    make_topic(bootstrap, topic, 1)
    produce(
        bootstrap, topic, [Record(0, b"a", b'{"n": 1}'), Record(0, b"b", b"\xff"), Record(0, b"c", None), Record(0, b"d", b"{")]
    )
    run_jobs(spark, bootstrap, tmp_path, archive(topic, f'format = "{table}"\nschema = {{format = "json", ddl = "n INT"}}'))
    rows = read_table(spark, str(tmp_path / "a")).orderBy("offset").collect()
    assert [row.parsed and row.parsed.n for row in rows] == [1, None, None, None]
    dead = read_table(spark, str(tmp_path / "a_dead_letters")).orderBy("offset").collect()
    assert [(row.reason, row.offset, bytes(row.value)) for row in dead] == [
        ("not UTF-8", 1, b"\xff"),
        ("no JSON object of n INT", 3, b"{"),
    ]


@pytest.mark.parametrize("table", FORMATS)
def test_a_schema_grows_by_new_columns_and_a_conflict_is_refused(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, table: str
) -> None:
    make_topic(bootstrap, topic, 1)

    def run(ddl: str, value: bytes) -> None:
        produce(bootstrap, topic, [Record(0, b"k", value)])
        jobs = archive(topic, f'format = "{table}"\nschema = {{format = "json", ddl = "{ddl}"}}')
        run_jobs(spark, bootstrap, tmp_path, jobs)

    run("n INT", b'{"n": 1}')
    run("m STRING, n INT, s STRUCT<x: INT>", b'{"n": 2, "m": "two", "s": {"x": 3}}')
    run("s STRUCT<y: INT>", b'{"n": "no longer read", "s": {"y": 4}}')
    rows = read_table(spark, str(tmp_path / "a")).orderBy("offset").selectExpr("to_json(parsed) AS parsed").collect()
    assert [json.loads(row.parsed) for row in rows] == [{"n": 1}, {"n": 2, "m": "two", "s": {"x": 3}}, {"s": {"y": 4}}]
    with pytest.raises(
        PipelineError, match=r"column parsed\.n of .*/a is int, and string in the job's schema; give the new column"
    ):
        run("n STRING", b'{"n": "x"}')
    assert read_table(spark, str(tmp_path / "a")).count() == 3


@pytest.mark.parametrize("table", FORMATS)
def test_parsed_columns_stay_when_values_are_no_longer_parsed(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, table: str
) -> None:
    make_topic(bootstrap, topic, 1)
    produce(bootstrap, topic, [Record(0, b"k", b'{"n": 1}')])
    run_jobs(spark, bootstrap, tmp_path, archive(topic, f'format = "{table}"\nschema = {{format = "json", ddl = "n INT"}}'))
    produce(bootstrap, topic, [Record(0, b"k", b'{"n": 2}')])
    run_jobs(spark, bootstrap, tmp_path, archive(topic, f'format = "{table}"\ncompaction.min_files = 2'))
    rows = read_table(spark, str(tmp_path / "a")).orderBy("offset").collect()
    assert [row.parsed and row.parsed.n for row in rows] == [1, None]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("table", FORMATS)
def test_a_run_after_a_crash_between_both_commits_ends_and_leaves_the_batch_out(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, table: str
) -> None:
    """The table has the batch, and Spark's checkpoint has not."""
    make_topic(bootstrap, topic)
    produce(bootstrap, topic, numbered(20))
    jobs = archive(topic, f'format = "{table}"')
    run_jobs(spark, bootstrap, tmp_path, jobs)
    commits = tmp_path / "_checkpoints" / "a" / "commits"
    for name in ("0", ".0.crc"):
        (commits / name).unlink()
    run_jobs(spark, bootstrap, tmp_path, jobs)
    assert (commits / "0").exists()
    assert contents(spark, tmp_path / "a") == expected(numbered(20))


@pytest.mark.parametrize("table", FORMATS)
def test_an_older_checkpoint_that_is_put_back_is_refused(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, table: str
) -> None:
    make_topic(bootstrap, topic)
    produce(bootstrap, topic, numbered(20))
    jobs, checkpoint = archive(topic, f'format = "{table}"'), tmp_path / "_checkpoints" / "a"
    run_jobs(spark, bootstrap, tmp_path, jobs)
    shutil.copytree(checkpoint, tmp_path / "older")
    produce(bootstrap, topic, numbered(20, first=20))
    run_jobs(spark, bootstrap, tmp_path, jobs)
    shutil.rmtree(checkpoint)
    (tmp_path / "older").rename(checkpoint)
    produce(bootstrap, topic, numbered(20, first=40))
    with pytest.raises(
        PipelineError, match=r"a has a batch 1 with other offsets than the checkpoint .*an older checkpoint was put back"
    ):
        run_jobs(spark, bootstrap, tmp_path, jobs)
    assert contents(spark, tmp_path / "a") == expected(numbered(40))


@pytest.mark.parametrize("table", FORMATS)
def test_small_files_become_few_and_old_dates_go(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, table: str
) -> None:
    make_topic(bootstrap, topic, 1)
    records = numbered(40, partitions=1, days=1)
    produce(bootstrap, topic, records)
    small = f'format = "{table}"\nmax_offsets_per_trigger = 10\ncompaction.min_files = 4\nkeep_removed_minutes = 0'
    run_jobs(spark, bootstrap, tmp_path, archive(topic, small))
    assert len(read_table(spark, str(tmp_path / "a")).inputFiles()) == 1
    assert contents(spark, tmp_path / "a") == expected(records, 1)
    produce(bootstrap, topic, [Record(0, b"n", b"n", timestamp_ms=round(time.time() * 1000))])
    run_jobs(spark, bootstrap, tmp_path, archive(topic, f"{small}\nretention_days = 1"))
    assert [row[1] for row in contents(spark, tmp_path / "a")] == [b"n"]
    (retention,) = [facts for facts in facts_of_commits(spark, str(tmp_path / "a")) if facts["kind"] == "retention"]
    assert retention["expired_before"] > "2026-05-28"
    if table == "parquet":
        assert spark.read.parquet(str(tmp_path / "a")).count() == 1
