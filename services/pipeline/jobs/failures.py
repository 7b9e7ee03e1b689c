"""Failures of Spark inside a job, each told in one sentence."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from services.pipeline.errors import PipelineError, first_line
from services.pipeline.spark.refusals import SPARK_REFUSALS, reason_of, refusal_in

_NAMES_A_KEY = re.compile(r"(cluster|jobs|lake|spark|telemetry)\.")
_log = logging.getLogger(__name__)


@contextmanager
def in_one_sentence(job: str) -> Iterator[None]:
    """Raises PipelineError where Spark fails, e.g. at a file that is gone or damaged, and names the job in each."""
    try:
        yield
    except PipelineError as error:
        if _NAMES_A_KEY.match(str(error)):
            raise
        raise PipelineError(f"jobs.{job}: {error}") from error
    except (Py4JJavaError, PySparkException) as error:
        raise failure_of(job, error) from error


@contextmanager
def refused_by_spark(key: str) -> Iterator[None]:
    """Raises PipelineError for what Spark says of the value of that key in a job file. Other errors stay what they are."""
    try:
        yield
    except SPARK_REFUSALS as error:
        raise PipelineError(f"{key}: Spark refuses it: {first_line(error)}") from error


def failure_of(job: str, error: Py4JJavaError | PySparkException) -> PipelineError:
    """What ended the job, in one line. Another error than a refusal is also logged in full, since Spark's log leaves it out."""
    if refusal_in(error) is None:
        _log.error("%s failed:\n%s", job, error)
    reason = reason_of(error)
    return PipelineError(reason if _NAMES_A_KEY.match(reason) else f"jobs.{job}: {reason}")
