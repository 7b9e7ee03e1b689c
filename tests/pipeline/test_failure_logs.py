"""What a person sees when a stream fails: one sentence. The log has any error in full that is no refusal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from services.pipeline.errors import PipelineError, SinkError
from services.pipeline.jobs.running import RunningStream
from services.pipeline.spark.jvm import jvm


@contextmanager
def logged_by_spark(spark: SparkSession) -> Iterator[Any]:
    """A Java writer that gets all that Spark logs meanwhile."""
    log4j = jvm(spark).org.apache.logging.log4j
    writer = jvm(spark).java.io.StringWriter()
    layout = log4j.core.layout.PatternLayout.createDefaultLayout()
    appender = log4j.core.appender.WriterAppender.createAppender(layout, None, writer, "seen", False, True)
    appender.start()
    root = log4j.LogManager.getContext(False).getConfiguration().getRootLogger()
    root.addAppender(appender, None, None)
    try:
        yield writer
    finally:
        root.removeAppender("seen")


def refuse_in_the_batch(rows: DataFrame, batch: int) -> None:
    raise PipelineError("batch refused")


def refuse_in_a_task(rows: DataFrame, batch: int) -> None:
    def refuse(batches: Iterator[Any]) -> Iterator[Any]:
        raise SinkError("task refused")

    rows.mapInArrow(refuse, "id long").collect()


def compute_in_vain(rows: DataFrame, batch: int) -> None:
    rows.selectExpr("CAST(concat('no', id) AS INT)").collect()


def fail(rows: DataFrame, batch: int) -> None:
    raise ZeroDivisionError("nobody expects this")


@pytest.mark.parametrize(
    ("write", "sentence", "is_expected"),
    [
        (refuse_in_the_batch, "job: batch refused", True),
        (refuse_in_a_task, "job: task refused", True),
        (compute_in_vain, r"job: \[CAST_INVALID_INPUT\] The value 'no\d' .* cannot be cast", True),
        (fail, "job: ZeroDivisionError: nobody expects this", False),
    ],
    ids=["batch", "task", "value", "unexpected"],
)
def test_a_refusal_is_one_sentence_and_another_error_is_logged_in_full(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    write: Callable[[DataFrame, int], None],
    sentence: str,
    is_expected: bool,
) -> None:
    spark.range(3).write.parquet(str(tmp_path / "rows"))
    stream = spark.readStream.schema("id long").parquet(str(tmp_path / "rows")).writeStream.foreachBatch(write)
    with logged_by_spark(spark) as logged:
        query = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        with pytest.raises(PipelineError, match=sentence) as caught:
            RunningStream("job", query, ends=True).wait()
    assert "\n" not in str(caught.value)
    assert logged.toString() == ""
    assert capsys.readouterr().err == ""
    assert caplog.text == "" if is_expected else "in fail" in caplog.text and "MicroBatchExecution" in caplog.text
