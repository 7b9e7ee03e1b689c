"""Patterns of topic names. They are Java regular expressions, as in Spark's connector."""

from collections.abc import Callable

from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.spark.jvm import jvm


def pattern_fits(spark: SparkSession, pattern: str, table: str = "") -> Callable[[str], bool]:
    """Whether a whole name fits. Raises PipelineError with the table's key if the pattern is no Java regular expression."""
    try:
        compiled = jvm(spark).java.util.regex.Pattern.compile(pattern)
    except IllegalArgumentException as error:
        reason = str(error).splitlines()[0]
        key = f"{table}.topic_pattern" if table else "topic_pattern"
        raise PipelineError(f"{key} is {pattern!r}, which is no Java regular expression: {reason}") from None
    return lambda name: bool(compiled.matcher(name).matches())
