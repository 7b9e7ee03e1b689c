"""Topics that were deleted, or deleted and made again, since a job has read them."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.lake.table import read_table
from services.pipeline.spark.checkpoint import FIRST_OFFSETS, OWNER, Checkpoint
from tests.pipeline.jobs_in_process import run_jobs
from tests.pipeline.topics import delete_topic, make_topic, make_topic_again, numbered, produce


def archive(chosen: str) -> str:
    return f'[jobs.a]\nkind = "archive"\n{chosen}\n'


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_topic_that_was_made_anew_is_refused_though_it_has_as_many_records(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, partitions: int
) -> None:
    make_topic(bootstrap, topic)
    produce(bootstrap, topic, numbered(10))
    run_jobs(spark, bootstrap, tmp_path, archive(f'topics = ["{topic}"]'))
    delete_topic(bootstrap, topic)
    make_topic_again(bootstrap, topic, partitions)
    produce(bootstrap, topic, numbered(30, partitions=partitions))
    with pytest.raises(PipelineError, match=f"the topic {topic} was made anew: the checkpoint .* has read the one of id"):
        run_jobs(spark, bootstrap, tmp_path, archive(f'topics = ["{topic}"]'))
    assert read_table(spark, str(tmp_path / "a")).count() == 10


def test_a_topic_of_a_pattern_that_is_gone_stops_the_job_or_is_left_out(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (f"{topic}.a", f"{topic}.b"):
        make_topic(bootstrap, name, 1)
        produce(bootstrap, name, numbered(5, partitions=1))
    pattern = f'topic_pattern = "{topic}.*"'
    run_jobs(spark, bootstrap, tmp_path, archive(pattern))
    delete_topic(bootstrap, f"{topic}.b")
    produce(bootstrap, f"{topic}.a", numbered(5, partitions=1, first=5))
    with pytest.raises(PipelineError, match=rf"a: the topic {topic}\.b is gone, and the checkpoint has read from it"):
        run_jobs(spark, bootstrap, tmp_path, archive(pattern))
    run_jobs(spark, bootstrap, tmp_path, archive(f'{pattern}\non_data_loss = "continue"'))
    assert f"a: goes on without {topic}.b, which is gone" in capsys.readouterr().err
    assert read_table(spark, str(tmp_path / "a")).count() == 15


@pytest.mark.parametrize("text", ["", "[]", "foreign"])
def test_a_damaged_checkpoint_is_one_sentence(spark: SparkSession, tmp_path: Path, text: str) -> None:
    checkpoint = Checkpoint(spark, str(tmp_path))
    for path in (OWNER, "metadata", "offsets/0", "offsets/notes", "commits/notes"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    assert (checkpoint.planned_batch(), checkpoint.committed_batch()) == (0, -1)
    questions = {
        OWNER: [lambda: checkpoint.claim({"job": "a"}), lambda: checkpoint.claim_topics({})],
        "metadata": [checkpoint.stream],
        "offsets/0": [lambda: checkpoint.ends(0)],
    }
    for path, asked in questions.items():
        for ask in asked:
            with pytest.raises(PipelineError, match=f"^the checkpoint {tmp_path} is damaged: {path} is not what .* a new path$"):
                ask()


def test_ids_count_from_when_the_stream_has_begun(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint = Checkpoint(spark, str(tmp_path))
    checkpoint.claim({"job": "a"})
    checkpoint.claim_topics({"t": "first"})
    checkpoint.claim_topics({"t": "second"})
    (tmp_path / FIRST_OFFSETS).parent.mkdir(parents=True)
    (tmp_path / FIRST_OFFSETS).write_text("v1\n{}", encoding="utf-8")
    checkpoint.claim_topics({"u": "other"})
    with pytest.raises(PipelineError, match=r"the topic t was made anew: .* the one of id second, and this one's is third"):
        checkpoint.claim_topics({"t": "third"})
    assert json.loads((tmp_path / OWNER).read_text(encoding="utf-8")) == {"job": "a", "topics": {"t": "second", "u": "other"}}
    checkpoint.claim({"job": "a"})
