"""Jobs of the pipeline, as the chart renders them: the job file that their driver reads, and what it may do."""

import functools

import kubernetes_validate
import pytest
import yaml

from services.pipeline.job_file.file import JobFile, parse_job_file
from tests.deploy.chart.rendering import FULL_NAME, Object, of_kind, render, try_to_render, value_sets

DISTRIBUTED = f"{FULL_NAME}-pipeline-archive"
ALONE = f"{FULL_NAME}-pipeline-audit"


@functools.cache
def rendered() -> list[Object]:
    return render(value_sets()["pipeline"])


def job_file(name: str) -> JobFile:
    return parse_job_file(of_kind(rendered(), "ConfigMap")[name]["data"]["jobs.toml"])


def test_the_driver_s_job_file_names_the_release_s_own_cluster() -> None:
    file = job_file(DISTRIBUTED)
    assert file.cluster.bootstrap_servers == f"{FULL_NAME}-plaintext.streams.svc.cluster.local:9092"
    assert file.cluster.options == {"client.id": "archive"}
    assert (file.telemetry.metrics_host, file.telemetry.metrics_port) == ("0.0.0.0", 9600)
    assert file.telemetry.otlp_endpoint == "http://collector:4318/v1/traces"
    assert list(file.jobs) == ["orders"]


def test_a_job_with_executors_starts_them_as_pods_of_its_image() -> None:
    spark = job_file(DISTRIBUTED).spark
    assert spark.master == "k8s://https://kubernetes.default.svc"
    assert spark.config["spark.executor.instances"] == "2"
    assert spark.config["spark.executor.cores"] == "2"
    assert spark.config["spark.kubernetes.namespace"] == "streams"
    [driver] = of_kind(rendered(), "Deployment")[DISTRIBUTED]["spec"]["template"]["spec"]["containers"]
    assert spark.config["spark.kubernetes.container.image"] == driver["image"]
    assert {each["name"] for each in driver["env"]} >= {"POD_NAME", "SPARK_LOCAL_IP"}
    assert spark.config["spark.kubernetes.driver.pod.name"] == "${env:POD_NAME}"


def test_a_job_without_executors_has_no_rights() -> None:
    assert job_file(ALONE).spark.master == "local[*]"
    assert set(of_kind(rendered(), "Role")) == {DISTRIBUTED}
    pod = of_kind(rendered(), "CronJob")[ALONE]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == FULL_NAME
    assert [volume for volume in pod["volumes"] if "projected" in volume] == []


@pytest.mark.parametrize("kubernetes", ["1.28.0", "1.37.0"])
def test_the_template_of_executors_is_a_valid_pod(kubernetes: str) -> None:
    pod = yaml.safe_load(of_kind(rendered(), "ConfigMap")[DISTRIBUTED]["data"]["executor.yaml"])
    pod["metadata"]["name"] = "executor"  # Spark gives names and images
    pod["spec"]["containers"][0]["image"] = "penstock/pipeline"
    kubernetes_validate.validate(pod, kubernetes, strict=True)
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert pod["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True


def test_a_job_that_runs_once_has_a_name_of_its_release() -> None:
    [name] = [name for name in of_kind(rendered(), "Job") if "backfill" in name]
    assert name == f"{FULL_NAME}-pipeline-backfill-1"
    [driver] = of_kind(rendered(), "Job")[name]["spec"]["template"]["spec"]["containers"]
    assert driver["command"][-3:] == ["run", "/etc/penstock/jobs.toml", "orders"]


@pytest.mark.parametrize(
    ("job", "sentence"),
    [
        (
            "run=once,pipeline.jobs.a.file=[cluster]",
            "pipeline.jobs.a.file has [cluster], [spark] or [telemetry]: the chart writes",
        ),
        ("run=schedule,pipeline.jobs.a.file=x", "schedule"),
        ("run=sometimes,pipeline.jobs.a.file=x", "run"),
        ("run=once", "file"),
    ],
)
def test_a_wrong_job_is_refused(job: str, sentence: str) -> None:
    done = try_to_render(["--set", f"pipeline.jobs.a.{job}"])
    assert done.returncode != 0
    assert sentence in done.stderr
