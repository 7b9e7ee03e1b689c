"""The cluster of compose.yaml, as its clients and its operators meet it."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.cluster.saved_metadata import parse_file
from services.local.python_setup import venv_python
from tests.compat.clients.admin import Admin
from tests.deploy.compose.base_images import PYTHON_IMAGE
from tests.deploy.compose.clients import consume, produce
from tests.deploy.compose.compose_project import ComposeProject
from tests.deploy.compose.conftest import RunningCluster
from tests.support.open_files import open_files
from tests.support.polling import eventually
from tests.support.requirements import ROOT

USER = "10001"
PACKAGES = venv_python(ROOT).parents[1] / "lib" / "python3.11" / "site-packages"
BIG_RECORD = os.urandom(200_000)
ETCD = re.compile(r"etcd-\d")


def own_services(project: ComposeProject) -> Iterator[str]:
    """The services that run our images."""
    return (service for service in project.services() if not ETCD.fullmatch(service))


def test_the_first_record_comes_soon_after_up(cluster: RunningCluster, capsys: pytest.CaptureFixture[str]) -> None:
    """The target is 15 s on a quiet machine. This bound only tells a start from elections that never end."""
    with capsys.disabled():
        print("\n" + json.dumps({"compose_up_to_first_record_s": round(cluster.seconds_to_first_record, 1)}))
    assert cluster.seconds_to_first_record < 200


def test_a_client_on_this_machine_produces_and_consumes(project: ComposeProject, topic: str) -> None:
    produce(project.bootstrap, topic, b"one", b"two")
    assert consume(project.bootstrap, topic, topic, 2) == [b"one", b"two"]


def test_a_client_in_the_network_produces_and_consumes(project: ComposeProject, topic: str) -> None:
    program = (Path(__file__).parent / "client_in_network.py").read_text(encoding="utf-8")
    said = project.daemon.run(
        *("run", "--rm", "--interactive", "--network=penstock_default", f"--volume={PACKAGES}:/packages:ro"),
        *("--env=PYTHONPATH=/packages", PYTHON_IMAGE, "python", "-", "gateway-internal:9092", topic),
        text=program,
    )
    brokers = [f"gateway-internal:{port}" for port in (9093, 9094, 9095)]
    assert said.split() == ["from", "inside", *brokers]


def test_gateways_send_records_from_the_files_of_storage_nodes(project: ComposeProject, topic: str) -> None:
    """Descriptors come through the shared sockets, though the files lie in another container's volume."""
    produce(project.bootstrap, topic, BIG_RECORD, BIG_RECORD)
    assert consume(project.bootstrap, topic, topic, 2) == [BIG_RECORD, BIG_RECORD]
    assert [path for path in open_files(project.pid("gateway")) if f"/logs/{topic}-0/" in path]


def test_each_container_runs_without_privileges_and_with_a_read_only_root(project: ComposeProject) -> None:
    for service in project.services():
        container = project.container(service)
        assert container["HostConfig"]["ReadonlyRootfs"], service
        assert container["HostConfig"]["CapDrop"] == ["ALL"], service
        assert "no-new-privileges:true" in container["HostConfig"]["SecurityOpt"], service
    for service in own_services(project):
        status = dict(
            line.split(":\t", 1)
            for line in Path(f"/proc/{project.pid(service)}/status").read_text(encoding="utf-8").splitlines()
            if ":\t" in line
        )
        assert status["Uid"].split() == [USER] * 4, service
        assert int(status["CapEff"], 16) == 0, service
        refused = project.attempt("exec", "--no-TTY", service, "touch", "/opt/penstock/new")
        assert "Read-only file system" in refused.stderr, service


def test_compose_waits_until_every_service_says_that_it_is_ready(project: ComposeProject) -> None:
    project.run("up", "--detach", "--wait")
    assert all(project.is_healthy(service) for service in project.services())


def test_prometheus_is_told_of_an_admin_port_of_every_service(project: ComposeProject) -> None:
    file = Path(project.configuration()["configs"]["prometheus"]["file"])
    scraped = re.findall(r'"([\w-]+):(\d+)"', file.read_text(encoding="utf-8"))
    assert sorted(service for service, _ in scraped) == project.services()
    for service, port in scraped:
        asked = ("exec", "--no-TTY", "--env", f"PENSTOCK_ADMIN_PORT={port}", "gateway", "get", "/metrics", service)
        role = service.rpartition("-")[0] if service[-1].isdigit() else service.removesuffix("-internal")
        wanted = "etcd_server_has_leader 1" if role == "etcd" else f'penstock_build_info{{service="{role.replace("-", "_")}"'
        assert wanted in project.run(*asked), service


def test_the_metadata_is_backed_up_from_a_container(project: ComposeProject) -> None:
    members = ",".join(f"{service}:2379" for service in project.services() if ETCD.fullmatch(service))
    program = ("python", "-m", "services.controller.recovery", "backup", "--etcd", members, "/tmp/metadata")
    project.run("exec", "--no-TTY", "controller-1", *program)
    assert parse_file(project.run("exec", "--no-TTY", "controller-1", "cat", "/tmp/metadata").encode()).items


def test_records_and_committed_offsets_are_there_after_down_and_up(project: ComposeProject, topic: str) -> None:
    produce(project.bootstrap, topic, b"one", b"two")
    assert consume(project.bootstrap, topic, topic, 1) == [b"one"]
    killed = "137"
    project.run("stop")
    codes = {service: str(project.container(service)["State"]["ExitCode"]) for service in own_services(project)}
    assert killed not in codes.values(), codes
    project.run("down")
    project.run("up", "--detach", "--wait")
    produce(project.bootstrap, topic, b"three")
    assert consume(project.bootstrap, topic, topic, 2) == [b"two", b"three"]
    eventually(lambda: topic in Admin(project.bootstrap).names())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"PENSTOCK_LAST_PORT": "9090"}, "9090"),
        ({"PENSTOCK_FIRST_PORT": "kafka"}, "Invalid hostPort: kafka-"),
        ({"PENSTOCK_PULL": "sometimes"}, 'pull_policy must be one of the following: "always", "never"'),
    ],
    ids=["last-port", "first-port", "pull"],
)
def test_compose_refuses_a_wrong_value_and_names_it(project: ComposeProject, given: dict[str, str], expected: str) -> None:
    refused = project.attempt("config", "--quiet", environment=given)
    assert refused.returncode != 0
    assert expected in refused.stderr
