"""`make helm-test`: the chart on a Kubernetes that is there: install, `helm test`, an upgrade under load, storage 3 → 4 → 3.

It works in a namespace of its own, which it removes. Without a context it says NOT RUN, and ends well.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.deploy.chart.rendering import CHART, FULL_NAME, RELEASE
from tests.support.polling import eventually

NAMESPACE = "penstock-helm-test"
CLIENT_IMAGE = "python:3.11-slim-bookworm"
BOOTSTRAP = f"{FULL_NAME}-plaintext.{NAMESPACE}.svc.cluster.local:9092"
TRANSFERS = Path(__file__).with_name("transfers.py")
WAIT = ("--wait", "--timeout", "20m")


class Installation:
    """The release in its namespace."""

    def __init__(self, context: str, images: str) -> None:
        self._context, self._images = context, images

    def install(self) -> None:
        self._helm("install", RELEASE, str(CHART), "--create-namespace", "--set", f"image.repository={self._images}", *WAIT)

    def upgrade(self, *values: str) -> None:
        self._helm("upgrade", RELEASE, str(CHART), "--reuse-values", "--set", ",".join(values), *WAIT)

    def test(self) -> None:
        print(self._helm("test", RELEASE, "--logs"))

    def begin_load(self) -> None:
        """A client in a pod: `transfers.py`, with confluent-kafka from the registry that the pod reaches."""
        self.kubectl("create", "configmap", "load", f"--from-file=transfers.py={TRANSFERS}")
        program = f"pip install -q confluent-kafka && exec python /load/transfers.py {BOOTSTRAP} load"
        container = {
            "name": "load",
            "image": CLIENT_IMAGE,
            "command": ["sh", "-c", program],
            "volumeMounts": [{"name": "load", "mountPath": "/load"}],
        }
        spec = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 120,
            "containers": [container],
            "volumes": [{"name": "load", "configMap": {"name": "load"}}],
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "load"}, "spec": spec}
        self.kubectl("create", "-f", "-", given=json.dumps(pod))
        eventually(lambda: "the first record came back" in self.kubectl("logs", "load", "--tail=-1", fails=True), 180)

    def end_load(self) -> None:
        """Asserts that the client lost nothing and saw no error."""
        self.kubectl("exec", "load", "--", "sh", "-c", "kill -TERM 1")
        eventually(lambda: "{" in self.kubectl("logs", "load"), 120)
        said = json.loads(self.kubectl("logs", "load").splitlines()[-1])
        print(said)
        assert said["errors"] == []
        assert said["lost"] == 0

    def remove(self) -> None:
        self.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=10m")

    def kubectl(self, *arguments: str, given: str = "", fails: bool = False) -> str:
        command = ["kubectl", "--context", self._context, "--namespace", NAMESPACE, *arguments]
        return _run(command, given, fails)

    def _helm(self, *arguments: str) -> str:
        return _run(["helm", "--kube-context", self._context, "--namespace", NAMESPACE, *arguments], "", False)


def _run(command: Sequence[str], given: str, fails: bool) -> str:
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=1800)
    assert fails or done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
    return done.stdout


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="make helm-test", description=__doc__)
    parser.add_argument("--context", default="", help="a context of kubectl")
    parser.add_argument("--images", default="", help="what stands before /storage in the images' names")
    given = parser.parse_args(arguments)
    missing = [name for name in ("helm", "kubectl") if shutil.which(name) is None]
    if not given.context or not given.images:
        print("helm-test: NOT RUN. Give it a Kubernetes: make helm-test CONTEXT=name IMAGES=registry.example.net/penstock")
        return
    if missing:
        sys.exit(f"helm-test: no {' and no '.join(missing)} on PATH")
    run(Installation(given.context, given.images))


def run(installation: Installation) -> None:
    try:
        installation.install()
        installation.test()
        installation.begin_load()
        installation.upgrade("config.log_format=json")
        installation.upgrade("storage.replicas=4")
        installation.test()
        installation.upgrade("storage.replicas=3")
        installation.test()
        installation.end_load()
    finally:
        installation.remove()
    print("helm-test: passed")


if __name__ == "__main__":
    main()
