"""The driver of a Parquet archive dies at each step of a commit, and is started again: the output equals the input.

Each run dies at the next step and takes up what the one before has left; the last one goes to the end.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.killed_archive import RECORDS, KilledArchive, broken_values, expected_values, records

BATCHES = "services.pipeline.jobs.lake_batches:LakeBatches"
ARCHIVE = "services.pipeline.jobs.archive:ArchiveBatches"
PARQUET = "services.pipeline.lake.parquet_table:ParquetTable"
MOVE = "services.pipeline.spark.files:Files.move"
STEPS = (
    f"after {BATCHES}.append_dead_letters 1",
    f"after {PARQUET}.stage 1",
    f"after {MOVE} 3",  # a batch has four files: some are in place and others are not
    f"before {PARQUET}.commit 1 kind='batch'",
    f"after {ARCHIVE}.write 1",
    f"after {ARCHIVE}.commit 2",
    f"before {PARQUET}.commit 1 kind='compaction'",
    f"after {PARQUET}.commit 1 kind='compaction'",
    f"before {PARQUET}.remove_files 3",  # the first two calls are those of the start, of rows and dead letters
)


@pytest.mark.timeout(900)
def test_a_parquet_archive_whose_driver_dies_at_each_step_has_each_record_once(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    archive = KilledArchive(spark, bootstrap, topic, tmp_path, "parquet")
    archive.die_at(STEPS)
    archive.end()
    assert archive.values() == expected_values(records())
    assert archive.dead_letters() == broken_values(records())
    assert spark.read.parquet(str(archive.table)).count() == RECORDS
