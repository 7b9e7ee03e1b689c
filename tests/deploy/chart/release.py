"""The chart as a release in a namespace of its own, by Helm and kubectl. The namespace lets in restricted pods only."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.deploy.chart.rendering import CHART, FULL_NAME, RELEASE
from tests.support.helm_tool import install_helm
from tests.support.requirements import ROOT

NAMESPACE = "penstock-helm-test"
BOOTSTRAP = f"{FULL_NAME}-plaintext.{NAMESPACE}.svc.cluster.local:9092"
WAIT = ("--wait", "--timeout", "20m")
WITHIN_S = 1800.0


class Release:
    """Of a Kubernetes, by a context of kubectl. `kubeconfig`: None for kubectl's own choice."""

    def __init__(self, context: str, kubeconfig: Path | None = None) -> None:
        self._helm_binary = str(install_helm(ROOT))
        self._context = context
        self._environment = {**os.environ, **({"KUBECONFIG": str(kubeconfig)} if kubeconfig else {})}

    def make_namespace(self) -> None:
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}
        self.kubectl("create", "-f", "-", given=json.dumps(made))

    def install(self, *values: str) -> str:
        return self.helm("install", RELEASE, str(CHART), *_set(values), *WAIT)

    def upgrade(self, *values: str) -> str:
        return self.helm("upgrade", RELEASE, str(CHART), "--reuse-values", *_set(values), *WAIT)

    def roll_back(self) -> str:
        """To the revision before this one."""
        return self.helm("rollback", RELEASE, *WAIT)

    def test(self) -> str:
        return self.helm("test", RELEASE, "--logs")

    def uninstall(self) -> None:
        self.helm("uninstall", RELEASE)
        selector = f"app.kubernetes.io/instance={RELEASE},penstock/set"  # the pods of hooks belong to no set, and stay
        self.kubectl("wait", "--for=delete", "pod", f"--selector={selector}", "--timeout=5m")

    def remove(self) -> None:
        self.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=10m")

    def await_rollouts(self) -> None:
        """All pods of all sets are ready, and of the newest revision."""
        for name in self.kubectl("get", "statefulset", "--output=name").split():
            self.kubectl("rollout", "status", name, "--timeout=10m")

    def helm(self, *arguments: str) -> str:
        return self._run([self._helm_binary, "--kube-context", self._context, "--namespace", NAMESPACE, *arguments])

    def kubectl(self, *arguments: str, given: str = "") -> str:
        return self._run([*self.kubectl_command(), *arguments], given)

    def kubectl_command(self) -> list[str]:
        return ["kubectl", "--context", self._context, "--namespace", NAMESPACE]

    @property
    def environment(self) -> dict[str, str]:
        return self._environment

    def _run(self, command: Sequence[str], given: str = "") -> str:
        done = subprocess.run(
            command, input=given, capture_output=True, encoding="utf-8", timeout=WITHIN_S, env=self._environment, check=False
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
        return done.stdout


def _set(values: Sequence[str]) -> list[str]:
    return ["--set", ",".join(values)] if values else []
