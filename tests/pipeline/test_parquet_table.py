"""Parquet tables and their writers, without a cluster: whatever two writers do, each batch is there once."""

import json
from pathlib import Path

import pandas
import pyarrow.dataset
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from services.pipeline.errors import PipelineError
from services.pipeline.lake import commit_log
from services.pipeline.lake.commit_log import Entry, State
from services.pipeline.lake.local_files import committed_files
from services.pipeline.lake.parquet_table import STAGING, ParquetTable
from services.pipeline.lake.table import facts_of_commits, read_table, refuse_changed_files
from services.pipeline.spark.files import Files


def opened(spark: SparkSession, path: Path, stream: str = "stream") -> ParquetTable:
    return ParquetTable(spark, str(path), stream, ("topic", "date"))


def rows(spark: SparkSession, first: int, count: int = 10) -> DataFrame:
    columns = ("'t' AS topic", "0 AS partition", "id AS offset", "date'2026-05-27' + CAST(id % 2 AS INT) AS date")
    return spark.range(first, first + count, numPartitions=2).selectExpr(*columns)


def offsets(spark: SparkSession, path: Path) -> list[int]:
    return [row.offset for row in read_table(spark, str(path)).select("offset").orderBy("offset").collect()]


def plain_offsets(spark: SparkSession, path: Path) -> list[int]:
    return [row.offset for row in spark.read.parquet(str(path)).orderBy("offset").collect()]


def test_a_writer_that_is_no_longer_alone_does_no_harm_to_the_new_one(spark: SparkSession, tmp_path: Path) -> None:
    old = opened(spark, tmp_path)
    old.append(rows(spark, 0), 0, {})
    staged_by_old = old.stage(rows(spark, 10), "b000000000001")
    new = opened(spark, tmp_path)
    staged_by_new = new.stage(rows(spark, 10), "b000000000001")
    added_by_old = old.move_into_place(staged_by_old)
    new.commit(Entry("batch", add=new.move_into_place(staged_by_new), batch=1))
    with pytest.raises(PipelineError, match=r"another process has begun to write .*; this one stops, and committed nothing"):
        old.commit(Entry("batch", add=added_by_old, batch=1))
    assert offsets(spark, tmp_path) == list(range(20))
    opened(spark, tmp_path).remove_leftovers()
    assert plain_offsets(spark, tmp_path) == list(range(20))


def test_a_writer_whose_staged_files_were_cleaned_away_stops(spark: SparkSession, tmp_path: Path) -> None:
    old = opened(spark, tmp_path)
    staged = old.stage(rows(spark, 0), "b000000000000")
    opened(spark, tmp_path).remove_leftovers()
    with pytest.raises(PipelineError, match="another process has begun to write"):
        old.move_into_place(staged)


def test_readers_without_spark_see_the_committed_batches_and_no_more(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_log, "SNAPSHOT_EVERY", 4)
    with pytest.raises(PipelineError, match="holds no Parquet table of the lake"):
        committed_files(str(tmp_path))
    table = opened(spark, tmp_path)
    for batch in range(6):
        table.append(rows(spark, 2 * batch, 2), batch, {})
    table.move_into_place(table.stage(rows(spark, 100), "b000000000006"))
    files = committed_files(str(tmp_path))
    assert len(list(tmp_path.glob("topic=t/*/*.parquet"))) > len(files)
    found = pyarrow.dataset.dataset(files, partitioning="hive").to_table()
    assert sorted(found["offset"].to_pylist()) == list(range(12)) == offsets(spark, tmp_path)
    assert set(found["topic"].to_pylist()) == {"t"}
    frame = pandas.read_parquet(files)
    assert sorted(frame["offset"]) == list(range(12))
    assert sorted(map(str, frame["date"].unique())) == ["2026-05-27", "2026-05-28"]
    Path(files[0]).write_bytes(b"")
    with pytest.raises(PipelineError, match=r"is damaged: topic=t/.* has 0 bytes"):
        committed_files(str(tmp_path))


def test_a_slow_cleaner_removes_nothing_of_a_newer_writer(spark: SparkSession, tmp_path: Path) -> None:
    opened(spark, tmp_path).append(rows(spark, 0), 0, {})
    slow = opened(spark, tmp_path)
    newer = opened(spark, tmp_path)
    newer.append(rows(spark, 10), 1, {})
    staged = newer.stage(rows(spark, 20), "b000000000002")
    slow.remove_leftovers()
    assert offsets(spark, tmp_path) == list(range(20))
    newer.commit(Entry("batch", add=newer.move_into_place(staged), batch=2))
    assert offsets(spark, tmp_path) == list(range(30))


def test_of_two_streams_that_begin_a_table_at_once_one_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = commit_log.append

    def after_another(files: Files, state: State, entry: Entry) -> State | None:
        if state.number < 0:
            assert append(files, state, Entry("claim", stream="other")) is not None
        return append(files, state, entry)

    monkeypatch.setattr(commit_log, "append", after_another)
    with pytest.raises(PipelineError, match="belongs to the stream other, and this checkpoint to stream"):
        opened(spark, tmp_path)
    assert commit_log.read_state(Files(spark, str(tmp_path))) == State(0, "other")


def test_a_file_that_is_shorter_than_it_was_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Spark takes a file of no bytes for one of no rows, and a compaction would make that final."""
    opened(spark, tmp_path).append(rows(spark, 0), 0, {})
    emptied = min(tmp_path.glob("topic=t/date=*/*.parquet"))
    emptied.write_bytes(b"")
    for check in (lambda: opened(spark, tmp_path), lambda: refuse_changed_files(spark, str(tmp_path))):
        with pytest.raises(
            PipelineError, match=rf"is damaged: topic=t/date=.*{emptied.name} has 0 bytes, and \d+ when it was committed"
        ):
            check()


def test_a_table_inside_is_refused_and_keeps_its_files(spark: SparkSession, tmp_path: Path) -> None:
    """A folder of the outer table's may have become one of a later job."""
    opened(spark, tmp_path).append(rows(spark, 0), 0, {})
    inner = tmp_path / "topic=t" / "inner"
    opened(spark, inner, "other").append(rows(spark, 10), 0, {})
    with pytest.raises(PipelineError, match=r"has another table inside, with topic=t/inner/_penstock/log/0+\.json: move"):
        opened(spark, tmp_path)
    assert offsets(spark, inner) == list(range(10, 20))


def test_dates_of_the_future_do_not_expire_whatever_the_year(spark: SparkSession, tmp_path: Path) -> None:
    """A producer that gives microseconds for milliseconds writes into the year 57877."""
    table = opened(spark, tmp_path)
    dates = "CASE id WHEN 0 THEN date'2020-01-01' WHEN 1 THEN date_add(date'2026-05-27', 20400000) ELSE date'2026-05-28' END"
    table.append(rows(spark, 0, 3).withColumn("id", F.col("offset")).withColumn("date", F.expr(dates)).drop("id"), 0, {})
    assert list(tmp_path.glob("topic=t/date=+*"))
    assert table.expire("2026-05-28") == 1
    assert offsets(spark, tmp_path) == [1, 2]


def test_a_log_that_lost_an_entry_is_refused_and_no_file_is_removed(spark: SparkSession, tmp_path: Path) -> None:
    table = opened(spark, tmp_path)
    for batch in range(3):
        table.append(rows(spark, 10 * batch), batch, {})
    files = set(tmp_path.rglob("*.parquet"))
    (tmp_path / commit_log.file_of(2)).unlink()
    for read in (lambda: opened(spark, tmp_path), lambda: read_table(spark, str(tmp_path))):
        with pytest.raises(PipelineError, match=r"the commit log of .* lacks _penstock/log/0*2\.json, and has later entries"):
            read()
    assert set(tmp_path.rglob("*.parquet")) == files


@pytest.mark.parametrize(
    ("text", "reason"), [('{"kind": "bat', "no entry of a commit log"), ("[]", "no entry of a commit log"), (None, "number 0")]
)
def test_a_damaged_entry_is_named_in_one_sentence(spark: SparkSession, tmp_path: Path, text: str | None, reason: str) -> None:
    opened(spark, tmp_path).append(rows(spark, 0), 0, {})
    first, second = (tmp_path / commit_log.file_of(number) for number in (0, 1))
    second.write_text(first.read_text(encoding="utf-8") if text is None else text, encoding="utf-8")
    with pytest.raises(PipelineError, match=r"/0*1\.json is damaged: its checksum is another one"):
        read_table(spark, str(tmp_path))
    second.with_name(f".{second.name}.crc").unlink()
    with pytest.raises(PipelineError, match=rf"/0*1\.json is damaged: it is .*{reason}"):
        read_table(spark, str(tmp_path))


def test_a_foreign_file_among_the_entries_is_named_and_one_in_staging_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    table = opened(spark, tmp_path)
    table.append(rows(spark, 0), 0, {})
    (tmp_path / STAGING / "notes").mkdir(parents=True)
    table.remove_leftovers()
    for name in ("notes.json", "1.json"):
        foreign = tmp_path / commit_log.LOG / name
        foreign.write_text("{}", encoding="utf-8")
        for read in (lambda: opened(spark, tmp_path), lambda: read_table(spark, str(tmp_path))):
            with pytest.raises(PipelineError, match=rf"/_penstock/log/{name} is no entry of a commit log: move it away$"):
                read()
        foreign.unlink()
    assert (tmp_path / STAGING / "notes").exists()


def test_a_crash_during_the_first_claim_leaves_the_path_free(spark: SparkSession, tmp_path: Path) -> None:
    left = tmp_path / commit_log.LOG / f".{0:020}.json.1b4e28ba.tmp"
    left.parent.mkdir(parents=True)
    left.write_text('{"ki', encoding="utf-8")
    opened(spark, tmp_path).append(rows(spark, 0), 0, {})
    assert offsets(spark, tmp_path) == list(range(10))


def test_readers_that_began_before_a_compaction_end_well(spark: SparkSession, tmp_path: Path) -> None:
    table = opened(spark, tmp_path)
    for batch in range(4):
        table.append(rows(spark, 10 * batch), batch, {})
    begun = read_table(spark, str(tmp_path))
    before = set(begun.inputFiles())
    assert table.compact(4, 1 << 20) == len(before)
    assert table.delete_removed(3600) == 0
    assert begun.count() == 40
    again = opened(spark, tmp_path)
    again.remove_leftovers()
    assert begun.count() == 40
    assert again.delete_removed(0) == len(before)
    assert again.delete_removed(0) == 0
    assert plain_offsets(spark, tmp_path) == offsets(spark, tmp_path) == list(range(40))
    assert [facts["kind"] for facts in facts_of_commits(spark, str(tmp_path))][-3:] == ["compaction", "claim", "cleanup"]


def test_a_snapshot_keeps_what_is_to_be_deleted(spark: SparkSession, tmp_path: Path) -> None:
    table = opened(spark, tmp_path)
    table.append(rows(spark, 0), 0, {})
    assert table.expire("2026-05-28") > 0
    for _ in range(commit_log.SNAPSHOT_EVERY):
        commit_log.claim(Files(spark, str(tmp_path)), "stream")
    snapshot = tmp_path / commit_log.file_of(commit_log.SNAPSHOT_EVERY)
    assert json.loads(snapshot.read_text(encoding="utf-8"))["snapshot"]["removed"]
    assert opened(spark, tmp_path).delete_removed(0) > 0
    assert plain_offsets(spark, tmp_path) == offsets(spark, tmp_path) == [1, 3, 5, 7, 9]
