"""The kinds of jobs that a job file may have, each with the function that reads its table."""

from collections.abc import Callable, Mapping

from services.pipeline.job_file.archive import read_archive_job
from services.pipeline.job_file.audit import read_audit_job
from services.pipeline.job_file.changelog_table import read_table_job
from services.pipeline.job_file.job import Job, LakeSettings
from services.pipeline.job_file.reader import TableReader
from services.pipeline.job_file.replay import read_replay_job
from services.pipeline.job_file.transform import read_transform_job

Reader = Callable[[TableReader, str, LakeSettings], Job]
"""Reads `[jobs.NAME]`: its table without `kind`, NAME, and the lake. It need not call `end()`."""
READERS: Mapping[str, Reader] = {
    "archive": read_archive_job,
    "audit": read_audit_job,
    "table": read_table_job,
    "replay": read_replay_job,
    "transform": read_transform_job,
}
