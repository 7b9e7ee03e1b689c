"""Failures of Spark inside a job, each told in one sentence."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from services.pipeline.errors import PipelineError
from services.pipeline.spark.refusals import SPARK_REFUSALS, first_line, reason_of, refusal_in


@contextmanager
def in_one_sentence(job: str) -> Iterator[None]:
    """Raises PipelineError where Spark fails, e.g. at a file that is gone or damaged."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raise failure_of(job, error) from error


@contextmanager
def refused_by_spark(job: str, what: str) -> Iterator[None]:
    """Raises PipelineError for what Spark says of values in a job file. Other errors stay what they are."""
    try:
        yield
    except SPARK_REFUSALS as error:
        raise PipelineError(f"{job}: Spark refuses {what}: {first_line(error)}") from error


def failure_of(job: str, error: Py4JJavaError | PySparkException) -> PipelineError:
    """What ended the job, in one line. Another error than a refusal is also printed in full, since Spark's log leaves it out."""
    if refusal_in(error) is None:
        print(f"{job} failed:\n{error}", file=sys.stderr, flush=True)
    return PipelineError(f"{job}: {reason_of(error)}")
