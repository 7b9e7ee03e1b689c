"""`kind = "audit"`: which topics are compared with which table, and how finely."""

from dataclasses import dataclass

from services.pipeline.job_file.job import Job, LakeSettings
from services.pipeline.job_file.reader import TableReader
from services.pipeline.job_file.streams import read_topics
from services.pipeline.spark.cluster import Topics

SLICES = {"1 minute": 60, "5 minutes": 300, "15 minutes": 900, "1 hour": 3600, "6 hours": 21_600, "1 day": 86_400}
"""Lengths of time slices, all divisors of a day."""


@dataclass(frozen=True, kw_only=True)
class AuditJob(Job):
    topics: Topics
    table: str
    checkpoint: str
    """The archive's; if nothing is there, the lake's last rows tell how far the archive has come."""
    report: str
    """A local folder."""
    bucket_offsets: int
    slice_s: int
    findings_max: int
    read_uncommitted: bool


def read_audit_job(table: TableReader, name: str, lake: LakeSettings) -> Job:
    archive = table.text("archive")
    return AuditJob(
        name=name,
        topics=read_topics(table),
        table=table.text("table", f"{lake.path}/{archive}"),
        checkpoint=table.text("checkpoint", f"{lake.path}/_checkpoints/{archive}"),
        report=table.text("report", f"audit-{name}"),
        bucket_offsets=table.integer("bucket_offsets", 100_000, at_least=100),
        slice_s=SLICES[table.choice("slice_time", list(SLICES), "1 hour")],
        findings_max=table.integer("findings_max", 10_000, at_least=1),
        read_uncommitted=table.choice("isolation_level", ("read_committed", "read_uncommitted"), "read_committed")
        == "read_uncommitted",
    )
