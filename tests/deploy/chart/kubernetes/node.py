"""One node: containerd, a kubelet and kube-proxy, in a network namespace. Pods are real containers, in a cgroup of the node."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.deploy.chart.kubernetes.binaries import BINARIES
from tests.deploy.chart.kubernetes.control_plane import Programs
from tests.deploy.chart.kubernetes.networks import CONTROL_ADDRESS, PODS, node_address, pod_range
from tests.deploy.chart.kubernetes.pause_image import PAUSE_IMAGE

CGROUPS = Path("/sys/fs/cgroup")
CGROUP = "penstock-kubernetes"
ZONES = "abc"
IMPORT_S = 600.0


class Node:
    """`directory` holds all that it writes. Its path must be short: containerd's sockets lie below it."""

    def __init__(self, number: int, inside: Sequence[str], directory: Path) -> None:
        self.name = f"node-{number}"
        self.zone = f"zone-{ZONES[(number - 1) % len(ZONES)]}"
        self.volumes = directory / "volumes"
        self._number, self._inside, self._directory = number, list(inside), directory
        self._socket = directory / "containerd.sock"
        directory.mkdir()
        self._programs = Programs(directory)

    def start_containerd(self) -> None:
        config = self._directory / "containerd.toml"
        config.write_text(_containerd_config(self._directory, self._socket), encoding="utf-8")
        network = self._directory / "cni"
        network.mkdir()
        (network / "10-pods.conflist").write_text(json.dumps(_pod_network(self._number, self._directory)), encoding="utf-8")
        self._programs.start("containerd", [*self._inside, "containerd", f"--config={config}"])

    def containerd_answers(self) -> bool:
        self._programs.assert_running()
        return self._ctr("version").returncode == 0

    def import_images(self, archive: Path) -> None:
        """An archive of `docker save`."""
        done = self._ctr("--namespace=k8s.io", "images", "import", str(archive))
        assert done.returncode == 0, done.stderr

    def start(self, kubelet_access: Path, proxy_access: Path) -> None:
        _make_cgroup(f"{CGROUP}/{self.name}")
        kubelet = self._directory / "kubelet.json"
        kubelet.write_text(json.dumps(_kubelet_config(self._number, self.name, self._directory, self._socket)), encoding="utf-8")
        self._programs.start(
            "kubelet",
            [*self._inside, str(BINARIES / "kubelet"), f"--config={kubelet}", f"--kubeconfig={kubelet_access}",
             f"--root-dir={self._directory}/kubelet", f"--cert-dir={self._directory}/kubelet-pki",
             f"--hostname-override={self.name}", f"--node-ip={node_address(self._number)}",
             f"--node-labels=topology.kubernetes.io/zone={self.zone}"],
        )  # fmt: skip
        proxy = self._directory / "proxy.json"
        proxy.write_text(json.dumps(_proxy_config(self.name, proxy_access)), encoding="utf-8")
        self._programs.start("kube-proxy", [*self._inside, str(BINARIES / "kube-proxy"), f"--config={proxy}"])

    def assert_running(self) -> None:
        self._programs.assert_running()

    def stop(self) -> None:
        """Nothing of it is left: no process, no mount, no cgroup."""
        self._programs.stop()
        for pid in _processes_of(self._socket):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _remove_cgroup(f"{CGROUP}/{self.name}")
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
        for mount in sorted((each for each in mounts if each.startswith(f"{self._directory}/")), reverse=True):
            subprocess.run(["umount", "--lazy", mount], check=False, capture_output=True, timeout=60)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _ctr(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["ctr", f"--address={self._socket}", *arguments], capture_output=True, encoding="utf-8", timeout=IMPORT_S, check=False
        )


def _containerd_config(directory: Path, socket: Path) -> str:
    return f"""
version = 2
root = "{directory}/containerd"
state = "{directory}/run"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs"]
[grpc]
address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
path = "{directory}/opt"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE_IMAGE}"
# Some virtual machines keep CAP_SYS_RESOURCE from root: then no process may get a lower score than this one's.
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{BINARIES}"
conf_dir = "{directory}/cni"
"""


def _pod_network(number: int, directory: Path) -> dict[str, object]:
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": pod_range(number)}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": f"{directory}/addresses",
    }
    bridge = {"type": "bridge", "bridge": "pods", "isGateway": True, "hairpinMode": True, "ipam": addresses}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}


def _kubelet_config(number: int, name: str, directory: Path, socket: Path) -> dict[str, object]:
    resolver = directory / "resolv.conf"
    resolver.write_text("", encoding="utf-8")
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node_address(number),
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix://{socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{CGROUP}/{name}",
        "enforceNodeAllocatable": ["none"],
        "failSwapOn": False,
        "clusterDNS": [CONTROL_ADDRESS],
        "clusterDomain": "cluster.local",
        "resolvConf": str(resolver),
        "volumePluginDir": f"{directory}/volume-plugins",
        "podLogsDir": f"{directory}/pod-logs",
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
    }


def _proxy_config(name: str, access: Path) -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clusterCIDR": PODS,
        "hostnameOverride": name,
        "clientConnection": {"kubeconfig": str(access)},
        # The kernel lets no namespace but the first change the number of connections.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }


def _hierarchies() -> list[Path]:
    """Of cgroup v1, each controller has one; of v2 there is one for all."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [path for path in CGROUPS.iterdir() if path.is_dir() and not path.is_symlink() and path.name != "unified"]


def _make_cgroup(path: str) -> None:
    for hierarchy in _hierarchies():
        for part in (Path(path).parent, Path(path)):
            made = hierarchy / part
            made.mkdir(exist_ok=True)
            for name in ("cpuset.cpus", "cpuset.mems"):  # which a new cgroup of v1 has none of
                if (made / name).exists() and not (made / name).read_text(encoding="utf-8").strip():
                    (made / name).write_text((made.parent / name).read_text(encoding="utf-8"), encoding="utf-8")


def _remove_cgroup(path: str) -> None:
    """Also from a hierarchy of v2 beside those of v1, where runc makes one, too."""
    for hierarchy in [*_hierarchies(), CGROUPS / "unified"]:
        for folder, _, _ in sorted(os.walk(hierarchy / path), reverse=True):
            _end_processes(Path(folder))
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        with contextlib.suppress(OSError):  # the last node removes what holds them all
            os.rmdir((hierarchy / path).parent)


def _end_processes(cgroup: Path) -> None:
    while pids := (cgroup / "cgroup.procs").read_text(encoding="utf-8").split():
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def _processes_of(socket: Path) -> list[int]:
    """The shims of a containerd."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            arguments = path.read_bytes().split(b"\0")
            if arguments[0].endswith(b"containerd-shim-runc-v2") and str(socket).encode() in arguments:
                found.append(int(path.parent.name))
    return found
