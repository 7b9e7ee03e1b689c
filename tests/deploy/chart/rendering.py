"""The chart as Helm renders it: a list of objects for a set of values."""

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.support.helm_tool import install_helm
from tests.support.requirements import ROOT, require

CHART = ROOT / "charts" / "penstock"
RELEASE, NAMESPACE = "demo", "streams"
FULL_NAME = f"{RELEASE}-penstock"

Object = dict[str, Any]

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The one in C, where PyYAML was built with it: ten times as fast."""


def value_sets() -> dict[str, tuple[str, ...]]:
    """By name, Helm's arguments: the defaults, and each file of the chart's `ci/`."""
    files = {path.name.removesuffix("-values.yaml"): ("-f", str(path)) for path in sorted((CHART / "ci").glob("*-values.yaml"))}
    return {"default": (), **files}


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    require("helm")
    return subprocess.run([install_helm(ROOT), *arguments], capture_output=True, encoding="utf-8", timeout=60)


def try_to_render(arguments: Sequence[str], kubernetes: str = "1.33.0") -> subprocess.CompletedProcess[str]:
    return helm("template", RELEASE, str(CHART), "--namespace", NAMESPACE, "--kube-version", kubernetes, *arguments)


def render(arguments: Sequence[str] = (), kubernetes: str = "1.33.0") -> list[Object]:
    """Hooks and tests are among them."""
    done = try_to_render(arguments, kubernetes)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.load_all(done.stdout, Loader=LOADER) if each]


def notes(arguments: Sequence[str], folder: Path) -> str:
    """NOTES.txt, which Helm renders only for a cluster: here as a comment of a copy of the chart."""
    copy = folder / "penstock"
    shutil.copytree(CHART, copy)
    text = copy / "templates" / "NOTES.txt"
    (copy / "templates" / "notes.yaml").write_text(
        "".join(f"# {line}\n" for line in text.read_text(encoding="utf-8").splitlines()), encoding="utf-8"
    )
    text.unlink()
    done = helm(
        "template", RELEASE, str(copy), "-n", NAMESPACE, "--kube-version", "1.33.0", "-s", "templates/notes.yaml", *arguments
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def refusal(values: Object, folder: Path) -> str:
    """Helm's words about values that it must refuse."""
    path = folder / "values.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    done = try_to_render(["-f", str(path)])
    assert done.returncode != 0, "these values were accepted"
    return done.stderr.strip()


def of_kind(objects: Sequence[Object], kind: str) -> dict[str, Object]:
    return {each["metadata"]["name"]: each for each in objects if each["kind"] == kind}


def pod_specs(objects: Sequence[Object]) -> Iterator[tuple[str, Object, Object]]:
    """Name, labels and spec of each kind of pod."""
    for each in objects:
        where = f"{each['kind']} {each['metadata']['name']}"
        if each["kind"] == "Pod":
            yield where, each["metadata"].get("labels", {}), each["spec"]
        elif each["kind"] == "CronJob":
            template = each["spec"]["jobTemplate"]["spec"]["template"]
            yield where, template["metadata"].get("labels", {}), template["spec"]
        elif "template" in each.get("spec", {}):
            template = each["spec"]["template"]
            yield where, template["metadata"].get("labels", {}), template["spec"]


def containers(spec: Object) -> list[Object]:
    return [*spec.get("initContainers", []), *spec["containers"]]


def environment(container: Object) -> dict[str, str]:
    """The variables that have a value of their own."""
    return {each["name"]: each["value"] for each in container.get("env", []) if "value" in each}
