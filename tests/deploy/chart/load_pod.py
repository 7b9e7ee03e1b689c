"""A client in a pod beside the release: `transfers.py`, until it is told to end."""

import json
import subprocess
from pathlib import Path

from tests.deploy.chart.release import BOOTSTRAP, Release

TRANSFERS = Path(__file__).with_name("transfers.py")
PROGRAM = f"""
python -c 'import confluent_kafka' 2> /dev/null || pip install -q --target /tmp/packages confluent-kafka
exec python /load/transfers.py {BOOTSTRAP} "$0"
"""


class LoadPod:
    """`image` has Python. Unless it has confluent-kafka, the pod gets that from the registry that it reaches."""

    def __init__(self, release: Release, image: str, name: str) -> None:
        self._release, self._image, self._name = release, image, name

    def begin(self, begun: str) -> None:
        """Returns when the client has said `begun`."""
        self._release.kubectl("create", "configmap", self._name, f"--from-file=transfers.py={TRANSFERS}")
        self._release.kubectl("create", "-f", "-", given=json.dumps(_pod(self._name, self._image)))
        self._release.kubectl("wait", "--for=condition=Ready", f"pod/{self._name}", "--timeout=5m")
        command = [*self._release.kubectl_command(), "logs", "--follow", self._name]
        with subprocess.Popen(command, env=self._release.environment, stdout=subprocess.PIPE, encoding="utf-8") as following:
            assert following.stdout is not None
            seen = next((line for line in following.stdout if begun in line), None)
            following.terminate()
        assert seen, self._release.kubectl("logs", self._name)

    def node(self) -> str:
        return self._release.kubectl("get", "pod", self._name, "--output=jsonpath={.spec.nodeName}")

    def end(self) -> dict[str, object]:
        """Its last word: what it sent, and what became of it."""
        self._release.kubectl("exec", self._name, "--", "sh", "-c", "kill -TERM 1")
        self._release.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", f"pod/{self._name}", "--timeout=3m")
        said: dict[str, object] = json.loads(self._release.kubectl("logs", self._name).splitlines()[-1])
        self._release.kubectl("delete", "pod,configmap", self._name)
        return said


def _pod(name: str, image: str) -> dict[str, object]:
    container = {
        "name": "load",
        "image": image,
        "command": ["sh", "-c", PROGRAM, name],
        "env": [{"name": "PYTHONPATH", "value": "/tmp/packages"}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "load", "mountPath": "/load"}],
    }
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 120,
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": "load", "configMap": {"name": name}}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
