"""Jobs of a job file, run to their end in the session of the tests."""

from pathlib import Path

from pyspark.sql import SparkSession

from services.pipeline.job_file.file import JobFile, parse_job_file
from services.pipeline.job_file.job import Job
from services.pipeline.jobs.kinds import STARTERS
from services.pipeline.jobs.running import Environment


def job_file(bootstrap: str, lake: Path | str, jobs: str) -> str:
    return f'[cluster]\nbootstrap_servers = "{bootstrap}"\n[lake]\npath = "{lake}"\n{jobs}'


def run_jobs(spark: SparkSession, bootstrap: str, lake: Path | str, jobs: str) -> JobFile:
    """`jobs` is the rest of a job file. All of them end by themselves."""
    file = parse_job_file(job_file(bootstrap, lake, jobs))
    for job in file.jobs.values():
        run_job(spark, file, job)
    return file


def run_job(spark: SparkSession, file: JobFile, job: Job) -> None:
    """One job of that file, to its end."""
    STARTERS[type(job)](job, Environment(spark, file.cluster, file.lake)).wait()
