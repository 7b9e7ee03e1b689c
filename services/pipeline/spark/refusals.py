"""Errors of Spark and of jobs that a person has to read: the one sentence in them, without the stacks around it."""

import re

from py4j.protocol import Py4JJavaError
from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    DateTimeException,
    IllegalArgumentException,
    NumberFormatException,
    ParseException,
    SparkRuntimeException,
)

from services.pipeline.errors import PipelineError, first_line

VALUE_ERRORS = (ArithmeticException, DateTimeException, NumberFormatException, SparkRuntimeException)
"""What Spark raises for a value of a row with which it cannot compute, say in a cast."""
SPARK_REFUSALS = (AnalysisException, IllegalArgumentException, ParseException, *VALUE_ERRORS)
"""What Spark raises for a wrong expression, option or value."""
_OURS = re.compile(rf"{re.escape(PipelineError.__module__)}\.\w+: (.+)")
_OF_VALUES = re.compile(rf"pyspark\.errors\.exceptions\.captured\.(?:{'|'.join(each.__name__ for each in VALUE_ERRORS)}): (.+)")
"""Errors in the text of one that Spark passes on from Python."""
_UNREADABLE = re.compile(r"\[FAILED_READ_FILE\.(\w+)\] Encountered error while reading file (\S+?)\.?\s")
_CAUSE = re.compile(r"^\s*Caused by: (?:[\w$]+\.)*[\w$]+: (.+)$", re.MULTILINE)


def refusal_in(error: BaseException) -> str | None:
    """The sentence of the last PipelineError in the error's text, or else that of a value with which Spark could not compute, or
    of a file that it could not read."""
    if isinstance(error, (PipelineError, *VALUE_ERRORS)):
        return first_line(error)
    for refusal in (_OURS, _OF_VALUES):
        if found := refusal.findall(str(error)):
            return str(found[-1])
    return _unreadable_file(str(error))


def reason_of(error: BaseException) -> str:
    """The one line that tells the reason, whatever the error is."""
    return refusal_in(error) or _raised_in_python(str(error)) or _cause_in_java(error) or first_line(error)


def _raised_in_python(text: str) -> str | None:
    """The line that ends the last Python traceback."""
    _, traceback, after = text.rpartition("Traceback (most recent call last):")
    lines = (line for line in after.splitlines() if line and not line[0].isspace())
    return next(lines, None) if traceback else None


def _cause_in_java(error: BaseException) -> str | None:
    """The last cause of a Java exception whose first line names the call only."""
    causes = _CAUSE.findall(str(error)) if isinstance(error, Py4JJavaError) else []
    return str(causes[-1]) if causes else None


def _unreadable_file(text: str) -> str | None:
    unreadable = _UNREADABLE.search(text)
    if unreadable is None:
        return None
    kind, file = unreadable.groups()
    if kind == "FILE_NOT_EXIST":
        return f"{file} is gone, and its table names it"
    causes = _CAUSE.findall(text)
    return f"{file} cannot be read: {causes[-1]}" if causes else f"{file} cannot be read"
