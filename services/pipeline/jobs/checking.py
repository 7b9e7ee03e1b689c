"""What Spark says of a job file before any job runs: its SQL, schemas and patterns. It asks no cluster."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from services.pipeline.job_file.archive import ArchiveJob
from services.pipeline.job_file.audit import AuditJob
from services.pipeline.job_file.changelog_table import TableJob
from services.pipeline.job_file.file import JobFile
from services.pipeline.job_file.job import Job
from services.pipeline.job_file.replay import ReplayJob
from services.pipeline.job_file.transform import TransformJob
from services.pipeline.jobs.failures import refused_by_spark
from services.pipeline.jobs.lake_batches import type_of_schema
from services.pipeline.jobs.replay_plan import where_key
from services.pipeline.jobs.transform import query_rows, refuse_output_mode
from services.pipeline.spark.cluster import ClusterSettings, Topics
from services.pipeline.spark.jvm import jvm
from services.pipeline.spark.patterns import pattern_fits


def needs_spark(job: Job) -> bool:
    """Whether the job has anything that only Spark understands."""
    match job:
        case TransformJob():
            return True
        case ArchiveJob() | TableJob() if job.schema is not None:
            return True
        case ReplayJob():
            return job.rows.where is not None
    return any(topics.pattern is not None for _, topics in _topics(job))


def refuse_by_spark(spark: SparkSession, file: JobFile) -> None:
    """Raises PipelineError with the key of what Spark will refuse."""
    for job in file.jobs.values():
        for table, topics in _topics(job):
            if topics.pattern is not None:
                pattern_fits(spark, topics.pattern, table)
        _refuse_job(spark, job, file.cluster)


def _refuse_job(spark: SparkSession, job: Job, cluster: ClusterSettings) -> None:
    match job:
        case ArchiveJob() | TableJob() if job.schema is not None:
            type_of_schema(spark, job.schema, job.name)
        case ReplayJob() if job.rows.where is not None:
            with refused_by_spark(where_key(job.name)):
                jvm(spark).org.apache.spark.sql.classic.SparkSession.active().sessionState().sqlParser().parseExpression(
                    job.rows.where
                )
        case TransformJob():
            session = spark.newSession()  # views of jobs may have the same names
            refuse_output_mode(session, job, query_rows(session, job, cluster))


def _topics(job: Any) -> Iterator[tuple[str, Topics]]:
    """Each choice of topics, with the table of the job file that has it."""
    match job:
        case ArchiveJob() | AuditJob() | TableJob():
            yield f"jobs.{job.name}", job.topics
        case TransformJob():
            for name, view in job.inputs.items():
                yield f"jobs.{job.name}.inputs.{name}", view.topics
