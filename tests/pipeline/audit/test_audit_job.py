"""An audit as a job of a job file, beside its archive: in the session of the tests, and once from the command line."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.job_file.file import parse_job_file
from tests.pipeline.audit import topics
from tests.pipeline.driver_process import run
from tests.pipeline.jobs_in_process import job_file, run_job
from tests.pipeline.topics import make_topic

HOLE = 17


@pytest.fixture
def file(bootstrap: str, topic: str, tmp_path: Path) -> Path:
    """An archive with a path and a checkpoint of its own, and its audit, which takes both from it."""
    make_topic(bootstrap, topic)
    for partition in (0, 1):
        topics.fill(bootstrap, topic, range(100), partition=partition)
    archive = f'[jobs.a]\nkind = "archive"\ntopics = ["{topic}"]\npath = "{tmp_path}/t"\ncheckpoint = "{tmp_path}/c"\n'
    audit = f'[jobs.check]\nkind = "audit"\narchive = "a"\ntopics = ["{topic}"]\nreport = "{tmp_path}/report"\n'
    path = tmp_path / "jobs.toml"
    path.write_text(job_file(bootstrap, tmp_path, archive + audit), encoding="utf-8")
    return path


def plant_hole(table: Path, topic: str) -> None:
    """Takes one record out of a data file of partition 0."""
    for path in (table / f"topic={topic}").rglob("*.parquet"):
        rows = pq.ParquetFile(path).read()
        places = zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True)
        kept = [place != (0, HOLE) for place in places]
        if not all(kept):
            pq.write_table(rows.filter(kept), path)
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
            return
    raise AssertionError("no data file has the record")


def test_an_audit_agrees_and_fails_for_a_planted_hole_and_for_a_lost_checkpoint(
    spark: SparkSession, file: Path, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = parse_job_file(file.read_text(encoding="utf-8"))
    for job in jobs.jobs.values():
        run_job(spark, jobs, job)
    assert "check: log and lake agree" in capsys.readouterr().out
    report = json.loads((tmp_path / "report" / "report.json").read_text(encoding="utf-8"))
    assert (report["agrees"], report["totals"]["log"]["records"], report["totals"]["lake"]["records"]) == (True, 200, 200)

    plant_hole(tmp_path / "t", topic)
    differing = run(file, "check")
    assert differing.returncode == 1
    assert f"UNEXPLAINED: {topic}-0 offset {HOLE} (1 record): missing" in differing.stdout
    assert "check: log and lake differ; nothing explains 1 findings" in differing.stderr
    assert not json.loads((tmp_path / "report" / "report.json").read_text(encoding="utf-8"))["agrees"]

    (tmp_path / "c").rename(tmp_path / "gone")
    with pytest.raises(PipelineError, match=f"check: there is no checkpoint of an archive at {tmp_path}/c"):
        run_job(spark, jobs, jobs.jobs["check"])
    assert "agree" not in capsys.readouterr().out
