"""Failures of Spark inside a job, each told in one sentence."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from services.pipeline.errors import PipelineError

_MARKER = f"{PipelineError.__module__}."
_UNREADABLE = re.compile(r"\[FAILED_READ_FILE\.(\w+)\] Encountered error while reading file (\S+?)\.?\s")
_CAUSE = re.compile(r"^\s*Caused by: (?:[\w$]+\.)*[\w$]+: (.+)$", re.MULTILINE)


@contextmanager
def in_one_sentence(job: str) -> Iterator[None]:
    """Raises PipelineError where Spark fails, e.g. at a file that is gone or damaged."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raise PipelineError(f"{job}: {reason_of(error)}") from error


def reason_of(error: Exception) -> str:
    """The one line that tells the reason: that of a PipelineError from inside a batch, or a file that cannot be read, if it was
    one."""
    text = str(error)
    if _MARKER in text:
        return text.rpartition(_MARKER)[2].partition(": ")[2].splitlines()[0]
    causes = _CAUSE.findall(text)
    if unreadable := _UNREADABLE.search(text):
        kind, file = unreadable.groups()
        return f"{file} is gone, and its table names it" if kind == "FILE_NOT_EXIST" else f"{file} cannot be read: {causes[-1]}"
    if isinstance(error, Py4JJavaError) and causes:
        return str(causes[-1])
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
