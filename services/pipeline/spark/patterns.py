"""Patterns of topic names. They are Java regular expressions, as in Spark's connector."""

from collections.abc import Callable

from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.spark.jvm import jvm


def pattern_fits(spark: SparkSession, pattern: str) -> Callable[[str], bool]:
    """Whether a whole name fits. Raises PipelineError if the pattern is no Java regular expression."""
    try:
        compiled = jvm(spark).java.util.regex.Pattern.compile(pattern)
    except IllegalArgumentException as error:
        reason = str(error).splitlines()[0]
        raise PipelineError(f"topic_pattern is {pattern!r}, which is no Java regular expression: {reason}") from None
    return lambda name: bool(compiled.matcher(name).matches())
