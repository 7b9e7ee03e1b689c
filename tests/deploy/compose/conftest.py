"""One Docker daemon, the images, and one cluster of containers for all tests of this folder."""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.deploy.compose.base_images import build_etcd_image, import_python_image
from tests.deploy.compose.compose_project import ComposeProject
from tests.deploy.compose.docker_daemon import DockerDaemon
from tests.deploy.compose.first_record import produce_first_record
from tests.support.ports import reserve_ports
from tests.support.requirements import require

BUILDS_WITHIN_S = 900.0


class RunningCluster(NamedTuple):
    project: ComposeProject
    seconds_to_first_record: float


@pytest.fixture(scope="session")
def docker() -> Iterator[DockerDaemon]:
    require("root", "docker", "etcd")
    with DockerDaemon(Path(tempfile.gettempdir()) / f"penstock-docker-{os.getpid()}") as running:
        yield running


@pytest.fixture(scope="session")
def images(docker: DockerDaemon) -> list[str]:
    """The images of all services, built as a user builds them. Returns their tags."""
    import_python_image(docker)
    project = ComposeProject(docker, "compose.yaml", first_port=9092, brokers=3)
    services = project.configuration()["services"].values()
    build_etcd_image(docker, next(service["image"] for service in services if "/etcd:" in service["image"]))
    project.run("build", within_s=BUILDS_WITHIN_S)
    return sorted({service["image"] for service in services if "build" in service})


@pytest.fixture(scope="session")
def cluster(docker: DockerDaemon, images: list[str]) -> Iterator[RunningCluster]:
    yield from run_cluster(docker, "compose.yaml", brokers=3)


@pytest.fixture(scope="session")
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
