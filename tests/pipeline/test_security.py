"""Jobs under SASL_SSL, as users who may do what docs/security.md gives them, and nothing else."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.job_file.file import parse_job_file
from tests.pipeline.driver_process import run
from tests.pipeline.jobs_in_process import run_job
from tests.pipeline.sink.topics import read_topic
from tests.pipeline.topics import numbered, produce
from tests.support.certificates import Authority
from tests.support.printed_acls import printed_acls, run_printed
from tests.support.secrets_in_view import expect_no_secret, written_and_shown
from tests.support.secured_cluster import SecuredCluster, password_of, secured_cluster

ARCHIVE = '[jobs.orders]\nkind = "archive"\ntopics = ["orders"]\n'
AUDIT = '[jobs.check]\nkind = "audit"\narchive = "orders"\ntopics = ["orders"]\nreport = "{lake}/report"\n'
TRANSFORM = """[jobs.totals]
kind = "transform"
topic = "totals"
query = "SELECT key, value FROM given"
sink = {"sink.id" = "totals"}
[jobs.totals.inputs.given]
topics = ["orders"]
"""
RECORDS = 20
ACLS = "The pipeline on Spark"


@pytest.fixture(scope="module")
def secured(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with secured_cluster(authority, tmp_path_factory.mktemp("secured"), acls=ACLS, with_tokens=False) as made:
        records = numbered(RECORDS, partitions=1)
        produce(made.cluster.bootstrap, "orders", records[: RECORDS // 2], transactional_id="t")
        produce(made.cluster.bootstrap, "orders", records, transactional_id="t", abort=True)
        produce(made.cluster.bootstrap, "orders", records[RECORDS // 2 :], transactional_id="t")
        yield made


def job_file(secured: SecuredCluster, user: str, lake: Path, jobs: str, mechanism: str = "SCRAM-SHA-512") -> str:
    (password := lake / f"password-of-{user}").write_text(password_of(user), encoding="utf-8")
    return f"""
[cluster]
bootstrap_servers = "{secured.sasl_bootstrap}"
[cluster.security]
protocol = "SASL_SSL"
mechanism = "{mechanism}"
user = "{user}"
password_file = "{password}"
ca_file = "{secured.ca}"
[lake]
path = "{lake}"
{jobs.replace("{lake}", str(lake))}
"""


def run_all(spark: SparkSession, text: str) -> None:
    file = parse_job_file(text)
    for job in file.jobs.values():
        run_job(spark, file, job)


def test_an_archive_and_its_audit(
    spark: SparkSession,
    secured: SecuredCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The audit fetches what the aborted transaction has left in the log over a connection of its own."""
    run_all(spark, job_file(secured, "lake", tmp_path, ARCHIVE + AUDIT))
    assert "check: log and lake agree" in capsys.readouterr().out
    assert "its lag is not shown" not in caplog.text
    assert not secured.denials("lake")


def test_a_transform_by_the_command_line_whose_log_has_no_password(secured: SecuredCluster, tmp_path: Path) -> None:
    (file := tmp_path / "totals.toml").write_text(job_file(secured, "totals-job", tmp_path, TRANSFORM), encoding="utf-8")
    done = run(file)
    assert done.returncode == 0, done.stderr
    assert len(read_topic(secured.cluster.bootstrap, "totals")) == RECORDS
    assert not secured.denials("totals-job")
    (tmp_path / "password-of-totals-job").unlink()
    written = {str(path): path.read_bytes().decode("latin-1") for path in tmp_path.rglob("*") if path.is_file()}
    assert any("totals.log" in name for name in written)
    expect_no_secret(written | {"stdout": done.stdout, "stderr": done.stderr}, secured.secrets)


def test_a_sink_without_its_transactional_ids_says_so(spark: SparkSession, secured: SecuredCluster, tmp_path: Path) -> None:
    """Of all printed ACLs of the sink, this one is taken away."""
    (own,) = [each for each in printed_acls(ACLS) if "--transactional-id" in each]
    run_printed(secured.cluster.bootstrap, [["--remove", "--force", *own[1:]]])
    denied = "FindCoordinator is refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    other = TRANSFORM.replace('= "totals"}', '= "totals-2"}')
    try:
        with pytest.raises(PipelineError, match=f"totals: sink totals-2, epoch 0, task 0: {denied}"):
            run_all(spark, job_file(secured, "totals-job", tmp_path, other))
    finally:
        run_printed(secured.cluster.bootstrap, [own])


def test_a_wrong_password_is_told_in_a_sentence(secured: SecuredCluster, spark: SparkSession, tmp_path: Path) -> None:
    text = job_file(secured, "lake", tmp_path, ARCHIVE)
    (tmp_path / "password-of-lake").write_text("wrong", encoding="utf-8")
    with pytest.raises(PipelineError, match="SaslAuthentication"):
        run_all(spark, text)


def test_nothing_that_the_cluster_wrote_or_shows_has_a_secret(secured: SecuredCluster) -> None:
    """It comes last."""
    expect_no_secret(written_and_shown(secured.cluster), secured.secrets)
