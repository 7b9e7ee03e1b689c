"""What a job tells a person when it cannot go on."""


class PipelineError(Exception):
    """The message is one sentence, shown as it is: it names the value that is wrong and what is allowed."""


class SinkError(PipelineError):
    """A write to topics that cannot go on, or may not begin."""


class InvalidJobFile(PipelineError):
    """A job file with a value that is wrong, missing, unknown or contradictory."""


def first_line(error: BaseException) -> str:
    """The reason without what Spark adds: the plan, the query, the Java stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
