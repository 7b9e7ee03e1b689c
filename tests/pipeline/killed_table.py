"""A table job whose processes are killed: its topic, its job file, and what it must have in the end."""

from pathlib import Path

from pyspark.sql import Row, SparkSession

from services.pipeline.lake.table import read_table
from tests.pipeline.jobs_in_process import job_file
from tests.pipeline.topics import Record, make_topic, produce

LATEST = {b"key-%d" % key: b"7" for key in range(10) if key != 7}
"""The rows that the table must have: key 7 ends with a tombstone."""


def prepare_table_job(bootstrap: str, topic: str, directory: Path, spark_table: str = "") -> Path:
    """Fills the topic with eight changes of each of ten keys. Returns the file of the job `t`, which takes four batches."""
    make_topic(bootstrap, topic, config={"cleanup.policy": "compact"})
    changes = [Record(key % 2, b"key-%d" % key, None if turn == key else b"%d" % turn) for turn in range(8) for key in range(10)]
    produce(bootstrap, topic, changes)
    file = directory / "jobs.toml"
    options = f'topics = ["{topic}"]\nmax_offsets_per_trigger = 20'
    file.write_text(job_file(bootstrap, directory, f'{spark_table}[jobs.t]\nkind = "table"\n{options}'), encoding="utf-8")
    return file


def rows_of_table_job(spark: SparkSession, directory: Path) -> list[Row]:
    return list(read_table(spark, str(directory / "t")).collect())
