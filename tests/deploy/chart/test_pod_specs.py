"""What values lay over the pods' specs, which hosts the pods share, and the pod that saves the metadata."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.chart.rendering import FULL_NAME, Object, containers, environment, of_kind, refusal, render, try_to_render

KINDS = ("storage", "controller", "groupCoordinator", "transactionCoordinator", "quotaManager", "gateway", "etcd")
PLACEMENT = ("nodeSelector", "tolerations", "affinity")
LAID_OVER: Object = {
    "priorityClassName": "important",
    "terminationGracePeriodSeconds": 7,
    "nodeSelector": {"disk": "nvme"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "affinity": {"podAffinity": {}},
    "volumes": [{"name": "more", "emptyDir": {}}, {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}],
}


def with_values(folder: Path, values: Object) -> list[Object]:
    path = folder / "values.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return render(["-f", str(path)])


def templates(objects: list[Object]) -> dict[str, Any]:
    return {name: each["spec"]["template"] for name, each in of_kind(objects, "StatefulSet").items()}


def test_one_map_is_laid_over_the_pods_of_each_kind(tmp_path: Path) -> None:
    given = {kind: {"podSpec": LAID_OVER, "podLabels": {"cost-center": "log"}} for kind in KINDS}
    before, after = templates(render()), templates(with_values(tmp_path, given))
    assert before.keys() == after.keys()
    for name, template in after.items():
        spec, former = template["spec"], before[name]["spec"]
        assert (spec["priorityClassName"], spec["terminationGracePeriodSeconds"]) == ("important", 7), name
        assert [spec[what] for what in PLACEMENT] == [LAID_OVER[what] for what in PLACEMENT], name
        assert not former.keys() & set(PLACEMENT), name
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        assert volumes["more"] == {"name": "more", "emptyDir": {}}, name
        assert volumes["tmp"] == {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}, name
        assert {volume["name"] for volume in former.get("volumes", [])} <= volumes.keys(), name
        assert spec["containers"] == former["containers"], name
        assert template["metadata"]["labels"] == {**before[name]["metadata"]["labels"], "cost-center": "log"}, name


def test_empty_values_of_an_older_chart_are_nothing(tmp_path: Path) -> None:
    """`helm upgrade --reuse-values` brings the defaults of the chart that was installed."""
    empty = {"nodeSelector": {}, "tolerations": [], "affinity": {}}
    former = {kind: empty if kind == "etcd" else {**empty, "extraEnv": []} for kind in KINDS if kind != "quotaManager"}
    assert templates(with_values(tmp_path, former)) == templates(render())


def test_a_container_of_the_chart_keeps_what_is_not_given(tmp_path: Path) -> None:
    own = {"name": "storage", "env": [{"name": "TZ", "value": "UTC"}], "livenessProbe": {"failureThreshold": 9}}
    sidecar = {"name": "sidecar", "image": "example.net/sidecar:1"}
    (before,) = templates(render())[f"{FULL_NAME}-storage"]["spec"]["containers"]
    objects = with_values(tmp_path, {"storage": {"podSpec": {"containers": [own, sidecar]}}})
    container, other = templates(objects)[f"{FULL_NAME}-storage"]["spec"]["containers"]
    assert environment(container) == {**environment(before), "TZ": "UTC"}
    assert container["livenessProbe"] == {**before["livenessProbe"], "failureThreshold": 9}
    assert {**container, "env": 0, "livenessProbe": 0} == {**before, "env": 0, "livenessProbe": 0}
    assert other == sidecar


def test_settings_do_not_come_by_a_pod_spec(tmp_path: Path) -> None:
    container = {"name": "gateway", "env": [{"name": "PENSTOCK_IDLE_S_MAX", "value": "1"}]}
    assert "gateway.podSpec has PENSTOCK_IDLE_S_MAX: give settings by gateway.config, as idle_s_max" in refusal(
        {"gateway": {"podSpec": {"containers": [container]}}}, tmp_path
    )


def test_the_charts_own_labels_cannot_be_replaced(tmp_path: Path) -> None:
    assert "podLabels" in refusal({"etcd": {"podLabels": {"penstock/set": "mine"}}}, tmp_path)


@pytest.mark.parametrize(
    ("values", "strict"),
    [
        ({}, {"storage", "etcd"}),
        (
            {"gateway": {"hostSpread": "DoNotSchedule"}, "etcd": {"hostSpread": "ScheduleAnyway"}},
            {"storage", "plaintext-gateway"},
        ),
    ],
)
def test_a_lost_host_takes_one_pod_of_etcd_and_of_storage_where_hosts_suffice(
    values: Object, strict: set[str], tmp_path: Path
) -> None:
    found = {name.removeprefix(f"{FULL_NAME}-"): spread(each) for name, each in templates(with_values(tmp_path, values)).items()}
    assert {name for name, (_, host) in found.items() if host == "DoNotSchedule"} == strict
    assert {zone for zone, _ in found.values()} == {"ScheduleAnyway"}


def spread(template: Object) -> tuple[str, str]:
    """What an unsatisfied spread over zones, and over hosts, means."""
    zone, host = template["spec"]["topologySpreadConstraints"]
    assert (host["topologyKey"], host["maxSkew"], host["nodeTaintsPolicy"]) == ("kubernetes.io/hostname", 1, "Honor")
    return zone["whenUnsatisfiable"], host["whenUnsatisfiable"]


def test_pods_that_are_not_ready_hold_up_no_drain_unless_they_have_data() -> None:
    budgets = of_kind(render(), "PodDisruptionBudget")
    policies = {name.removeprefix(f"{FULL_NAME}-"): each["spec"]["unhealthyPodEvictionPolicy"] for name, each in budgets.items()}
    assert {name for name, policy in policies.items() if policy == "IfHealthyBudget"} == {"storage", "etcd"}
    assert set(policies.values()) == {"IfHealthyBudget", "AlwaysAllow"}


def test_the_metadata_is_saved_by_a_job_that_keeps_the_newest_files(tmp_path: Path) -> None:
    objects = render(["--set", "metadataBackup.enabled=true,metadataBackup.keep=2"])
    (job,) = of_kind(objects, "CronJob").values()
    spec = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = containers(spec)
    (claim,) = of_kind(objects, "PersistentVolumeClaim").values()
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert spec["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    given = environment(container)
    assert given["ETCD"].count(":2379") == 3
    folder = tmp_path / "backups"
    folder.mkdir()
    for day in (1, 2, 3):
        (folder / f"metadata-2026010{day}T031700Z.backup").touch()
    (folder / "notes").touch()
    program = tmp_path / "python"
    program.write_text('#!/bin/sh\necho "$@" > "$CALLED"\ntouch "$6"\n', encoding="utf-8")
    program.chmod(0o755)
    environ = {**given, "FOLDER": str(folder), "PATH": f"{tmp_path}:/usr/bin:/bin", "CALLED": str(tmp_path / "called")}
    subprocess.run(container["command"], env=environ, check=True, timeout=60)
    called = (tmp_path / "called").read_text(encoding="utf-8").split()
    assert called[:5] == ["-m", "services.controller.recovery", "backup", "--etcd", given["ETCD"]]
    left = sorted(path.name for path in folder.iterdir())
    assert left[0] == "metadata-20260103T031700Z.backup"
    assert [Path(called[5]).name, "notes"] == left[1:]


def test_an_etcd_that_cannot_be_read_removes_no_backup(tmp_path: Path) -> None:
    (job,) = of_kind(render(["--set", "metadataBackup.enabled=true,metadataBackup.keep=1"]), "CronJob").values()
    (container,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    for day in (1, 2):
        (tmp_path / f"metadata-2026010{day}T031700Z.backup").touch()
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    program.chmod(0o755)
    environ = {**environment(container), "FOLDER": str(tmp_path), "PATH": f"{tmp_path}:/usr/bin:/bin"}
    assert subprocess.run(container["command"], env=environ, timeout=60).returncode == 1
    assert len(list(tmp_path.glob("*.backup"))) == 2


OF_A_CLUSTER = ("--api-versions", "apps/v1/StatefulSet")
"""A kind among the versions: Helm knows these of a cluster only."""


def test_a_plain_install_says_what_it_needs_before_pods_fail() -> None:
    done = try_to_render(OF_A_CLUSTER)
    assert done.returncode != 0
    assert "image.repository is penstock, which names no registry" in done.stderr
    assert "give image.repository=REGISTRY/penstock" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("--set", "image.repository=registry.example.net/penstock"),
        ("--set", "image.pullPolicy=Never"),
        ("--is-upgrade",),
    ],
)
def test_an_install_that_says_where_images_are_goes_on(arguments: tuple[str, ...]) -> None:
    assert try_to_render([*OF_A_CLUSTER, *arguments]).returncode == 0
