"""Drivers of archive and table jobs die at each step of a commit, and are started again: the output equals the input.

Each run dies at the next step and takes up what the one before has left; the last one goes to the end. After each death,
readers see whole batches only.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.lake.table import read_table
from tests.pipeline.driver_process import run_to_the_end, run_until_killed
from tests.pipeline.jobs_in_process import job_file
from tests.pipeline.topics import Record, make_topic, numbered, produce

PARQUET = "services.pipeline.lake.parquet_table:ParquetTable"
DELTA = "services.pipeline.lake.delta_table:DeltaLakeTable"
MOVE = "services.pipeline.spark.files:Files.move"
RECORDS, BATCH = 240, 20
STEPS = {
    "parquet": (
        f"before {PARQUET}.stage 1",
        f"after {PARQUET}.stage 2",
        f"after {MOVE} 3",  # a batch has two files or more, so one is in place and another is not
        f"before {PARQUET}.commit 2",
        f"after {PARQUET}.commit 2",
        "after services.pipeline.jobs.archive:ArchiveBatches.commit 2",
        f"before {PARQUET}.remove_files 2",  # the first call is that of the start; this is after a compaction's commit
    ),
    "delta": (
        f"before {DELTA}.append 2",
        f"after {DELTA}.append 2",
        "after services.pipeline.jobs.archive:ArchiveBatches.commit 2",
        f"after {DELTA}.compact 4",
    ),
}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("table", STEPS)
def test_an_archive_whose_driver_dies_at_each_step_has_each_record_once(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, table: str
) -> None:
    make_topic(bootstrap, topic)
    produce(bootstrap, topic, numbered(RECORDS))
    file = tmp_path / "jobs.toml"
    options = f'format = "{table}"\nmax_offsets_per_trigger = {BATCH}\ncompaction.min_files = 4'
    file.write_text(job_file(bootstrap, tmp_path, f'[jobs.a]\nkind = "archive"\ntopics = ["{topic}"]\n{options}'))
    for step in STEPS[table]:
        run_until_killed(file, step)
        rows = rows_by_partition(spark, tmp_path / "a")
        assert {number: offsets == list(range(len(offsets))) for number, offsets in rows.items()} == dict.fromkeys(rows, True), (
            step
        )
        assert sum(map(len, rows.values())) % BATCH == 0, step
    run_to_the_end(file)
    every = list(range(RECORDS // 2))
    assert rows_by_partition(spark, tmp_path / "a") == {0: every, 1: every}
    values = read_table(spark, str(tmp_path / "a")).selectExpr("decode(value, 'UTF-8') AS value").collect()
    assert sorted(row.value for row in values) == sorted((record.value or b"").decode() for record in numbered(RECORDS))
    if table == "parquet":
        assert spark.read.parquet(str(tmp_path / "a")).count() == RECORDS


@pytest.mark.timeout(900)
def test_a_table_whose_driver_dies_has_the_latest_record_of_each_key(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    make_topic(bootstrap, topic, config={"cleanup.policy": "compact"})
    changes = [Record(key % 2, b"key-%d" % key, None if turn == key else b"%d" % turn) for turn in range(8) for key in range(10)]
    produce(bootstrap, topic, changes)
    file = tmp_path / "jobs.toml"
    options = f'topics = ["{topic}"]\nmax_offsets_per_trigger = {BATCH}'
    file.write_text(job_file(bootstrap, tmp_path, f'[jobs.t]\nkind = "table"\n{options}'))
    for step in (
        f"before {DELTA}.merge 1",
        f"after {DELTA}.merge 2",
        "after services.pipeline.jobs.tables:TableBatches.commit 1",
    ):
        run_until_killed(file, step)
    run_to_the_end(file)
    rows = read_table(spark, str(tmp_path / "t")).collect()
    assert {bytes(row.key): bytes(row.value) for row in rows} == {b"key-%d" % key: b"7" for key in range(10) if key != 7}
    assert len(rows) == 9


def rows_by_partition(spark: SparkSession, path: Path) -> dict[int, list[int]]:
    """Offsets in order, duplicates included."""
    try:
        rows = read_table(spark, str(path)).select("partition", "offset").orderBy("offset").collect()
    except PipelineError:  # no batch yet
        return {}
    found: dict[int, list[int]] = {}
    for row in rows:
        found.setdefault(row.partition, []).append(row.offset)
    return found
