"""Streams that run beside each other are all waited for."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.jobs.running import RunningStream, wait_for_all


def stream(spark: SparkSession, name: str, checkpoint: Path, write: Callable[[DataFrame, int], None]) -> RunningStream:
    """In a session of its own, as transforms are."""
    rows = spark.newSession().readStream.format("rate").load()
    writer = rows.writeStream.option("checkpointLocation", str(checkpoint / name)).foreachBatch(write)
    return RunningStream(name, writer.trigger(processingTime="100 milliseconds").start(), ends=False)


@pytest.mark.timeout(120)
def test_a_stream_that_fails_behind_one_that_goes_on_is_told(spark: SparkSession, tmp_path: Path) -> None:
    def fail(frame: DataFrame, batch: int) -> None:
        raise PipelineError("the second one is broken")

    going_on = stream(spark, "first", tmp_path, lambda frame, batch: None)
    try:
        with pytest.raises(PipelineError, match="second: the second one is broken"):
            wait_for_all([going_on, stream(spark, "second", tmp_path, fail)])
        assert going_on.is_active
    finally:
        going_on.stop()
    wait_for_all([going_on])
