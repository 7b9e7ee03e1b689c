"""The job file of `make pipeline`: where the cluster is, and how its jobs log in to one of SECURITY=on."""

from pathlib import Path

import pytest

from libs.client.security import NO_SECURITY
from services.pipeline.examples.packages import job_file, login_in
from services.pipeline.job_file.file import parse_job_file
from services.pipeline.spark.cluster_security import librdkafka_properties

CONF = (
    "bootstrap.servers=127.0.0.1:9092\nsecurity.protocol=SASL_SSL\nssl.ca.location={ca}\nsasl.mechanism=SCRAM-SHA-512\n"
    "sasl.username=admin\nsasl.password=a-password-that=is-long\n"
)


@pytest.fixture
def security(tmp_path: Path) -> Path:
    """As `libs/local_security` writes it, whose package the pipeline's environment lacks."""
    ca = tmp_path / "ca.pem"
    ca.write_text("", encoding="utf-8")
    (tmp_path / "kcat.conf").write_text(CONF.format(ca=ca), encoding="utf-8")
    (tmp_path / "admin-password").write_text("a-password-that=is-long", encoding="utf-8")
    return tmp_path


def test_jobs_log_in_as_the_producer_of_the_example_does(security: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "services.pipeline.job_file.file.security_problem", lambda security: None
    )  # of a certificate, which is empty
    text = job_file("127.0.0.1:9292", security / "pipeline", security)
    read = parse_job_file(text).cluster
    assert read.bootstrap_servers == "127.0.0.1:9292"
    assert librdkafka_properties(read.security) == login_in(security)
    assert "a-password" not in text


def test_a_cluster_without_it_needs_no_login(tmp_path: Path) -> None:
    assert parse_job_file(job_file("127.0.0.1:9292", tmp_path, None)).cluster.security == NO_SECURITY
