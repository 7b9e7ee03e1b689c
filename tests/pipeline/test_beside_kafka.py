"""The same archive job against Apache Kafka and against Penstock makes the same table."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from services.pipeline.lake.table import read_table
from tests.pipeline.jobs_in_process import run_jobs
from tests.pipeline.topics import make_topic, numbered, produce

if TYPE_CHECKING:
    from tests.compat.kafka.broker import KafkaBroker


def table_of(spark: SparkSession, bootstrap: str, topic: str, lake: Path) -> list[tuple[Any, ...]]:
    """All data columns of all rows; only `ingest_time` tells when the job ran."""
    make_topic(bootstrap, topic)
    produce(bootstrap, topic, numbered(50))
    produce(bootstrap, topic, numbered(20, first=50), transactional_id=f"{topic}-id", abort=True)
    produce(bootstrap, topic, numbered(20, first=70), transactional_id=f"{topic}-id")
    run_jobs(spark, bootstrap, lake, f'[jobs.a]\nkind = "archive"\ntopics = ["{topic}"]\nmax_offsets_per_trigger = 30')
    rows = read_table(spark, str(lake / "a")).drop("ingest_time").orderBy("partition", "offset")
    return [tuple(row) for row in rows.collect()]


def test_the_table_is_the_same_byte_for_byte(
    spark: SparkSession, bootstrap: str, kafka: "KafkaBroker", topic: str, tmp_path: Path
) -> None:
    ours = table_of(spark, bootstrap, topic, tmp_path / "penstock")
    theirs = table_of(spark, kafka.bootstrap, topic, tmp_path / "kafka")
    assert len(ours) == 70
    assert ours == theirs
