"""The function that starts a job, by the dataclass of its kind."""

from collections.abc import Mapping
from typing import Any

from services.pipeline.job_file.archive import ArchiveJob
from services.pipeline.job_file.audit import AuditJob
from services.pipeline.job_file.changelog_table import TableJob
from services.pipeline.job_file.job import Job
from services.pipeline.job_file.replay import ReplayJob
from services.pipeline.job_file.transform import TransformJob
from services.pipeline.jobs.archive import start_archive
from services.pipeline.jobs.audit import start_audit
from services.pipeline.jobs.replay import start_replay
from services.pipeline.jobs.tables import start_table
from services.pipeline.jobs.transform import start_transform

STARTERS: Mapping[type[Job], Any] = {
    ArchiveJob: start_archive,
    AuditJob: start_audit,
    ReplayJob: start_replay,
    TableJob: start_table,
    TransformJob: start_transform,
}
