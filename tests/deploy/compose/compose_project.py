"""A Compose project of a test: `docker compose` with a file and ports of its own, and what Docker says of its containers."""

import json
import subprocess
from collections.abc import Mapping
from typing import Any

from tests.deploy.compose.docker_daemon import DockerDaemon

Ended = subprocess.CompletedProcess[str]


class ComposeProject:
    """`first_port` is the bootstrap port on this machine; `brokers` ports follow it."""

    def __init__(self, daemon: DockerDaemon, file: str, *, first_port: int, brokers: int) -> None:
        self.daemon = daemon
        self.bootstrap = f"localhost:{first_port}"
        self.environment = {"PENSTOCK_FIRST_PORT": str(first_port), "PENSTOCK_LAST_PORT": str(first_port + brokers)}
        self._file = file

    def run(self, *arguments: str, environment: Mapping[str, str] | None = None, within_s: float = 300.0) -> str:
        """`docker compose ARGUMENTS`, which must succeed."""
        given = {**self.environment, **(environment or {})}
        return self.daemon.run("compose", "--file", self._file, *arguments, environment=given, within_s=within_s)

    def attempt(self, *arguments: str, environment: Mapping[str, str] | None = None) -> Ended:
        given = {**self.environment, **(environment or {})}
        return self.daemon.attempt("compose", "--file", self._file, *arguments, environment=given)

    def configuration(self) -> dict[str, Any]:
        """The file as Compose reads it, with the services of all profiles."""
        read: dict[str, Any] = json.loads(self.run("--profile=*", "config", "--format", "json"))
        return read

    def services(self) -> list[str]:
        """The names of all services that run without a profile."""
        return sorted(self.run("config", "--services").split())

    def container(self, service: str) -> dict[str, Any]:
        """What Docker says of its container."""
        container = self.run("ps", "--all", "--quiet", service).strip()
        found: list[dict[str, Any]] = json.loads(self.daemon.run("inspect", container))
        return found[0]

    def pid(self, service: str) -> int:
        """The process on this machine; 0 while it is down."""
        return int(self.container(service)["State"]["Pid"])

    def is_healthy(self, service: str) -> bool:
        return str(self.container(service)["State"]["Health"]["Status"]) == "healthy"

    def get(self, service: str, path: str) -> str:
        """The answer of its admin port."""
        return self.run("exec", "--no-TTY", service, "get", path)

    def logs(self, service: str) -> str:
        return self.run("logs", "--no-color", service)
