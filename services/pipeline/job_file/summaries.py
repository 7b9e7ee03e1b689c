"""What a job would do, in one line, as `check` prints it."""

from services.pipeline.job_file.archive import ArchiveJob
from services.pipeline.job_file.audit import AuditJob
from services.pipeline.job_file.changelog_table import TableJob
from services.pipeline.job_file.job import Job
from services.pipeline.job_file.replay import ReplayJob
from services.pipeline.job_file.streams import StreamSettings, Trigger
from services.pipeline.job_file.transform import TransformJob
from services.pipeline.spark.cluster import Topics


def summary_of(job: Job) -> str:
    """The job's kind, what it reads and writes, and when. Settings at their defaults are left out."""
    match job:
        case ArchiveJob():
            parsed = "" if job.schema is None else f", values parsed as {job.schema.format}"
            return f"archive: {_topics(job.topics)} -> {job.format} {job.path}{parsed}; {_stream(job.stream)}"
        case TableJob():
            parsed = "" if job.schema is None else f", values parsed as {job.schema.format}"
            return f"table: {_topics(job.topics)} -> delta {job.path}{parsed}; {_stream(job.stream)}"
        case TransformJob():
            inputs = ", ".join(f"{name} ({_topics(view.topics)})" for name, view in job.inputs.items())
            return f"transform: {inputs} -> {_target(job.target.topic)}; {_stream(job.stream)}"
        case ReplayJob():
            return f"replay: {job.table} -> {_target(job.target.topic)}; checkpoint {job.checkpoint}"
        case AuditJob():
            until = "" if job.checkpoint is None else f", checkpoint {job.checkpoint}"
            return f"audit: {_topics(job.topics)} against {job.table} of {job.archive}{until}; report in {job.report}"
    raise TypeError(f"no summary of {type(job).__name__}")


def _topics(topics: Topics) -> str:
    return ", ".join(topics.names) if topics.pattern is None else f"topics like {topics.pattern}"


def _target(topic: str | None) -> str:
    return "the topics that the rows name" if topic is None else f"topic {topic}"


def _stream(stream: StreamSettings) -> str:
    return f"{_when(stream.trigger)}; checkpoint {stream.checkpoint}, group {stream.group}"


def _when(trigger: Trigger) -> str:
    return "takes what is there, and ends" if trigger.interval is None else f"every {trigger.interval}, until it is stopped"
