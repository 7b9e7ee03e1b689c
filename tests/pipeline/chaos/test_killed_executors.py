"""Jobs of a standalone master whose executors are killed: a task is at work, has committed, or its driver is about to commit.

Executors take their tasks, their shuffle files and their cached rows with them.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.chaos.job_runs import Kill, KilledJob
from tests.pipeline.chaos.kinds import KINDS, SPARK_CONFIG, Environment
from tests.pipeline.chaos.standalone import StandaloneMaster
from tests.pipeline.driver_process import run_while_executors_are_killed
from tests.pipeline.killed_archive import KilledArchive, broken_values, expected_values, records
from tests.pipeline.killed_table import LATEST, prepare_table_job, rows_of_table_job

SINK_KILLS = (Kill("executor", "before commit"), Kill("executor", "after commit"))
BATCHES = "services.pipeline.jobs.lake_batches:LakeBatches"
PARQUET = "services.pipeline.lake.parquet_table:ParquetTable"
DELTA = "services.pipeline.lake.delta_table:DeltaLakeTable"
ARCHIVE_STEPS = {
    "parquet": (
        f"executors after {BATCHES}.append_dead_letters 1",
        f"executors during {PARQUET}.stage 2 'b000000000001'",
        f"executors before {PARQUET}.commit 1 batch=2",
        f"executors after {PARQUET}.commit 2 batch=2",
        f"executors during {PARQUET}.compact 4",
    ),
    "delta": (
        f"executors after {BATCHES}.append_dead_letters 1",
        f"executors during {DELTA}.append 4",
        f"executors after {DELTA}.append 6",
        f"executors during {DELTA}.compact 4",
    ),
}
"""An archive of four batches. Each commits dead letters, then rows: two calls of `stage`, `commit` and `append`."""
TABLE_STEPS = (
    f"executors after {BATCHES}.append_dead_letters 1",
    f"executors during {DELTA}.merge 2",
    f"executors after {DELTA}.merge 3",
)


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneMaster]:
    with StandaloneMaster(tmp_path_factory.mktemp("standalone")) as running:
        yield running


def spark_table(standalone: StandaloneMaster, directory: Path) -> str:
    settings = {**SPARK_CONFIG, **standalone.config(directory), "spark.databricks.delta.snapshotPartitions": "2"}
    lines = "\n".join(f'config."{key}" = "{value}"' for key, value in settings.items())
    return f'[spark]\nmaster = "{standalone.url}"\n{lines}\n'


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", KINDS)
def test_a_job_whose_executors_are_killed_before_and_after_a_commit_writes_each_record_once(
    bootstrap: str, standalone: StandaloneMaster, tmp_path: Path, topic: str, kind: str
) -> None:
    around = Environment(bootstrap, tmp_path, topic, standalone.url, len(SINK_KILLS), standalone.config(tmp_path))
    prepared = KINDS[kind].prepare(around)
    job = KilledJob(tmp_path, prepared.job_file)
    job.run_to_the_end(*SINK_KILLS)
    prepared.check()
    assert job.runs == 1, "Spark repeats the executors' tasks; the job need not be started again"


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("table", ARCHIVE_STEPS)
def test_an_archive_whose_executors_are_killed_has_each_record_once(
    spark: SparkSession, bootstrap: str, standalone: StandaloneMaster, topic: str, tmp_path: Path, table: str
) -> None:
    settings = spark_table(standalone, tmp_path)
    archive = KilledArchive(spark, bootstrap, topic, tmp_path, table, spark_table=settings, batch=60)
    archive.end_while_executors_are_killed(ARCHIVE_STEPS[table])
    assert archive.values() == expected_values(records())
    assert archive.dead_letters() == broken_values(records())


@pytest.mark.timeout(1500)
def test_a_table_whose_executors_are_killed_has_the_latest_record_of_each_key(
    spark: SparkSession, bootstrap: str, standalone: StandaloneMaster, topic: str, tmp_path: Path
) -> None:
    file = prepare_table_job(bootstrap, topic, tmp_path, spark_table(standalone, tmp_path))
    run_while_executors_are_killed(file, TABLE_STEPS)
    rows = rows_of_table_job(spark, tmp_path)
    assert sorted((bytes(row.key), bytes(row.value)) for row in rows) == sorted(LATEST.items())
