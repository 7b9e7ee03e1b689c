"""What an upgrade of a release that runs must refuse, since Kubernetes or the cluster could not follow; and which jobs it runs.

Helm lists the StatefulSets of the namespace. Here it reads the list from a file in a copy of the chart.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.deploy.chart.rendering import CHART, FULL_NAME, LOADER, NAMESPACE, RELEASE, Object, helm, of_kind, render

LOOKUP = '(lookup "apps/v1" "StatefulSet" .Release.Namespace "")'
FROM_FILE = '(.Files.Get "running.json" | fromJson)'
PLAIN = {"name": "PLAINTEXT", "type": "ClusterIP", "portBase": 9092}
INSIDE, LATER = {**PLAIN, "name": "INSIDE", "portBase": 9192}, {**PLAIN, "name": "LATER", "portBase": 9392}
EXTERNAL = ["--set", "etcd.enabled=false,etcd.external.endpoints={a.example.net:2379,b.example.net:2379}"]

REFUSALS = {
    "larger volumes of storage": (
        "storage.persistence.size=20Gi",
        f"storage.persistence.size is 20Gi, and the volumes of {FULL_NAME}-storage have 10Gi: Kubernetes changes no volumes",
    ),
    "larger volumes of etcd": ("etcd.persistence.size=9Gi", f"the volumes of {FULL_NAME}-etcd have 8Gi"),
    "another class of volumes": (
        "controller.persistence.storageClass=fast",
        f'controller.persistence.storageClass is "fast", and the volumes of {FULL_NAME}-controller have "": '
        "Kubernetes moves no volume to another class",
    ),
    "more members of etcd": (
        "etcd.replicas=5",
        "etcd.replicas is 5, and 3 members run: their number is fixed when the release is installed",
    ),
    "another etcd": (
        "etcd.enabled=false,etcd.external.endpoints={etcd.example.net:2379}",
        "etcd.enabled is false, and the metadata of this release is in the etcd that it runs: expected true",
    ),
    "TLS between pods, where they run without": (
        "rpcTls.enabled=true",
        "rpcTls.enabled is true, and the pods of this release run with false: pods with TLS and pods without do not understand",
    ),
    "TLS of etcd, which runs without": (
        "etcd.tls.enabled=true",
        "etcd.tls.enabled is true, and etcd of this release runs with false: members with TLS and members without do not",
    ),
    "another name": (
        "fullnameOverride=other",
        f"the release runs {FULL_NAME}-controller, and these values name it other-controller: the names of a release are fixed",
    ),
}

CHANGED_ETCDS = {
    "an external etcd that vanishes": (
        [],
        "the metadata of this release is in the etcd at a.example.net:2379,b.example.net:2379, and these values name the one at "
        f"{FULL_NAME}-etcd-0.",
    ),
    "another external etcd": (
        ["--set", "etcd.enabled=false,etcd.external.endpoints={c.example.net:2379}"],
        "and these values name the one at c.example.net:2379: give etcd.enabled and etcd.external.endpoints as they were",
    ),
}

CHANGED_LISTENERS = {
    "the first removed": (
        [INSIDE, LATER],
        "listeners[0] (INSIDE): its gateways run with the ids from 101 on, and at this position they would have those from 1 on",
    ),
    "two exchanged": ([PLAIN, LATER, INSIDE], "listeners[1] (LATER): its gateways run with the ids from 201 on"),
}


@pytest.fixture
def running(tmp_path: Path) -> Path:
    """The chart, where it sees a release with the default values."""
    return chart_that_sees(render(), tmp_path)


def chart_that_sees(release: list[Object], folder: Path) -> Path:
    """A copy of the chart, in whose namespace a release and a stranger's StatefulSet run."""
    chart = folder / "penstock"
    shutil.copytree(CHART, chart)
    template = chart / "templates" / "_running.tpl"
    text = template.read_text(encoding="utf-8")
    assert text.count(LOOKUP) == 1
    template.write_text(text.replace(LOOKUP, FROM_FILE), encoding="utf-8")
    stranger = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "stranger"}, "spec": {"replicas": 1}}
    (chart / "running.json").write_text(
        json.dumps({"items": [stranger, *of_kind(release, "StatefulSet").values()]}), encoding="utf-8"
    )
    return chart


def upgrade(chart: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return helm("template", RELEASE, str(chart), "--namespace", NAMESPACE, "--kube-version", "1.33.0", *arguments)


def with_listeners(listeners: list[Object], folder: Path) -> list[str]:
    """Helm's arguments for these listeners."""
    file = folder / "listeners.yaml"
    file.write_text(yaml.safe_dump({"listeners": listeners}), encoding="utf-8")
    return ["-f", str(file)]


def objects(chart: Path, values: str) -> list[Object]:
    done = upgrade(chart, "--set", values)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.load_all(done.stdout, Loader=LOADER) if each]


@pytest.mark.parametrize("name", REFUSALS)
def test_a_change_that_cannot_be_made_is_refused(name: str, running: Path) -> None:
    values, words = REFUSALS[name]
    done = upgrade(running, "--set", values)
    assert done.returncode != 0
    assert words in done.stderr


@pytest.mark.parametrize("name", CHANGED_ETCDS)
def test_another_etcd_than_the_one_with_the_metadata_is_refused(name: str, tmp_path: Path) -> None:
    arguments, words = CHANGED_ETCDS[name]
    done = upgrade(chart_that_sees(render(EXTERNAL), tmp_path), *arguments)
    assert done.returncode != 0
    assert words in done.stderr


def test_tls_between_pods_stays(tmp_path: Path) -> None:
    chart = chart_that_sees(render(["--set", "rpcTls.enabled=true"]), tmp_path)
    assert upgrade(chart, "--set", "rpcTls.enabled=true").returncode == 0
    assert "rpcTls.enabled is false, and the pods of this release run with true" in upgrade(chart).stderr


def test_tls_of_etcd_stays(tmp_path: Path) -> None:
    chart = chart_that_sees(render(["--set", "etcd.tls.enabled=true"]), tmp_path)
    assert upgrade(chart, "--set", "etcd.tls.enabled=true").returncode == 0
    assert "etcd.tls.enabled is false, and etcd of this release runs with true" in upgrade(chart).stderr


def test_a_member_of_an_external_etcd_may_be_replaced(tmp_path: Path) -> None:
    moved = "etcd.enabled=false,etcd.external.endpoints={b.example.net:2379,c.example.net:2379}"
    done = upgrade(chart_that_sees(render(EXTERNAL), tmp_path), "--set", moved)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", CHANGED_LISTENERS)
def test_listeners_that_would_renumber_gateways_are_refused(name: str, tmp_path: Path) -> None:
    listeners, words = CHANGED_LISTENERS[name]
    chart = chart_that_sees(render(with_listeners([PLAIN, INSIDE, LATER], tmp_path)), tmp_path)
    done = upgrade(chart, *with_listeners(listeners, tmp_path))
    assert done.returncode != 0
    assert words in done.stderr


@pytest.mark.parametrize("listeners", [[PLAIN, INSIDE], [PLAIN, INSIDE, LATER, {**PLAIN, "name": "NEW", "portBase": 9492}]])
def test_listeners_come_and_go_at_the_end(listeners: list[Object], tmp_path: Path) -> None:
    chart = chart_that_sees(render(with_listeners([PLAIN, INSIDE, LATER], tmp_path)), tmp_path)
    done = upgrade(chart, *with_listeners(listeners, tmp_path))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "values",
    ["config.log_format=json", "storage.replicas=4", "storage.persistence.size=10240Mi", "etcd.persistence.size=8388608Ki"],
)
def test_a_change_that_can_be_made_is_not(values: str, running: Path) -> None:
    assert not of_kind(objects(running, values), "Job")


def test_fewer_storage_nodes_are_emptied_before_and_unregistered_after(running: Path) -> None:
    jobs = of_kind(objects(running, "storage.replicas=2"), "Job")
    hooks = {name: job["metadata"]["annotations"]["helm.sh/hook"] for name, job in jobs.items()}
    assert hooks == {f"{FULL_NAME}-decommission": "pre-upgrade", f"{FULL_NAME}-forget": "post-upgrade"}
