"""etcd, the API server, the controller manager, the scheduler and DNS, as processes in the namespace of the control plane."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from services.local.etcd_setup import etcd_binary
from tests.deploy.chart.kubernetes.access import Access
from tests.deploy.chart.kubernetes.binaries import BINARIES
from tests.deploy.chart.kubernetes.networks import CONTROL_ADDRESS, SERVICES
from tests.support.requirements import ROOT

STOP_S = 20.0
FEATURES = "PodTopologyLabelsAdmission=true"
"""On by default from Kubernetes 1.35 on: pods get the zone of their node as a label."""
ACCOUNTS = "--use-service-account-credentials"
"""Without it the controllers may do nothing: the rights are their accounts', not their program's."""
CORE_FILE = """
.:53 {
    bind ADDRESS
    errors
    ready ADDRESS:8181
    kubernetes cluster.local in-addr.arpa {
        kubeconfig KUBECONFIG
        ttl 30
    }
    cache 30
    loadbalance
}
"""
"""The times are those that distributions give CoreDNS."""


class Programs:
    """Processes that end together."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        with open(self._logs / f"{name}.log", "ab") as log:
            self._running[name] = subprocess.Popen(
                command,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def assert_running(self) -> None:
        for name, process in self._running.items():
            log = self._logs / f"{name}.log"
            assert process.poll() is None, f"{name} ended with {process.returncode}:\n{log.read_text(encoding='utf-8')[-3000:]}"

    def stop(self) -> None:
        """From the last that was started to the first."""
        for process in reversed(self._running.values()):
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()


def start_api_server(programs: Programs, inside: Sequence[str], access: Access, directory: Path) -> None:
    """With its etcd. `inside` is the command that enters the namespace. All users must have been granted their access."""
    client, peer, data = "http://127.0.0.1:2379", "http://127.0.0.1:2380", directory / "etcd"
    addresses = (f"--listen-client-urls={client}", f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}")
    programs.start("etcd", [*inside, str(etcd_binary(ROOT)), f"--data-dir={data}", *addresses, "--unsafe-no-fsync"])
    programs.start("kube-apiserver", [*inside, *_api_server(access)])


def start_controllers(programs: Programs, inside: Sequence[str], access: Access, users: "Users", directory: Path) -> None:
    """Once the API server is ready: what acts on its objects, and DNS."""
    alone = ("--leader-elect=false", "--bind-address=127.0.0.1")
    keys = (f"--service-account-private-key-file={access.key}", f"--root-ca-file={access.certificate}", ACCOUNTS)
    manager = [str(BINARIES / "kube-controller-manager"), f"--kubeconfig={users.manager}", *alone, *keys]
    programs.start("kube-controller-manager", [*inside, *manager])
    programs.start("kube-scheduler", [*inside, str(BINARIES / "kube-scheduler"), f"--kubeconfig={users.scheduler}", *alone])
    core_file = directory / "Corefile"
    core_file.write_text(CORE_FILE.replace("ADDRESS", CONTROL_ADDRESS).replace("KUBECONFIG", str(users.dns)), encoding="utf-8")
    programs.start("coredns", [*inside, str(BINARIES / "coredns"), "-conf", str(core_file)])


class Users(NamedTuple):
    """The kubeconfigs of these programs."""

    manager: Path
    scheduler: Path
    dns: Path

    @classmethod
    def grant(cls, access: Access) -> "Users":
        manager, scheduler = "system:kube-controller-manager", "system:kube-scheduler"
        return cls(access.grant(manager), access.grant(scheduler), access.grant("penstock-test-dns", "system:masters"))


def _api_server(access: Access) -> list[str]:
    return [
        str(BINARIES / "kube-apiserver"),
        "--etcd-servers=http://127.0.0.1:2379",
        "--bind-address=0.0.0.0",
        f"--advertise-address={CONTROL_ADDRESS}",
        f"--service-cluster-ip-range={SERVICES}",
        f"--tls-cert-file={access.certificate}",
        f"--tls-private-key-file={access.key}",
        f"--token-auth-file={access.tokens}",
        "--kubelet-preferred-address-types=InternalIP",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={access.key}",
        f"--service-account-signing-key-file={access.key}",
        "--allow-privileged",
        f"--feature-gates={FEATURES}",
    ]
