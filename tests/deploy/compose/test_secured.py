"""What protects the inside of a cluster in containers: etcd with TLS and users, and the token of admin ports."""

import os
import re
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.compose.docker_daemon import DockerDaemon
from tests.deploy.hosts.page import command_with
from tests.support.polling import Pending, eventually
from tests.support.printed_blocks import blocks_of
from tests.support.requirements import ROOT

PAGE = "docs/operate/compose.md"
FILES = ("compose.yaml", "compose.peers.tls.yaml", "compose.etcd.tls.yaml", "compose.admin.yaml")
MEMBERS = "etcd-1:2379,etcd-2:2379,etcd-3:2379"
BACKUP = ("python", "-m", "services.controller.recovery", "backup", "--etcd", MEMBERS, "/tmp/metadata")


class SecuredProject:
    """Compose with all of these files, and files of certificates and of a token as the page makes them."""

    def __init__(self, daemon: DockerDaemon, directory: Path) -> None:
        self.daemon = daemon
        blocks = blocks_of((ROOT / PAGE).read_text(encoding="utf-8"))
        [made] = [block.text for block in blocks if block.language == "sh" and "peers-ca.pem" in block.text]
        token = directory / "admin-token"
        token.write_text(secrets.token_hex(32), encoding="utf-8")
        owned = [command_with(PAGE, words) for words in ("chown -R 10001:0 peer-certificates", "chown 10001:10001 admin-token")]
        for command in (made, *(each.replace("sudo ", "") for each in owned)):
            subprocess.run(["bash", "-euc", command], cwd=directory, check=True, capture_output=True, timeout=120)
        self._environment = {
            "PENSTOCK_PEER_CERTIFICATES": str(directory / "peer-certificates"),
            "PENSTOCK_ADMIN_TOKEN_FILE": str(token),
            "COMPOSE_PROJECT_NAME": "penstock-secured",
            "COMPOSE_FILE": os.pathsep.join(FILES),
        }

    def run(self, *arguments: str) -> str:
        return self.daemon.run("compose", *arguments, environment=self._environment)

    def attempt(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return self.daemon.attempt("compose", *arguments, environment=self._environment)


@pytest.fixture(scope="module")
def secured(docker: DockerDaemon, images: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredProject]:
    """Its etcd and its controllers: what the others do there is the same."""
    project = SecuredProject(docker, tmp_path_factory.mktemp("secured"))
    try:
        project.run("up", "--detach", "--wait", "controller-1", "controller-2")
        yield project
    finally:
        project.run("down", "--volumes", "--timeout", "20")


def test_controllers_start_once_etcd_has_users(secured: SecuredProject) -> None:
    assert "etcd serves users only: penstock-controller" in secured.run("logs", "--no-color", "etcd-users")
    assert "no permission is taken away" not in secured.run("run", "--rm", "etcd-users", "--revoke-unneeded")


def test_etcd_serves_a_user_and_nobody_without_a_certificate(secured: SecuredProject) -> None:
    secured.run("exec", "--no-TTY", "controller-1", *BACKUP)
    without = [f"--env=PENSTOCK_ETCD_{name}_FILE=" for name in ("CERT", "KEY")]
    refused = secured.attempt("exec", "--no-TTY", *without, "controller-1", *BACKUP)
    assert refused.returncode != 0
    storage = ("--rm", "--no-deps", "--entrypoint", " ".join(BACKUP[:4]), "storage-1", "--with-credentials", *BACKUP[4:])
    refused = secured.attempt("run", *storage)
    assert "permission denied" in refused.stdout + refused.stderr, "a storage node may not read credentials of users"


def test_members_are_healthy_and_speak_tls_with_each_other(secured: SecuredProject) -> None:
    told = secured.run("exec", "--no-TTY", "etcd-1", "etcdctl", "member", "list")
    assert len(re.findall(r"started, (etcd-\d), https://\1:2380, https://\1:2379", told)) == 3, told

    def ill() -> list[str]:
        told = secured.run("ps", "--format", "{{.Service}} {{.Health}}").splitlines()
        return [line for line in told if not line.endswith(" healthy")]

    eventually(lambda: not ill() or Pending(ill()))


def test_an_admin_port_answers_who_has_the_token(secured: SecuredProject) -> None:
    ask = ("controller-2", "get", "/health", "controller-1")
    assert '"verdict"' in secured.attempt("exec", "--no-TTY", *ask).stdout
    refused = secured.attempt("exec", "--no-TTY", "--env=PENSTOCK_ADMIN_TOKEN_FILE=", *ask)
    assert "send the token" in refused.stdout
    assert refused.returncode != 0
