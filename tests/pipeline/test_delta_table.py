"""Delta tables and their writers, without a cluster."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.jobs.failures import in_one_sentence
from services.pipeline.lake import delta_table
from services.pipeline.lake.delta_table import DeltaLakeTable
from services.pipeline.lake.local_files import local_path
from services.pipeline.lake.table import facts_of_commits, read_table

ROW = "SELECT 't' AS topic, 0 AS partition, 0L AS offset, date'2026-05-27' AS date"


def test_a_commit_of_another_job_meanwhile_has_no_reason_of_this_ones(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expiring = DeltaLakeTable(spark, str(tmp_path / "expiring"), "one", ("topic", "date"))
    expiring.append(spark.sql(ROW), 0, {})
    configured = delta_table.configured

    @contextmanager
    def meanwhile(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
        with configured(session, settings):
            spark.sql(ROW).write.format("delta").save(str(tmp_path / "other"))
            yield

    monkeypatch.setattr(delta_table, "configured", meanwhile)
    assert expiring.expire("2026-05-28") == 1
    assert [facts["kind"] for facts in facts_of_commits(spark, str(tmp_path / "expiring"))] == ["batch", "retention"]
    assert list(facts_of_commits(spark, str(tmp_path / "other"))) == []


def test_a_data_file_that_is_gone_is_named_in_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    DeltaLakeTable(spark, str(tmp_path), "one", ("topic", "date")).append(spark.sql(ROW), 0, {})
    gone = next(tmp_path.glob("topic=*/date=*/*.parquet"))
    gone.unlink()
    with (
        pytest.raises(PipelineError, match=f"^jobs.check: file:.*/{gone.name} is gone, and its table names it$"),
        in_one_sentence("check"),
    ):
        read_table(spark, str(tmp_path)).toArrow()


def test_a_log_folder_without_entries_is_refused_in_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(PipelineError, match="holds no table of the lake: it has entries neither in _delta_log nor"):
        read_table(spark, str(tmp_path))
    with pytest.raises(PipelineError, match="is half a table: its _delta_log has no entry; remove what a crash has left"):
        DeltaLakeTable(spark, str(tmp_path), "one", ("topic", "date"))


def test_full_files_are_not_compacted_though_there_are_many(spark: SparkSession, tmp_path: Path) -> None:
    table = DeltaLakeTable(spark, str(tmp_path), "one", ("topic", "date"))
    for batch in range(4):
        table.append(spark.sql(ROW), batch, {})
    sizes = [path.stat().st_size for path in tmp_path.glob("topic=*/date=*/*.parquet")]
    full = 2 * min(sizes)
    assert table.compact(3, full) == 0
    assert len(sizes) == 4
    assert sorted(sizes) == sorted(path.stat().st_size for path in tmp_path.glob("topic=*/date=*/*.parquet"))
    assert [facts["kind"] for facts in facts_of_commits(spark, str(tmp_path))] == ["batch"] * 4


def test_only_small_files_of_dates_that_have_enough_of_them_are_compacted(spark: SparkSession, tmp_path: Path) -> None:
    table = DeltaLakeTable(spark, str(tmp_path), "one", ("topic", "date"))
    large = "SELECT 't' AS topic, 0 AS partition, id AS offset, date'2026-05-27' AS date FROM range(20000)"
    days = [ROW.replace("27", day) for day in ("27", "27", "28", "27", "28")]
    for batch, query in enumerate([large, *days]):
        table.append(spark.sql(query).coalesce(1), batch, {})
    before = {path: path.stat().st_size for path in tmp_path.glob("topic=*/date=*/*.parquet")}
    target = 2 * max(before.values()) - 1
    assert min(before.values()) * 3 < target // 2 < max(before.values())
    assert table.compact(3, target) == 3
    kept = {local_path(file) for file in spark.read.format("delta").load(str(tmp_path)).inputFiles()}
    assert len(kept) == 4
    assert {path for path, size in before.items() if size >= target // 2} <= kept
    assert {path for path in before if path.parent.name == "date=2026-05-28"} <= kept
    assert table.compact(3, target) == 0
    assert read_table(spark, str(tmp_path)).count() == 20_005
