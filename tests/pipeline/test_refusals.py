"""What archive jobs refuse in one sentence, with nothing committed."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.lake.commit_log import LOG
from services.pipeline.lake.table import read_table
from tests.pipeline.jobs_in_process import run_jobs
from tests.pipeline.topics import make_topic, numbered, produce


def archive(topic: str, extra: str = "", name: str = "a") -> str:
    return f'[jobs.{name}]\nkind = "archive"\ntopics = ["{topic}"]\n{extra}\n'


def test_what_an_archive_refuses(spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path) -> None:
    make_topic(bootstrap, topic)
    produce(bootstrap, topic, numbered(10))

    def refused(jobs: str, sentence: str) -> None:
        with pytest.raises(PipelineError, match=sentence) as caught:
            run_jobs(spark, bootstrap, tmp_path, jobs)
        assert "\n" not in str(caught.value)

    refused(archive("no-such-topic"), "there is no topic 'no-such-topic' in the cluster at")
    wrong = '[jobs.p]\nkind = "archive"\ntopic_pattern = "a("\n'
    refused(wrong, r"topic_pattern is 'a\(', which is no Java regular expression: Unclosed group")
    refused(
        archive(topic, 'schema = { format = "json", ddl = "n NUMBER" }', "s"),
        r"^jobs\.s\.schema\.ddl: the json schema is wrong: ",
    )
    refused(archive(topic, 'checkpoint = "nosuch://bucket/c"', "u"), "Spark cannot use the path 'nosuch://bucket/c': .*nosuch")
    run_jobs(spark, bootstrap, tmp_path, archive(topic))
    checkpoint = f'checkpoint = "{tmp_path}/_checkpoints/a"'
    refused(archive(topic, checkpoint, "b"), "the checkpoint .*/a belongs to another job: its job is 'a', this job's is 'b'")
    refused(archive(topic, f'path = "{tmp_path}/a/topic=x/i"', "i"), "/a/topic=x/i lies inside the table file:.*/a: give the job")
    assert not (tmp_path / "_checkpoints" / "i").exists()
    refused(archive(topic, f'path = "{tmp_path}/a"', "c"), "/a belongs to the stream .* and this checkpoint to ")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "part-0.parquet").write_text("half", encoding="utf-8")
    refused(archive(topic, "", "d"), "/d holds files that no job of the pipeline has committed, e.g. part-0.parquet")
    assert read_table(spark, str(tmp_path / "a")).count() == 10

    produce(bootstrap, topic, numbered(10, first=10))
    taken = next(iter((tmp_path / "a").rglob("b*.parquet")))
    shutil.move(taken, tmp_path / taken.name)
    refused(archive(topic), f"/a is half a table: its log names .*{taken.name}, which is gone")
    shutil.move(tmp_path / taken.name, taken)
    run_jobs(spark, bootstrap, tmp_path, archive(topic))
    assert read_table(spark, str(tmp_path / "a")).count() == 20
    last = max((tmp_path / "a" / LOG).glob("*.json"))
    shutil.move(last, tmp_path / last.name)
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    produce(bootstrap, topic, numbered(10, first=20))
    files = set((tmp_path / "a").rglob("*.parquet"))
    refused(archive(topic), r"/a has the batches up to 0, and the checkpoint .* goes on with batch 2")
    assert set((tmp_path / "a").rglob("*.parquet")) == files
    shutil.rmtree(tmp_path / "a")
    refused(archive(topic), r"/a has the batches up to -1, and the checkpoint .* goes on with batch 2")
    for name in ("parquet", "delta"):
        jobs = archive(topic, f'format = "{name}"', name)
        run_jobs(spark, bootstrap, tmp_path, jobs)
        cut = next((tmp_path / name).glob("topic=*/date=*/*.parquet"))
        cut.write_bytes(cut.read_bytes()[:100])
        cut.with_name(f".{cut.name}.crc").unlink(missing_ok=True)
        audit = f'[jobs.check]\nkind = "audit"\narchive = "{name}"\ntopics = ["{topic}"]\nreport = "{tmp_path}/report"\n'
        refused(audit, f"check: file:.*{cut.name} cannot be read: .*{cut.name} is not a Parquet file")
        shutil.rmtree(tmp_path / name)
        refused(jobs, rf"/{name} has the batches up to -1, and the checkpoint .* goes on with batch 1")  # without a new record
        assert not (tmp_path / name).exists()


def test_a_cluster_whose_name_does_not_resolve_is_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"the cluster at nowhere\.invalid:9092 cannot be asked: No resolvable bootstrap"):
        run_jobs(spark, "nowhere.invalid:9092", tmp_path, archive("t"))
