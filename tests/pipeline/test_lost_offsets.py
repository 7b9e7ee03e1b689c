"""What archive jobs do when the log has dropped offsets, and when it only has holes."""

from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.lake.table import facts_of_commits, read_table
from tests.pipeline.jobs_in_process import run_jobs
from tests.pipeline.topics import make_topic, numbered, produce


def archive(topic: str, on_data_loss: str) -> str:
    return f'[jobs.a]\nkind = "archive"\ntopics = ["{topic}"]\non_data_loss = "{on_data_loss}"\n'


def offsets(spark: SparkSession, lake: Path) -> list[int]:
    return [row.offset for row in read_table(spark, str(lake / "a")).select("offset").orderBy("offset").collect()]


def test_offsets_that_are_gone_are_named_and_the_job_stops_or_goes_on(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_topic(bootstrap, topic, 1)
    produce(bootstrap, topic, numbered(10, partitions=1))
    run_jobs(spark, bootstrap, tmp_path, archive(topic, "stop"))
    produce(bootstrap, topic, numbered(10, partitions=1, first=10))
    admin = AdminClient({"bootstrap.servers": bootstrap})
    deleted = admin.delete_records([TopicPartition(topic, 0, 13)])
    assert all(each.result(60).low_watermark == 13 for each in deleted.values())
    with pytest.raises(
        PipelineError, match=rf"the log no longer has {topic}-0 offsets 10 to 12; nothing of this batch is committed"
    ):
        run_jobs(spark, bootstrap, tmp_path, archive(topic, "stop"))
    assert offsets(spark, tmp_path) == list(range(10))
    run_jobs(spark, bootstrap, tmp_path, archive(topic, "continue"))
    assert f"goes on without {topic}-0 offsets 10 to 12" in capsys.readouterr().err
    assert offsets(spark, tmp_path) == [*range(10), *range(13, 20)]
    assert [facts["lost"] for facts in facts_of_commits(spark, str(tmp_path / "a")) if "lost" in facts] == [
        {topic: {"0": [10, 13]}}
    ]


def test_holes_of_transactions_are_no_loss_and_aborted_records_no_rows(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    make_topic(bootstrap, topic, 1)
    for number, abort in enumerate((False, True, False, True)):
        records = numbered(3, partitions=1, first=3 * number)
        produce(bootstrap, topic, records, transactional_id=f"{topic}-id", abort=abort)
    # Offsets 3, 7, 11 and 15 are control records.
    run_jobs(spark, bootstrap, tmp_path, archive(topic, "stop") + "max_offsets_per_trigger = 3")
    assert offsets(spark, tmp_path) == [0, 1, 2, 8, 9, 10]
    assert not any("lost" in facts for facts in facts_of_commits(spark, str(tmp_path / "a")))
