"""Replay jobs: a slice once, and nothing of a chunk that has changed."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.jobs.replay_marks import FILE
from tests.pipeline.chaos.lake_table import write_table
from tests.pipeline.jobs_in_process import run_jobs
from tests.pipeline.sink.replays import ROWS, TABLE, contents, replay, written
from tests.pipeline.sink.topics import read_topic
from tests.pipeline.topics import delete_topic, make_topic, make_topic_again


def test_a_slice_of_the_lake_is_replayed_once_however_often_the_job_is_run(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    make_topic(bootstrap, topic, 3)
    write_table(tmp_path / "rows", TABLE)
    condition = 'slice = {keys = ["key-3", "key-4"], since_offset = 10, where = "partition < 2"}'
    job = replay(tmp_path, topic, f'partition = "as it was"\nchunk_rows = 10\n{condition}')
    for predicate, reason in (("offset >", "PARSE_SYNTAX_ERROR"), ("CAST(key AS STRING) = 5", "CAST_INVALID_INPUT")):
        with pytest.raises(PipelineError, match=rf"jobs\.again\.slice\.where: Spark refuses it: .*\[{reason}\]") as caught:
            run_jobs(spark, bootstrap, tmp_path, job.replace("partition < 2", predicate))
        assert "\n" not in str(caught.value)
    for _ in range(2):
        run_jobs(spark, bootstrap, tmp_path, job)
    wanted = [row for n, row in enumerate(ROWS) if n % 3 < 2 and n // 3 >= 10 and row.key in (b"key-3", b"key-4")]
    assert written(bootstrap, topic) == contents(wanted)
    for partition in range(2):
        numbers = [int(record.value or b"") for record in read_topic(bootstrap, topic) if record.partition == partition]
        assert numbers == sorted(numbers)
        assert {number % 3 for number in numbers} == {partition}
    with pytest.raises(PipelineError, match="is of another replay: its slice is"):
        run_jobs(spark, bootstrap, tmp_path, job.replace("since_offset = 10", "since_offset = 11"))


def test_a_chunk_that_has_changed_since_the_plan_is_refused_before_a_row_is_written(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    """A row of partition 1 is lost and one of partition 2 is gained, so the sum is the same."""
    for name, rows in (("rows", TABLE), ("changed", [*TABLE[:-2], TABLE[-1], TABLE[-1]])):
        write_table(tmp_path / name, rows)
    job = replay(tmp_path, topic)
    with pytest.raises(PipelineError, match=f"there is no topic {topic}"):  # the plan is made before
        run_jobs(spark, bootstrap, tmp_path, job)
    make_topic(bootstrap, topic, 3)
    (tmp_path / "rows").rename(tmp_path / "planned")
    (tmp_path / "changed").rename(tmp_path / "rows")
    sentence = "again: chunk 0 had 40 rows of from-1 when the replay was planned and has 39 now: the table .* has lost or gained"
    with pytest.raises(PipelineError, match=sentence):
        run_jobs(spark, bootstrap, tmp_path, job)
    assert written(bootstrap, topic) == []
    (tmp_path / "rows").rename(tmp_path / "changed")
    (tmp_path / "planned").rename(tmp_path / "rows")
    (plan,) = tmp_path.glob("**/replay.json")
    sound = plan.read_text(encoding="utf-8")
    plan.with_name(".replay.json.crc").unlink()
    for text in ("{", "[]", "{}", sound.replace('"chunks"', '"chunk"')):
        plan.write_text(text, encoding="utf-8")
        with pytest.raises(PipelineError, match=r"again: .*/replay\.json is damaged: it is not what a replay wrote there"):
            run_jobs(spark, bootstrap, tmp_path, job)
    plan.write_text(sound, encoding="utf-8")
    run_jobs(spark, bootstrap, tmp_path, job)
    assert written(bootstrap, topic) == contents(ROWS)


def test_a_replay_that_is_done_writes_nothing_again_whatever_has_become_of_its_topics(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = f"{topic}-ledger"
    make_topic(bootstrap, topic, 1)
    write_table(tmp_path / "rows", TABLE)
    job = replay(tmp_path, topic, f'sink.ledger.topic = "{ledger}"')
    run_jobs(spark, bootstrap, tmp_path, job)
    first, second = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"again: chunk 0 is written, 120 records of 3 partitions in \d+\.\d s; chunks left: 0", first)
    assert re.fullmatch(r"again: the replay is done, 120 records of 3 partitions; this run took \d+\.\d s", second)
    run_jobs(spark, bootstrap, tmp_path, job)
    assert capsys.readouterr().out == "again: the replay was done before, and nothing is written\n"

    def refused(jobs: str, sentence: str) -> None:
        with pytest.raises(PipelineError, match=rf"again: the replay of the checkpoint .*/again {sentence}") as caught:
            run_jobs(spark, bootstrap, tmp_path, jobs)
        assert "\n" not in str(caught.value)

    advice = "; to write all of its rows again, give it a new checkpoint"
    refused(job.replace(ledger, "another"), f"is done with the ledger {ledger}, not with another{advice}")
    delete_topic(bootstrap, topic)
    make_topic_again(bootstrap, topic, 1)
    refused(job, f"is done with the topic {topic} of id .*, which was made anew, its id is .*{advice}")
    delete_topic(bootstrap, ledger)
    refused(job, f"is done with the ledger {ledger} of id .*, which is gone{advice}")
    make_topic_again(bootstrap, ledger, 1, {"cleanup.policy": "compact"})
    marks = tmp_path / "_checkpoints" / "again" / FILE
    marks.write_text(marks.read_text(encoding="utf-8").replace("true", "false"), encoding="utf-8")
    marks.with_name(f".{FILE}.crc").unlink(missing_ok=True)
    refused(job, f"has begun with the ledger {ledger} of id .*, which was made anew, its id is .*{advice}")
    assert written(bootstrap, topic) == []
    run_jobs(spark, bootstrap, tmp_path, job + f'checkpoint = "{tmp_path}/new"\n')
    assert written(bootstrap, topic) == contents(ROWS)
