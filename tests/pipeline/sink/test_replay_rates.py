"""Replay jobs keep to the rate that they are given."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from services.pipeline.sink import steps
from tests.pipeline.chaos.lake_table import write_table
from tests.pipeline.jobs_in_process import run_jobs
from tests.pipeline.sink.replays import ROWS, TABLE, contents, replay, written
from tests.pipeline.topics import make_topic


@contextmanager
def epochs_timed() -> Iterator[list[float]]:
    """When the driver began each epoch, in seconds."""
    began: list[float] = []

    def observer(step: str) -> None:
        if step == "before the epoch":
            began.append(time.monotonic())

    steps.observe(observer)
    try:
        yield began
    finally:
        steps.forget(observer)


@pytest.mark.parametrize("limit", ["records_per_second = 20", "bytes_per_second = 180"])
def test_chunks_follow_each_other_no_faster_than_the_limit(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, limit: str
) -> None:
    """A chunk has 60 rows, and 590 bytes of keys, values and headers or more: each takes 3 s at the limit."""
    make_topic(bootstrap, topic, 3)
    write_table(tmp_path / "rows", TABLE)
    with epochs_timed() as began:
        run_jobs(spark, bootstrap, tmp_path, replay(tmp_path, topic, f"chunk_rows = 60\n{limit}"))
        ended = time.monotonic()
    assert len(began) == 2
    assert all(later - earlier >= 2.9 for earlier, later in pairwise([*began, ended]))
    assert written(bootstrap, topic) == contents(ROWS)
