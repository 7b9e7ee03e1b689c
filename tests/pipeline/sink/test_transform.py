"""Transform jobs: what they lose they name, and their checkpoint is theirs alone."""

from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.jobs.transform import topics_of_all
from services.pipeline.observing.group import StreamGroup
from services.pipeline.spark.cluster import ClusterSettings, Topics
from tests.pipeline.jobs_in_process import run_jobs
from tests.pipeline.sink.topics import read_topic
from tests.pipeline.topics import Record, delete_topic, make_topic, make_topic_again, numbered, produce

ALL = "SELECT key, value, timestamp FROM given"


def transform(topic: str, extra: str = "", query: str = ALL) -> str:
    return f"""
[jobs.one]
kind = "transform"
topic = "{topic}-out"
query = "{query}"
{extra}
[jobs.one.inputs.given]
topics = ["{topic}"]
"""


@pytest.fixture
def topics(bootstrap: str, topic: str) -> str:
    """The input, with one partition; the output has `-out` behind its name."""
    make_topic(bootstrap, topic, 1)
    make_topic(bootstrap, f"{topic}-out", 2)
    return topic


def records(count: int, first: int = 0) -> list[Record]:
    return numbered(count, partitions=1, first=first)


def written(bootstrap: str, topic: str) -> list[bytes | None]:
    return sorted(
        (record.value or b"" for record in read_topic(bootstrap, f"{topic}-out")), key=lambda value: (len(value), value)
    )


def values(rows: list[Record]) -> list[bytes | None]:
    return [row.value for row in rows]


def delete_records(bootstrap: str, topic: str, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    deleted = admin.delete_records([TopicPartition(topic, 0, before)])
    assert all(each.result(60).low_watermark == before for each in deleted.values())


def forget_last_commit(lake: Path, batch: int) -> None:
    """As if the driver had died after the batch's tasks, and before Spark's checkpoint had it."""
    commits = lake / "_checkpoints" / "one" / "commits"
    (commits / str(batch)).unlink()
    (commits / f".{batch}.crc").unlink(missing_ok=True)


def test_offsets_that_are_gone_are_named_and_the_job_stops_or_goes_on(
    spark: SparkSession, bootstrap: str, topics: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    produce(bootstrap, topics, records(10))
    run_jobs(spark, bootstrap, tmp_path, transform(topics))
    produce(bootstrap, topics, records(10, first=10))
    delete_records(bootstrap, topics, 13)
    with pytest.raises(PipelineError, match=rf"one: the log no longer has {topics}-0 offsets 10 to 12; nothing of this batch"):
        run_jobs(spark, bootstrap, tmp_path, transform(topics))
    assert written(bootstrap, topics) == values(records(10))
    run_jobs(spark, bootstrap, tmp_path, transform(topics, 'on_data_loss = "continue"'))
    assert f"goes on without {topics}-0 offsets 10 to 12" in capsys.readouterr().err
    assert written(bootstrap, topics) == values(records(10) + records(7, first=13))


def test_a_time_that_spark_cannot_hold_is_named_and_the_job_goes_on_behind_it(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    make_topic(bootstrap, topic, 1, {"message.timestamp.after.max.ms": str((1 << 63) - 1)})
    make_topic(bootstrap, f"{topic}-out", 2)
    produce(bootstrap, topic, [*records(3), Record(0, b"k", b"far", 1 << 62), *records(2, first=3)])
    refusal = rf"^jobs.one: Spark cannot hold a record's timestamp, look at {topic}-0 from offset 3 on; an archive keeps"
    with pytest.raises(PipelineError, match=refusal):
        run_jobs(spark, bootstrap, tmp_path, transform(topic))
    delete_records(bootstrap, topic, 4)
    run_jobs(spark, bootstrap, tmp_path, transform(topic, 'on_data_loss = "continue"'))
    assert written(bootstrap, topic) == values(records(2, first=3))


def test_a_batch_that_was_written_and_is_repeated_with_fewer_rows_is_left_as_it_is(
    spark: SparkSession, bootstrap: str, topics: str, tmp_path: Path
) -> None:
    produce(bootstrap, topics, records(10))
    run_jobs(spark, bootstrap, tmp_path, transform(topics))
    forget_last_commit(tmp_path, 0)
    delete_records(bootstrap, topics, 4)
    run_jobs(spark, bootstrap, tmp_path, transform(topics, 'on_data_loss = "continue"'))
    assert written(bootstrap, topics) == values(records(10))


def test_each_input_s_lost_offsets_are_named(spark: SparkSession, bootstrap: str, topics: str, tmp_path: Path) -> None:
    second = f"{topics}-second"
    make_topic(bootstrap, second, 1)
    both = transform(topics, query=f"{ALL} UNION ALL {ALL.replace('given', 'other')}") + (
        f'[jobs.one.inputs.other]\ntopics = ["{second}"]\n'
    )
    produce(bootstrap, topics, records(3))
    produce(bootstrap, second, records(3, first=3))
    run_jobs(spark, bootstrap, tmp_path, both)
    assert written(bootstrap, topics) == values(records(6))
    for at, name in enumerate((topics, second)):
        produce(bootstrap, name, records(3, first=6 + 3 * at))
        delete_records(bootstrap, name, 4)
    with pytest.raises(PipelineError, match=rf"no longer has {topics}-0 offset 3, {second}-0 offset 3; nothing"):
        run_jobs(spark, bootstrap, tmp_path, both)
    run_jobs(spark, bootstrap, tmp_path, both.replace("query =", 'on_data_loss = "continue"\nquery ='))
    assert written(bootstrap, topics) == values(records(6) + records(2, first=7) + records(2, first=10))


def test_topics_of_several_inputs_are_one_choice_of_topics() -> None:
    names, pattern = Topics(("a.b", "c")), Topics(pattern="d.*|e")
    assert topics_of_all([names, Topics(("c", "f"))]) == Topics(("a.b", "c", "f"))
    assert topics_of_all([names, pattern]) == Topics(pattern=r"(?:d.*|e)|a\.b|c")


def test_what_a_transform_refuses_before_it_reads(spark: SparkSession, bootstrap: str, topics: str, tmp_path: Path) -> None:
    produce(bootstrap, topics, records(5))

    def refused(jobs: str, sentence: str) -> None:
        with pytest.raises(PipelineError, match=sentence) as caught:
            run_jobs(spark, bootstrap, tmp_path, jobs)
        assert "\n" not in str(caught.value)

    refused(
        transform(topics).replace(f'topics = ["{topics}"]', 'topics = ["absent"]'), "there is no topic 'absent' in the cluster"
    )
    refused(transform(topics, query="SELECT key FROM given"), "the column value is missing")
    refused(
        transform(topics, query="SELECT value FROM absent"), r"jobs\.one\.query: Spark refuses it: \[TABLE_OR_VIEW_NOT_FOUND\]"
    )
    refused(transform(topics, query="SELECT 'a' AS value"), r"jobs\.one\.query: it reads none of its inputs: it must select")
    loop = transform(topics).replace(f'topics = ["{topics}"]', f'topic_pattern = "{topics}.*"')
    refused(loop, rf"jobs\.one\.topic: {topics}-out fits the pattern '{topics}\.\*' of its inputs: it would read its own rows")
    cast = "SELECT CAST(CAST(CAST(value AS STRING) AS INT) AS STRING) AS value FROM given"
    refused(transform(topics, f'checkpoint = "{tmp_path}/cast"', cast), r"one: .*\[CAST_INVALID_INPUT\]")
    run_jobs(spark, bootstrap, tmp_path, f'[jobs.one]\nkind = "archive"\ntopics = ["{topics}"]')
    refused(transform(topics), r"the checkpoint .*/one belongs to another job: its path is '.*/one', this job's is 'topic ")
    assert written(bootstrap, topics) == []
    own = f'checkpoint = "{tmp_path}/own"'
    run_jobs(spark, bootstrap, tmp_path, transform(topics, own))
    delete_topic(bootstrap, topics)
    make_topic_again(bootstrap, topics, 1)
    produce(bootstrap, topics, records(3, first=5))
    refused(transform(topics, own), "was made anew")
    assert written(bootstrap, topics) == values(records(5))


def test_the_group_shows_how_far_the_job_has_come(spark: SparkSession, bootstrap: str, topics: str, tmp_path: Path) -> None:
    produce(bootstrap, topics, records(8))
    run_jobs(spark, bootstrap, tmp_path, transform(topics, f'group = "{topics}"'))
    group = StreamGroup(ClusterSettings(bootstrap), topics)
    try:
        assert {position: each.offset for position, each in group.committed().items()} == {(topics, 0): 8}
    finally:
        group.close()


def test_an_empty_topic_is_an_empty_batch_and_what_comes_later_is_read(
    spark: SparkSession, bootstrap: str, topics: str, tmp_path: Path
) -> None:
    for first in (0, 0, 4):
        produce(bootstrap, topics, records(first))
        run_jobs(spark, bootstrap, tmp_path, transform(topics))
    assert written(bootstrap, topics) == values(records(4))
