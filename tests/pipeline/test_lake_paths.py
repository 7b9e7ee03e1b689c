"""Paths of tables, checkpoints and lakes in each form that a job file may have, in both formats and from both sides."""

import os
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.lake.local_files import committed_files
from services.pipeline.lake.table import committed_batch, facts_of_commits, read_table, table_format
from services.pipeline.lake.writing import open_table
from services.pipeline.spark.files import Files
from tests.pipeline.jobs_in_process import run_jobs
from tests.pipeline.topics import make_topic, numbered, produce

NAME = "a b:c 2026-11-28T10:00 ünï日本%20%#,d=e'f\"g&h;i$j+k@l~"
"""With all that a path may have and something on the way might take for its own: URIs, globs, SQL, partitions."""
FORMS: dict[str, Callable[[Path], str]] = {
    "relative": lambda path: os.path.relpath(path),
    "file:/": lambda path: f"file:{path}",
    "file:///": lambda path: f"file://{path}",
    "dots": lambda path: f"{path.parent}/x/../{path.name}",
}
ROW = "SELECT 't' AS topic, 0 AS partition, {offset}L AS offset, date'2026-05-{day}' AS date"


@pytest.mark.parametrize("table_format_", ["parquet", "delta"])
@pytest.mark.parametrize("form", list(FORMS))
def test_a_table_is_written_read_and_kept_up_at_every_path(
    spark: SparkSession, tmp_path: Path, table_format_: str, form: str
) -> None:
    path = FORMS[form](tmp_path / NAME)
    table = open_table(spark, path, table_format_, "stream", ("topic", "date"))
    for batch, day in enumerate((27, 28, 28)):
        table.append(spark.sql(ROW.format(offset=batch, day=day)), batch, {"offsets": batch})
    again = open_table(spark, path, table_format_, "stream", ("topic", "date"))
    again.compact(2, 1 << 20)
    again.expire("2026-05-28")
    assert (tmp_path / NAME).is_dir()
    assert (table_format(spark, path), committed_batch(spark, path, "stream"), again.last_batch) == (table_format_, 2, 2)
    assert sorted(tuple(row) for row in read_table(spark, path).select("offset", "date").collect()) == [
        (1, date(2026, 5, 28)),
        (2, date(2026, 5, 28)),
    ]
    kinds = [facts["kind"] for facts in facts_of_commits(spark, path)]
    assert [kind for kind in kinds if kind != "claim"] == ["batch", "batch", "batch", "compaction", "retention"]
    if table_format_ == "parquet":
        assert [Path(file).parent.name for file in committed_files(path)] == ["date=2026-05-28"]
    with pytest.raises(PipelineError, match="belongs to"):
        open_table(spark, path, table_format_, "another stream", ("topic", "date"))


@pytest.mark.parametrize("form", ["relative", "file:/"])
def test_jobs_of_both_kinds_go_on_in_a_lake_at_such_a_path(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, form: str
) -> None:
    lake = FORMS[form](tmp_path / "the lake:ü")
    jobs = "".join(f'[jobs.{kind}]\nkind = "{kind}"\ntopics = ["{topic}"]\n' for kind in ("archive", "table"))
    make_topic(bootstrap, topic)
    for first in (0, 10):
        produce(bootstrap, topic, numbered(10, first=first))
        run_jobs(spark, bootstrap, lake, jobs)
    for kind, table in (("archive", "parquet"), ("table", "delta")):
        assert table_format(spark, f"{lake}/{kind}") == table
        assert read_table(spark, f"{lake}/{kind}").count() == 20
        assert (tmp_path / "the lake:ü" / "_checkpoints" / kind / "commits" / "1").exists()


def test_a_uri_of_another_file_system_stays_as_it_is(spark: SparkSession) -> None:
    assert Files(spark, "hdfs://127.0.0.1:8020/lake/orders").folder == "hdfs://127.0.0.1:8020/lake/orders"
