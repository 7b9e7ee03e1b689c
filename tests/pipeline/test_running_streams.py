"""Streams that run beside each other are all waited for."""

from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.jobs.running import RunningStream, start_query, wait_for_all


def stream(spark: SparkSession, name: str, checkpoint: Path, write: Callable[[DataFrame, int], None]) -> RunningStream:
    """In a session of its own, as transforms are."""
    rows = spark.newSession().readStream.format("rate").load()
    writer = rows.writeStream.option("checkpointLocation", str(checkpoint / name)).foreachBatch(write)
    return RunningStream(name, writer.trigger(processingTime="100 milliseconds").start(), ends=False)


@pytest.mark.timeout(600)
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


class JavaError(Py4JJavaError):  # type: ignore[misc]
    """What py4j raises, with a stand-in for the exception in Java."""

    def __init__(self, name: str) -> None:
        Exception.__init__(self, name)
        self.java_exception = self
        self._name = name

    def __str__(self) -> str:
        return self._name

    def getClass(self) -> "JavaError":
        return self

    def getName(self) -> str:
        return self._name


class FailingWriter:
    def __init__(self, error: str) -> None:
        self._error = JavaError(error)

    def start(self) -> None:
        raise self._error


def test_a_driver_that_meets_another_one_of_its_job_says_so() -> None:
    with pytest.raises(PipelineError, match="copy: another process has started the job with this checkpoint"):
        start_query(FailingWriter("org.apache.spark.SparkConcurrentModificationException"), "copy")
    with pytest.raises(Py4JJavaError):
        start_query(FailingWriter("java.lang.OutOfMemoryError"), "copy")
