"""One Docker daemon, the images, and one cluster of containers for all tests of this folder."""

import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.deploy.compose.compose_project import ComposeProject
from tests.deploy.compose.docker_daemon import DockerDaemon
from tests.deploy.compose.first_record import produce_first_record
from tests.deploy.compose.images import build_images, daemon_of_this_process
from tests.support.ports import reserve_ports
from tests.support.requirements import require


class RunningCluster(NamedTuple):
    project: ComposeProject
    seconds_to_first_record: float


@pytest.fixture(scope="package")
def docker() -> Iterator[DockerDaemon]:
    require("root", "docker", "etcd")
    with daemon_of_this_process() as running:
        yield running


@pytest.fixture(scope="package")
def images(docker: DockerDaemon) -> list[str]:
    return build_images(docker)


@pytest.fixture(scope="package")
def cluster(docker: DockerDaemon, images: list[str]) -> Iterator[RunningCluster]:
    yield from run_cluster(docker, "compose.yaml", brokers=3)


@pytest.fixture(scope="package")
def project(cluster: RunningCluster) -> ComposeProject:
    """The cluster of compose.yaml, with whatever a test before did to it mended."""
    return cluster.project


def run_cluster(docker: DockerDaemon, file: str, *, brokers: int) -> Iterator[RunningCluster]:
    ports = reserve_ports(1 + brokers)
    project = ComposeProject(docker, file, first_port=ports.first, brokers=brokers)
    started = time.monotonic()
    try:
        project.run("up", "--detach")
        produce_first_record(project.bootstrap)
        yield RunningCluster(project, time.monotonic() - started)
    finally:
        project.run("down", "--volumes", "--timeout", "20")
        ports.release()
