"""Names and labels of the chart's objects have room in Kubernetes, also where all that users choose is as long as can be.

Kubernetes takes an object with a longer name, and then makes no pods of it: it cannot label them.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.deploy.chart.rendering import CHART, Object, helm, of_kind, pod_specs, refusal, render

LABEL = 63
REVISION = len("-") + 10
"""A StatefulSet labels its pods with its name and their revision, whose hash has 10 characters at most."""
LONGEST = {"StatefulSet": LABEL - REVISION, "CronJob": LABEL - REVISION, "Service": LABEL, "Job": LABEL}
ROOM_FOR_NAME = 28
LISTENER = "L" * 15
JOB = {"file": "[jobs.audit]", "run": "schedule", "schedule": "0 3 * * *"}


def named(release: str) -> "subprocess.CompletedProcess[str]":
    return helm("template", release, str(CHART), "--namespace", "streams", "--kube-version", "1.33.0")


def values(fullname: str, listener: str, job: str) -> Object:
    listeners = [{"name": listener, "type": "ClusterIP", "portBase": 9092}]
    return {"fullnameOverride": fullname, "listeners": listeners, "pipeline": {"jobs": {job: JOB}}}


@pytest.mark.parametrize("fullname", ["a", "a" * ROOM_FOR_NAME])
@pytest.mark.parametrize("listener", ["L", LISTENER])
def test_every_name_and_label_has_room(fullname: str, listener: str, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values(fullname, listener, "j" * 14)), encoding="utf-8")
    objects = render(["-f", str(file)])
    too_long = [f"{each['kind']} {name}" for each, name in _names(objects) if len(name) > LONGEST.get(each["kind"], 253)]
    assert too_long == []
    labels = [label for _, pod_labels, _ in pod_specs(objects) for label in pod_labels.values()]
    labels += [label for each in objects for label in each["metadata"].get("labels", {}).values()]
    assert [label for label in labels if len(label) > LABEL] == []
    assert of_kind(objects, "CronJob"), "there are names of each kind"


def _names(objects: list[Object]) -> Iterator[tuple[Object, str]]:
    return ((each, each["metadata"]["name"]) for each in objects)


def test_the_longest_name_of_a_release_is_taken_and_a_longer_one_is_refused() -> None:
    assert named("r" * (ROOM_FOR_NAME - len("-penstock"))).returncode == 0
    done = named("r" * (ROOM_FOR_NAME - len("-penstock") + 1))
    assert done.returncode != 0
    assert "which has 29 characters; expected 28 at most" in done.stderr
    assert "choose a shorter name of the release, or give fullnameOverride" in done.stderr


def test_a_cron_job_whose_name_is_too_long_is_refused(tmp_path: Path) -> None:
    said = refusal(values("a" * ROOM_FOR_NAME, "L", "j" * 15), tmp_path)
    assert "has 53 characters; expected 52 at most: choose a shorter name of the job" in said
