"""A Docker daemon of a test's own, with the plugins for Compose.

It has its own folders and its own socket. Its network is not its own: two daemons on one machine undo each other's rules.
"""

import hashlib
import os
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tests.support.polling import eventually
from tests.support.requirements import ROOT

TOOLS = ROOT / ".tools" / "docker"
PLUGINS = {
    "docker-compose": (
        "http://deb.debian.org/debian/pool/main/d/docker-compose/docker-compose_2.26.1-4_amd64.deb",
        "47681197cb2b1ab88206b42a1a92fc75f50d9530a6322d03494a473eed0408ea",
    ),
    "docker-buildx": (
        "http://deb.debian.org/debian/pool/main/d/docker-buildx/docker-buildx_0.13.1+ds1-3_amd64.deb",
        "fcf8c48204d1603c8f209451d7827eb91bf30759578baf7704e9e1a87e5f1d7f",
    ),
}
"""From Debian 13: Debian 12 has Compose 1.29, which does not know the format of our file."""


def set_up_plugins() -> None:
    """Puts the plugins below `TOOLS` unless they are there."""
    directory = TOOLS / "config" / "cli-plugins"
    directory.mkdir(parents=True, exist_ok=True)
    for name, (url, digest) in PLUGINS.items():
        if (directory / name).exists():
            continue
        package = TOOLS / f"{name}.deb"
        with urllib.request.urlopen(url, timeout=120) as answer:
            package.write_bytes(answer.read())
        assert hashlib.sha256(package.read_bytes()).hexdigest() == digest, f"{url} is not what it was"
        subprocess.run(["dpkg-deb", "-x", package, TOOLS / name], check=True)
        found = next((TOOLS / name).rglob(f"cli-plugins/{name}"))
        shutil.copy2(found, directory / name)
        shutil.rmtree(TOOLS / name)
        package.unlink()


class DockerDaemon:
    """Use as a context manager: at its end all containers and volumes are gone. Images and layers stay for the next run."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.socket = f"unix://{directory}/docker.sock"
        self.environment = {
            **os.environ,
            "DOCKER_HOST": self.socket,
            "DOCKER_CONFIG": str(TOOLS / "config"),
            "DOCKER_BUILDKIT": "1",
        }
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "DockerDaemon":
        set_up_plugins()
        self.directory.mkdir(parents=True)
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1", encoding="utf-8")
        with open(self.directory / "log", "wb") as log:
            self._process = subprocess.Popen(
                [
                    "dockerd",
                    f"--data-root={TOOLS}/data",
                    f"--exec-root={self.directory}/exec",
                    f"--pidfile={self.directory}/pid",
                    f"--host={self.socket}",
                ],
                stdout=log,
                stderr=log,
            )
        eventually(self._answers)
        self._remove_leftovers()  # of a run that was killed: Docker has just started them again
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._process is not None
        self._remove_leftovers()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _remove_leftovers(self) -> None:
        if containers := self.run("ps", "--all", "--quiet").split():
            self.run("rm", "--force", "--volumes", *containers)
        self.run("network", "prune", "--force")
        self.run("volume", "prune", "--force")
        self.run("image", "prune", "--force")

    def has_image(self, tag: str) -> bool:
        return bool(self.run("images", "--quiet", tag).strip())

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.directory / "log").read_text(encoding="utf-8")[-2000:]
        return subprocess.run(["docker", "info"], env=self.environment, capture_output=True, timeout=60).returncode == 0

    def run(
        self, *arguments: str, environment: Mapping[str, str] | None = None, within_s: float = 300.0, text: str | None = None
    ) -> str:
        """The standard output of `docker ARGUMENTS`, which must succeed. `text` is its standard input."""
        ended = self.attempt(*arguments, environment=environment, within_s=within_s, text=text)
        assert ended.returncode == 0, f"docker {' '.join(arguments)}\n{ended.stdout[-2000:]}{ended.stderr[-4000:]}"
        return ended.stdout

    def attempt(
        self, *arguments: str, environment: Mapping[str, str] | None = None, within_s: float = 300.0, text: str | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """`docker ARGUMENTS`, which may fail."""
        return subprocess.run(
            ["docker", *arguments],
            cwd=ROOT,
            env={**self.environment, **(environment or {})},
            input=text,
            stdin=None if text is not None else subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=within_s,
        )
