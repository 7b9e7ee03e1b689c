"""An audit: compares, prints one line a finding, writes the report, and fails if a finding is not explained."""

from datetime import date
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from services.pipeline.audit.comparison import AuditResult, compare
from services.pipeline.audit.page import as_page
from services.pipeline.audit.report import as_data, as_json
from services.pipeline.audit.settings import AuditSettings
from services.pipeline.audit.sides import LakeSide
from services.pipeline.audit.slices import Partition
from services.pipeline.errors import PipelineError
from services.pipeline.job_file.audit import NO_CHECKPOINT, AuditJob
from services.pipeline.jobs.failures import in_one_sentence
from services.pipeline.jobs.running import Environment
from services.pipeline.lake.table import facts_of_commits, read_table
from services.pipeline.spark.checkpoint import Checkpoint

LINES_MAX = 200


class RunningAudit:
    """An audit is done when it was started: it runs in the caller's thread."""

    ends = True

    def __init__(self, job: AuditJob, environment: Environment) -> None:
        self._job = job
        self._environment = environment

    def wait(self) -> None:
        """Raises PipelineError if the audit cannot be done, or finds what nothing explains."""
        job, environment = self._job, self._environment
        settings = AuditSettings(
            topics=job.topics,
            bucket_offsets=job.bucket_offsets,
            slice_s=job.slice_s,
            read_uncommitted=job.read_uncommitted,
            findings_max=job.findings_max,
        )
        with in_one_sentence(job.name):
            result = compare(environment.spark, environment.cluster, lake_side(environment, job), settings)
        page = write_report(job, as_data(job.name, result))
        say(result)
        if result.unexplained:
            raise PipelineError(
                f"jobs.{job.name}: log and lake differ; nothing explains {len(result.unexplained)} findings, see {page}"
            )
        print(f"{job.name}: log and lake agree; report: {page}")

    def stop(self) -> None:
        """Nothing goes on."""


def start_audit(job: AuditJob, environment: Environment) -> RunningAudit:
    return RunningAudit(job, environment)


def lake_side(environment: Environment, job: AuditJob) -> LakeSide:
    """The checkpoint is read before the table: what it says was committed is then in the table."""
    spark = environment.spark
    began, reached = ({}, {}) if job.checkpoint is None else archived_offsets(spark, job.checkpoint, job.name)
    rows = read_table(spark, job.table)
    dropped = [fact["expired_before"] for fact in facts_of_commits(spark, job.table) if fact["kind"] == "retention"]
    return LakeSide(job.table, rows, reached, began, date.fromisoformat(max(dropped)) if dropped else None)


def archived_offsets(spark: SparkSession, path: str, job: str) -> tuple[dict[Partition, int], dict[Partition, int]]:
    """Of each partition that the archive's checkpoint knows: the first offset, and the one after the last that is committed.

    Raises PipelineError if no stream has begun there.
    """
    checkpoint = Checkpoint(spark, path)
    if not checkpoint.has_begun():
        raise PipelineError(
            f"jobs.{job}: there is no checkpoint of an archive at {path}; name the archive's, "
            f'or audit by the table\'s rows alone with checkpoint = "{NO_CHECKPOINT}"'
        )
    began = checkpoint.ends(-1)
    _, finished = checkpoint.finished()
    reached = {**began, **finished}
    return (
        {Partition(*partition): began.get(partition, 0) for partition in reached},
        {Partition(*partition): end for partition, end in reached.items()},
    )


def write_report(job: AuditJob, data: dict[str, Any]) -> Path:
    """`report.json` and `report.html` in the job's folder. Returns the path of the page."""
    folder = Path(job.report)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "report.json").write_text(as_json(data), encoding="utf-8")
        (folder / "report.html").write_text(as_page(data), encoding="utf-8")
    except OSError as error:
        raise PipelineError(f"jobs.{job.name}: the report cannot be written to {folder}: {error.strerror}") from error
    return folder / "report.html"


def say(result: AuditResult) -> None:
    """Unexplained findings first. The report has those that are too many to print."""
    ordered = sorted(result.findings, key=lambda finding: finding.is_explained)
    for finding in ordered[:LINES_MAX]:
        print(f"{'explained' if finding.is_explained else 'UNEXPLAINED'}: {finding}")
    if len(ordered) > LINES_MAX:
        print(f"and {len(ordered) - LINES_MAX} more in the report")
