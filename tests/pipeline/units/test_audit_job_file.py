"""Keys of audits and of telemetry in job files."""

import pytest

from services.pipeline.errors import InvalidJobFile
from services.pipeline.job_file.audit import AuditJob
from services.pipeline.job_file.file import JobFile, parse_job_file
from services.pipeline.observing.settings import TelemetrySettings
from services.pipeline.spark.cluster import Topics


def parsed(job: str = "", telemetry: str = "") -> JobFile:
    top = f'[cluster]\nbootstrap_servers = "h:9092"\n[lake]\npath = "/lake"\n[telemetry]\n{telemetry}\n'
    return parse_job_file(f'{top}[jobs.check]\nkind = "audit"\narchive = "orders"\ntopics = ["orders"]\n{job}\n')


def test_an_audit_finds_the_table_and_the_checkpoint_of_its_archive() -> None:
    assert parsed().jobs["check"] == AuditJob(
        name="check",
        archive="orders",
        topics=Topics(("orders",)),
        table="/lake/orders",
        checkpoint="/lake/_checkpoints/orders",
        report="audit-check",
        bucket_offsets=100_000,
        slice_s=3600,
        findings_max=10_000,
        read_uncommitted=False,
        defaults=frozenset({"table", "checkpoint", "isolation_level"}),
    )


ARCHIVE = """
[jobs.orders]
kind = "archive"
topics = ["orders"]
path = "/elsewhere/orders"
checkpoint = "/elsewhere/checkpoint"
isolation_level = "read_uncommitted"
"""


def test_an_audit_takes_table_checkpoint_and_isolation_from_its_archive_in_the_same_file() -> None:
    job = parsed(ARCHIVE).jobs["check"]
    assert isinstance(job, AuditJob)
    assert (job.table, job.checkpoint, job.read_uncommitted) == ("/elsewhere/orders", "/elsewhere/checkpoint", True)
    own = 'table = "/a"\ncheckpoint = "none"\nisolation_level = "read_committed"'
    job = parsed(f"{own}{ARCHIVE}").jobs["check"]
    assert isinstance(job, AuditJob)
    assert (job.table, job.checkpoint, job.read_uncommitted) == ("/a", None, False)


def test_an_audit_of_another_kind_of_job_is_refused() -> None:
    with pytest.raises(InvalidJobFile, match=r"jobs\.check\.archive is 'orders'; allowed is .* of the kind 'archive'"):
        parsed('[jobs.orders]\nkind = "table"\ntopics = ["orders"]')


@pytest.mark.parametrize(
    ("job", "sentence"),
    [
        ('slice_time = "7 minutes"', "jobs.check.slice_time is '7 minutes'; allowed is '1 minute' or"),
        ("bucket_offsets = 10", "jobs.check.bucket_offsets is 10; allowed is a whole number from 100"),
        ('isolation_level = "none"', "jobs.check.isolation_level is 'none'; allowed is 'read_committed' or 'read_uncommitted'"),
        ("slice = 1", "there is no key jobs.check.slice; did you mean slice_time?"),
    ],
)
def test_a_wrong_value_of_an_audit_is_one_sentence(job: str, sentence: str) -> None:
    with pytest.raises(InvalidJobFile) as refused:
        parsed(job)
    assert str(refused.value).startswith(sentence)


def test_telemetry_is_off_unless_it_is_asked_for() -> None:
    assert parsed().telemetry == TelemetrySettings()
    asked = 'metrics_port = 9600\nmetrics_host = "0.0.0.0"\notlp_endpoint = "http://c:4318/v1/traces"'
    assert parsed(telemetry=asked).telemetry == TelemetrySettings("0.0.0.0", 9600, "http://c:4318/v1/traces")


@pytest.mark.parametrize(
    ("telemetry", "sentence"),
    [
        ("metrics_port = 70000", "telemetry.metrics_port is 70000; allowed is a port from 0 to 65535"),
        ('otlp_endpoint = "c:4318"', "telemetry.otlp_endpoint is 'c:4318'; allowed is a URL such as 'http://collector:4318"),
    ],
)
def test_a_wrong_value_of_telemetry_is_one_sentence(telemetry: str, sentence: str) -> None:
    with pytest.raises(InvalidJobFile) as refused:
        parsed(telemetry=telemetry)
    assert str(refused.value).startswith(sentence)
