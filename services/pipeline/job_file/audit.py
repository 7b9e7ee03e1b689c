"""`kind = "audit"`: which topics are compared with which table, and how finely."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from services.pipeline.errors import InvalidJobFile
from services.pipeline.job_file.archive import ArchiveJob
from services.pipeline.job_file.job import Job, LakeSettings
from services.pipeline.job_file.reader import TableReader
from services.pipeline.job_file.streams import read_topics
from services.pipeline.spark.cluster import Topics

SLICES = {"1 minute": 60, "5 minutes": 300, "15 minutes": 900, "1 hour": 3600, "6 hours": 21_600, "1 day": 86_400}
"""Lengths of time slices, all divisors of a day."""
NO_CHECKPOINT = "none"


@dataclass(frozen=True, kw_only=True)
class AuditJob(Job):
    archive: str
    """The name of the archive job, of this file or of another one."""
    topics: Topics
    table: str
    checkpoint: str | None
    """The archive's. None: the lake's last rows tell how far the archive has come."""
    report: str
    """A local folder."""
    bucket_offsets: int
    slice_s: int
    findings_max: int
    read_uncommitted: bool
    defaults: frozenset[str] = frozenset()
    """Keys that the file leaves to the archive job, if it has that one."""


def read_audit_job(table: TableReader, name: str, lake: LakeSettings) -> Job:
    archive = table.text("archive")
    defaults = frozenset(key for key in ("table", "checkpoint", "isolation_level") if not table.has(key))
    checkpoint = table.text("checkpoint", f"{lake.path}/_checkpoints/{archive}")
    return AuditJob(
        name=name,
        archive=archive,
        topics=read_topics(table),
        table=table.path("table", f"{lake.path}/{archive}"),
        checkpoint=None if checkpoint == NO_CHECKPOINT else checkpoint,
        report=table.text("report", f"audit-{name}"),
        bucket_offsets=table.integer("bucket_offsets", 100_000, at_least=100),
        slice_s=SLICES[table.choice("slice_time", list(SLICES), "1 hour")],
        findings_max=table.integer("findings_max", 10_000, at_least=1),
        read_uncommitted=table.choice("isolation_level", ("read_committed", "read_uncommitted"), "read_committed")
        == "read_uncommitted",
        defaults=defaults,
    )


def beside_its_archive(job: Job, jobs: Mapping[str, Job]) -> Job:
    """An audit with the table, checkpoint and isolation level of its archive job, if `jobs` has that one and the file does not
    say otherwise. Raises InvalidJobFile if `archive` names a job of another kind."""
    if not isinstance(job, AuditJob) or job.archive not in jobs:
        return job
    archive = jobs[job.archive]
    if not isinstance(archive, ArchiveJob):
        raise InvalidJobFile(f"jobs.{job.name}.archive is {job.archive!r}; allowed is the name of a job of the kind 'archive'")
    return replace(
        job,
        table=archive.path if "table" in job.defaults else job.table,
        checkpoint=archive.stream.checkpoint if "checkpoint" in job.defaults else job.checkpoint,
        read_uncommitted=archive.read_uncommitted if "isolation_level" in job.defaults else job.read_uncommitted,
    )
