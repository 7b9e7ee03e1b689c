"""What an upgrade of a release that runs must refuse, since Kubernetes or the cluster could not follow; and which jobs it runs.

Helm looks at the running StatefulSets. Here it reads them from files in a copy of the chart.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.deploy.chart.rendering import CHART, FULL_NAME, LOADER, NAMESPACE, RELEASE, Object, helm, of_kind, render

LOOKUP = 'lookup "apps/v1" "StatefulSet" .root.Release.Namespace .name | toJson'
FROM_FILE = '.root.Files.Get (printf "running/%s.json" .name) | default "{}"'

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
}


@pytest.fixture
def running(tmp_path: Path) -> Path:
    """The chart, where it sees a release with the default values."""
    chart = tmp_path / "penstock"
    shutil.copytree(CHART, chart)
    template = chart / "templates" / "_running.tpl"
    text = template.read_text()
    assert text.count(LOOKUP) == 1
    template.write_text(text.replace(LOOKUP, FROM_FILE))
    (chart / "running").mkdir()
    for name, each in of_kind(render(), "StatefulSet").items():
        (chart / "running" / f"{name}.json").write_text(json.dumps(each))
    return chart


def upgrade(chart: Path, values: str) -> "subprocess.CompletedProcess[str]":
    return helm("template", RELEASE, str(chart), "--namespace", NAMESPACE, "--kube-version", "1.33.0", "--set", values)


def objects(chart: Path, values: str) -> list[Object]:
    done = upgrade(chart, values)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.load_all(done.stdout, Loader=LOADER) if each]


@pytest.mark.parametrize("name", REFUSALS)
def test_a_change_that_cannot_be_made_is_refused(name: str, running: Path) -> None:
    values, words = REFUSALS[name]
    done = upgrade(running, values)
    assert done.returncode != 0
    assert words in done.stderr


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
