"""The command line as a person sees it: its lines on the terminal, its log, and what a signal to its process group does."""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from services.pipeline.lake.table import read_table
from tests.pipeline.driver_process import WITHIN_S, run
from tests.pipeline.jobs_in_process import job_file
from tests.pipeline.topics import make_topic, numbered, produce
from tests.support.requirements import ROOT

TRANSFORM = """
[jobs.upper]
kind = "transform"
topic = "TOPIC-upper"
query = "SELECT key, upper(text) AS value FROM src"
[jobs.upper.inputs.src]
topics = ["TOPIC"]
select = ["key", "CAST(value AS STRING) AS text", "txet AS more"]
"""


def test_a_mistake_is_one_sentence_with_its_key_and_the_log_has_the_rest(bootstrap: str, topic: str, tmp_path: Path) -> None:
    make_topic(bootstrap, topic)
    file = tmp_path / "jobs.toml"
    file.write_text(job_file(bootstrap, tmp_path / "lake", TRANSFORM.replace("TOPIC", topic)), encoding="utf-8")
    done = run(file)
    sentence, place = done.stderr.split(" (log: ")
    assert sentence.startswith("penstock pipeline: jobs.upper.inputs.src.select[2]: Spark refuses it: [UNRESOLVED_COLUMN")
    assert place == f"{tmp_path / 'jobs.log'})\n"
    assert done.stderr.count("\n") == 1
    assert done.stdout.splitlines() == [f"starting Spark, its log is {tmp_path / 'jobs.log'}", "Spark runs, master local[*]"]
    assert done.returncode == 1
    assert "log4j" in (tmp_path / "jobs.log").read_text(encoding="utf-8"), "what the JVM prints is there"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_process_group_stops_the_jobs_in_order(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, number: signal.Signals
) -> None:
    """As `timeout`, systemd and a terminal send it: the JVM gets it as well, and `timeout` sends it twice."""
    make_topic(bootstrap, topic)
    produce(bootstrap, topic, numbered(20))
    file = tmp_path / "jobs.toml"
    archive = f'[jobs.a]\nkind = "archive"\ntopics = ["{topic}"]\ntrigger = "200 milliseconds"\n'
    file.write_text(job_file(bootstrap, tmp_path / "lake", archive), encoding="utf-8")
    command = [sys.executable, "-m", "services.pipeline", "run", str(file)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", start_new_session=True
    ) as driver:
        assert driver.stdout is not None
        lines = iter(driver.stdout.readline, "")
        assert any("batch 0 is committed" in line for line in lines), "the driver has ended by itself"
        for _ in range(2):
            os.killpg(driver.pid, number)
        _, said = driver.communicate(timeout=WITHIN_S)
    assert said == f"penstock pipeline: {number.name} has stopped the jobs; the next run goes on\n"
    assert driver.returncode == 128 + number
    assert read_table(spark, str(tmp_path / "lake" / "a")).count() == 20


def test_spark_submit_runs_jobs_as_the_page_prints_it(spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
    (printed,) = [block for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "bin/spark-submit" in block]
    make_topic(bootstrap, topic)
    produce(bootstrap, topic, numbered(20))
    file = tmp_path / "orders.toml"
    archive = f'[jobs.a]\nkind = "archive"\ntopics = ["{topic}"]\n'
    file.write_text(job_file(bootstrap, tmp_path / "lake", archive), encoding="utf-8")
    command = printed.replace("orders.toml", shlex.quote(str(file)))
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, encoding="utf-8", timeout=WITHIN_S)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Spark runs, master local[4]" in done.stdout
    assert read_table(spark, str(tmp_path / "lake" / "a")).count() == 20
