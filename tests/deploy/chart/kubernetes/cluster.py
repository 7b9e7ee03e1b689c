"""The whole cluster: control plane, nodes in zones of their own, and volumes that are folders of their node."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from tests.deploy.chart.kubernetes.access import CONTEXT, Access
from tests.deploy.chart.kubernetes.control_plane import Programs, Users, start_api_server, start_controllers
from tests.deploy.chart.kubernetes.networks import Networks
from tests.deploy.chart.kubernetes.node import Node
from tests.deploy.chart.kubernetes.pause_image import write_pause_image
from tests.support.polling import eventually

VOLUMES = 8
VOLUME_SIZE = "10Gi"
STARTS_WITHIN_S = 180.0
SYSCTLS = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys",
           "kernel/keys/root_maxbytes")  # fmt: skip
"""What a kubelet changes for the whole machine."""


class KubernetesCluster:
    """Use as a context manager. `directory` must not exist, and its path must be short. With 0 nodes no pod runs."""

    def __init__(self, directory: Path, *, nodes: int, images: Sequence[Path] = ()) -> None:
        self.context, self.kubeconfig = CONTEXT, Path()
        self._directory, self._images, self._count = directory, images, nodes
        self._networks = Networks(nodes)
        self._nodes: list[Node] = []
        self._sysctls: dict[Path, str] = {}

    def __enter__(self) -> "KubernetesCluster":
        self._directory.mkdir(parents=True)
        self._programs = Programs(self._directory)
        self._sysctls = {
            path: path.read_text(encoding="utf-8") for path in (Path("/proc/sys") / name for name in SYSCTLS) if path.exists()
        }
        try:
            self._networks.__enter__()
            self._start()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for node in self._nodes:
            node.stop()
        self._programs.stop()
        self._networks.__exit__(kind, error, trace)
        for path, value in self._sysctls.items():
            path.write_text(value, encoding="utf-8")
        shutil.rmtree(self._directory, ignore_errors=True)

    def kubectl(self, *arguments: str, given: str = "") -> str:
        done = self._try_kubectl(*arguments, given=given)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def assert_running(self) -> None:
        self._programs.assert_running()
        for node in self._nodes:
            node.assert_running()

    def _start(self) -> None:
        access = Access(self._directory)
        access.make_certificate()
        self.kubeconfig = access.grant("penstock-test", "system:masters")
        for number in range(1, self._count + 1):
            self._nodes.append(Node(number, self._networks.inside_node(number), self._directory / f"node-{number}"))
        kubelets = [access.grant(f"system:node:{node.name}", "system:nodes") for node in self._nodes]
        proxy = access.grant("system:kube-proxy")
        users = Users.grant(access)
        control = self._networks.inside_control()
        start_api_server(self._programs, control, access, self._directory)
        eventually(self._api_is_ready, STARTS_WITHIN_S)
        start_controllers(self._programs, control, access, users, self._directory)
        for made in (_STORAGE_CLASS, *(volume for node in self._nodes for volume in _volumes(node))):
            self.kubectl("create", "-f", "-", given=json.dumps(made))
        self._load_images()
        for node, kubelet in zip(self._nodes, kubelets, strict=True):
            node.start(kubelet, proxy)
        eventually(self._nodes_are_ready, STARTS_WITHIN_S)

    def _load_images(self) -> None:
        if not self._nodes:
            return
        pause = self._directory / "pause.tar"
        write_pause_image(pause)
        for node in self._nodes:
            node.start_containerd()
        for node in self._nodes:
            eventually(node.containerd_answers)
            for archive in (pause, *self._images):
                node.import_images(archive)

    def _api_is_ready(self) -> bool:
        self._programs.assert_running()
        return self._try_kubectl("get", "--raw=/readyz").returncode == 0

    def _nodes_are_ready(self) -> bool:
        self.assert_running()
        status = "{range .items[*].status.conditions[?(@.type=='Ready')]}{.status} {end}"
        return self.kubectl("get", "nodes", f"-o=jsonpath={status}").split() == ["True"] * self._count

    def _try_kubectl(self, *arguments: str, given: str = "") -> "subprocess.CompletedProcess[str]":
        command = ["kubectl", f"--kubeconfig={self.kubeconfig}", *arguments]
        return subprocess.run(command, input=given, capture_output=True, encoding="utf-8", timeout=120, check=False)


_STORAGE_CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "local", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def _volumes(node: Node) -> list[dict[str, object]]:
    """They belong to root, as a new disk does: the kubelet gives them to the group that the pod asks for."""
    made: list[dict[str, object]] = []
    for number in range(VOLUMES):
        path = node.volumes / str(number)
        path.mkdir(parents=True)
        term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node.name]}]}
        spec = {
            "capacity": {"storage": VOLUME_SIZE},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "local",
            "local": {"path": str(path)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        }
        made.append({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"{node.name}-{number}"}, "spec": spec})
    return made
