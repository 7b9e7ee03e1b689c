"""A current Helm lints the chart, refuses what the old one refuses, and renders the same objects."""

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.deploy.chart.rendering import CHART, LOADER, NAMESPACE, RELEASE, Object, render, value_sets
from tests.support.helm_tool import CURRENT, install_current_helm
from tests.support.requirements import ROOT, require

everywhere = pytest.mark.parametrize("name", value_sets())


@pytest.fixture(scope="module")
def helm() -> Path:
    require("helm")
    return install_current_helm(ROOT)


def run(helm: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([helm, *arguments], capture_output=True, encoding="utf-8", timeout=120, check=False)


def rendered(helm: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return run(helm, "template", RELEASE, str(CHART), "--namespace", NAMESPACE, "--kube-version", "1.33.0", *arguments)


def by_name(objects: list[Object]) -> dict[tuple[str, str], Object]:
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def test_it_is_the_version_that_is_meant(helm: Path) -> None:
    """Behind it stands the commit."""
    assert run(helm, "version", "--short").stdout.partition("+")[0] == f"v{CURRENT}"


@everywhere
def test_the_chart_passes_its_lint(helm: Path, name: str) -> None:
    done = run(helm, "lint", "--strict", str(CHART), *value_sets()[name])
    assert done.returncode == 0, done.stdout + done.stderr


@everywhere
def test_it_renders_what_the_old_one_renders(helm: Path, name: str) -> None:
    done = rendered(helm, *value_sets()[name])
    assert done.returncode == 0, done.stderr
    objects = [each for each in yaml.load_all(done.stdout, Loader=LOADER) if each]
    assert by_name(objects) == by_name(render(value_sets()[name]))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("storage.nodeSelector.disk=nvme", "storage.nodeSelector is no value of this chart any more"),
        ("storage.replicas=11", "storage.replicas is 11, more than storage.maxReplicas, which is 10"),
        ("storag.replicas=3", "storag"),
    ],
)
def test_it_refuses_in_the_same_words(helm: Path, value: str, words: str) -> None:
    done = rendered(helm, "--set", value)
    assert done.returncode != 0
    assert words in done.stderr
