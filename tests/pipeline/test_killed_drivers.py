"""Drivers of Delta archives, of retention and of table jobs die at each step, and are started again: the output equals the input.

Each run dies at the next step and takes up what the one before has left; the last one goes to the end.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.driver_process import run_to_the_end, run_until_killed
from tests.pipeline.killed_archive import LATE, SECOND_DAY_MS, KilledArchive, broken_values, expected_values, records
from tests.pipeline.killed_table import LATEST, prepare_table_job, rows_of_table_job

BATCHES = "services.pipeline.jobs.lake_batches:LakeBatches"
ARCHIVE = "services.pipeline.jobs.archive:ArchiveBatches"
TABLE = "services.pipeline.jobs.tables:TableBatches"
PARQUET = "services.pipeline.lake.parquet_table:ParquetTable"
DELTA = "services.pipeline.lake.delta_table:DeltaLakeTable"
DELTA_STEPS = (
    f"after {DELTA}.create 1",
    f"after {BATCHES}.append_dead_letters 1",
    f"after {ARCHIVE}.write 1",
    f"after {ARCHIVE}.commit 2",
    f"after {DELTA}.compact 2",
)
RETENTION_STEPS = {
    "parquet": (
        f"after {PARQUET}.commit 1 kind='retention'",
        f"before {PARQUET}.commit 1 kind='cleanup'",
    ),
}


@pytest.mark.timeout(1200)
def test_a_delta_archive_whose_driver_dies_at_each_step_has_each_record_once(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    archive = KilledArchive(spark, bootstrap, topic, tmp_path, "delta")
    archive.die_at(DELTA_STEPS)
    archive.end()
    assert archive.values() == expected_values(records())
    assert archive.dead_letters() == broken_values(records())


@pytest.mark.timeout(900)
@pytest.mark.parametrize("table", RETENTION_STEPS)
def test_retention_whose_driver_dies_drops_whole_dates_and_the_audit_knows_it(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, table: str
) -> None:
    archive = KilledArchive(spark, bootstrap, topic, tmp_path, table)
    archive.end()
    archive.drop_first_day_and_die_at(RETENTION_STEPS[table])
    archive.end()
    kept = [*(record for record in records() if record.timestamp_ms >= SECOND_DAY_MS), LATE]
    assert archive.values() == expected_values(kept)
    assert archive.dead_letters() == broken_values(kept)


@pytest.mark.timeout(900)
def test_a_table_whose_driver_dies_has_the_latest_record_of_each_key(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    file = prepare_table_job(bootstrap, topic, tmp_path)
    for step in (
        f"after {DELTA}.create 1",
        f"after {DELTA}.merge 2",
        f"after {TABLE}.commit 1",
    ):
        run_until_killed(file, step)
    run_to_the_end(file)
    rows = rows_of_table_job(spark, tmp_path)
    assert {bytes(row.key): bytes(row.value) for row in rows} == LATEST
    assert len(rows) == 9
