"""Kubernetes, CoreDNS and CNI plugins, built by Go at the versions of `sources/`, below `.tools/kubernetes/`."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.support.requirements import ROOT

SOURCES = Path(__file__).with_name("sources")
BINARIES = ROOT / ".tools" / "kubernetes"
VERSION = "1.34.4"
BUILDS_WITHIN_S = 5400.0
PACKAGES = {
    "kube-apiserver": ("kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    "kube-controller-manager": ("kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    "kube-scheduler": ("kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    "kubelet": ("kubernetes", "k8s.io/kubernetes/cmd/kubelet"),
    "kube-proxy": ("kubernetes", "k8s.io/kubernetes/cmd/kube-proxy"),
    "coredns": ("network", "./coredns"),
    "pause": ("network", "./pause"),
    "bridge": ("network", "github.com/containernetworking/plugins/plugins/main/bridge"),
    "loopback": ("network", "github.com/containernetworking/plugins/plugins/main/loopback"),
    "host-local": ("network", "github.com/containernetworking/plugins/plugins/ipam/host-local"),
}
"""By program: the module in `sources/`, and the package."""
COMMANDS = ("containerd", "containerd-shim-runc-v2", "ctr", "runc", "kubectl", "ip", "nsenter", "iptables", "openssl")
"""On Debian 12 the packages containerd, runc, iproute2, util-linux, iptables and openssl have all but kubectl."""


def missing() -> list[str]:
    """The programs that have to be built."""
    return [name for name in PACKAGES if not os.access(BINARIES / name, os.X_OK)]


def why_not() -> str | None:
    """Why no cluster can be started here; None if it can."""
    if os.geteuid() != 0:
        return "it takes root"
    if absent := [name for name in COMMANDS if shutil.which(name) is None]:
        return f"no {' and no '.join(absent)} on PATH"
    if missing() and shutil.which("go") is None:
        return f"no {' and no '.join(missing())} below .tools/kubernetes, and no go on PATH to build them"
    return None


def build(say: Callable[[str], None]) -> None:
    """Builds what is missing. Takes half an hour on two cores, and 4 GB below Go's folders."""
    BINARIES.mkdir(parents=True, exist_ok=True)
    version = f"-X k8s.io/component-base/version.gitVersion=v{VERSION}"
    major, minor, _ = VERSION.split(".")
    flags = f"-s -w {version} -X k8s.io/component-base/version.gitMajor={major} -X k8s.io/component-base/version.gitMinor={minor}"
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}
    for name in missing():
        module, package = PACKAGES[name]
        say(f"building {name}")
        command = ["nice", "go", "build", "-p=2", "-trimpath", f"-ldflags={flags}", f"-o={BINARIES / name}", package]
        subprocess.run(command, cwd=SOURCES / module, env=environment, check=True, timeout=BUILDS_WITHIN_S)
