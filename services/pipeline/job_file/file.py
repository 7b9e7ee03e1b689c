"""A whole job file: `[cluster]`, `[spark]`, `[lake]`, `[telemetry]`, and a table `[jobs.NAME]` for each job."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from libs.client.security import NO_SECURITY, Security
from services.pipeline.errors import InvalidJobFile, PipelineError
from services.pipeline.job_file.archive import ArchiveJob
from services.pipeline.job_file.audit import beside_its_archive
from services.pipeline.job_file.changelog_table import TableJob
from services.pipeline.job_file.job import FORMATS, Job, LakeSettings
from services.pipeline.job_file.kinds import READERS, Reader
from services.pipeline.job_file.reader import TableReader
from services.pipeline.observing.settings import TelemetrySettings
from services.pipeline.spark.cluster import ClusterSettings
from services.pipeline.spark.cluster_security import read_security, security_problem
from services.pipeline.spark.settings import SparkSettings

PORT_MAX = 65_535
DECIDED_BY_JOBS = frozenset(
    {
        "auto.offset.reset",
        "bootstrap.servers",
        "enable.auto.commit",
        "group.id",
        "interceptor.classes",
        "isolation.level",
        "key.deserializer",
        "key.serializer",
        "value.deserializer",
        "value.serializer",
    }
)
"""Properties of Kafka's clients that a job file may not set. Spark's connector refuses most of them."""
SECRET_OPTIONS = frozenset({"sasl.jaas.config", "sasl.password", "ssl.key.password", "ssl.keystore.key", "ssl.keystore.password"})
"""Properties of Kafka's clients that hold a secret, unless they only refer to one as Kafka's config providers do."""
SECURITY_PREFIXES = ("config.providers", "sasl.", "security.", "ssl.")
_NAME = re.compile(r"[a-zA-Z0-9_-]+")


@dataclass(frozen=True)
class JobFile:
    cluster: ClusterSettings
    spark: SparkSettings
    lake: LakeSettings
    telemetry: TelemetrySettings
    jobs: Mapping[str, Job]
    """By name, in the file's order."""

    def chosen(self, names: list[str]) -> list[Job]:
        """These jobs, in the file's order; all if none is named."""
        for name in names:
            if name not in self.jobs:
                raise PipelineError(f"there is no job {name!r} in the file; it has {', '.join(self.jobs)}")
        return [job for name, job in self.jobs.items() if not names or name in names]


def read_job_file(path: Path, readers: Mapping[str, Reader] = READERS) -> JobFile:
    """Raises InvalidJobFile, whose message names the file."""
    try:
        return parse_job_file(path.read_text(encoding="utf-8"), readers)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidJobFile(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    except InvalidJobFile as error:
        raise InvalidJobFile(f"{path}: {error}") from None


def parse_job_file(text: str, readers: Mapping[str, Reader] = READERS) -> JobFile:
    file = TableReader("", tomllib.loads(text))
    lake = _read_lake(file.table("lake"))
    cluster = _read_cluster(file.table("cluster"))
    spark = _read_spark(file.table("spark", {}))
    telemetry = _read_telemetry(file.table("telemetry", {}))
    jobs = file.table("jobs")
    found = {name: _read_job(jobs.table(name), name, lake, readers) for name in jobs.keys()}  # noqa: SIM118 (no dictionary)
    if not found:
        raise InvalidJobFile("there is no job; each is a table [jobs.NAME]")
    file.end()
    refuse_tables_in_tables(found)
    return JobFile(cluster, spark, lake, telemetry, {name: beside_its_archive(job, found) for name, job in found.items()})


def refuse_tables_in_tables(jobs: Mapping[str, Job]) -> None:
    """Raises InvalidJobFile: the writer of the outer table would take the files of the inner one for its own leftovers."""
    written = [job for job in jobs.values() if isinstance(job, ArchiveJob | TableJob)]
    paths = [(job.name, path) for job in written for path in (job.path, job.dead_letters_path)]
    for name, inner in paths:
        for other, outer in paths:
            if inner.startswith(f"{outer}/"):
                raise InvalidJobFile(
                    f"jobs.{name} writes {inner}, inside the table {outer} of jobs.{other}: give it another path"
                )


def _read_cluster(table: TableReader) -> ClusterSettings:
    security = _read_security(table.table("security")) if table.has("security") else NO_SECURITY
    settings = ClusterSettings(table.text("bootstrap_servers"), table.settings("options"), security)
    for name, value in settings.options.items():
        if name in SECRET_OPTIONS and "${" not in value:
            raise InvalidJobFile(f"cluster.options.{name} is not allowed: passwords have their place in cluster.security")
        if security != NO_SECURITY and name.startswith(SECURITY_PREFIXES):
            raise InvalidJobFile(f"cluster.options.{name} is not allowed beside cluster.security, which decides it")
        if name in DECIDED_BY_JOBS:
            raise InvalidJobFile(f"cluster.options.{name} is not allowed: the jobs decide it")
    table.end()
    return settings


def _read_security(table: TableReader) -> Security:
    if table.has("password"):
        raise InvalidJobFile(
            f"{table.name}.password is not allowed: name the place of the password by password_file or password_variable"
        )
    security = read_security(lambda name: table.text(name, None))
    table.end()
    if problem := security_problem(security):
        name, reason = problem
        raise InvalidJobFile(f"{table.name}.{name}: {reason}")
    return security


def _read_spark(table: TableReader) -> SparkSettings:
    settings = SparkSettings(table.text("master", None), table.settings("config"))
    table.end()
    return settings


def _read_telemetry(table: TableReader) -> TelemetrySettings:
    port = table.integer("metrics_port", None)
    if port is not None and port > PORT_MAX:
        raise table.refusal("metrics_port", port, f"a port from 0 to {PORT_MAX}; 0 takes any")
    endpoint = table.text("otlp_endpoint", None)
    if endpoint is not None and not endpoint.startswith(("http://", "https://")):
        raise table.refusal("otlp_endpoint", endpoint, "a URL such as 'http://collector:4318/v1/traces'")
    settings = TelemetrySettings(table.text("metrics_host", TelemetrySettings.metrics_host), port, endpoint)
    table.end()
    return settings


def _read_lake(table: TableReader) -> LakeSettings:
    settings = LakeSettings(table.path("path"), table.choice("format", FORMATS, LakeSettings.format))
    table.end()
    return settings


def _read_job(table: TableReader, name: str, lake: LakeSettings, readers: Mapping[str, Reader]) -> Job:
    if not _NAME.fullmatch(name):
        raise InvalidJobFile(f"a job is called {name!r}; allowed are letters, digits, '_' and '-'")
    job = readers[table.choice("kind", list(readers))](table, name, lake)
    table.end()
    return job
