"""The cluster of compose.single.yaml: one container."""

from collections.abc import Iterator

import pytest

from tests.deploy.compose.clients import consume, produce
from tests.deploy.compose.compose_project import ComposeProject
from tests.deploy.compose.conftest import RunningCluster, run_cluster
from tests.deploy.compose.docker_daemon import DockerDaemon


@pytest.fixture
def single(docker: DockerDaemon, images: list[str]) -> Iterator[RunningCluster]:
    yield from run_cluster(docker, "compose.single.yaml", brokers=1)


def test_the_smallest_cluster_keeps_its_records_over_down_and_up(single: RunningCluster, topic: str) -> None:
    project: ComposeProject = single.project
    produce(project.bootstrap, topic, b"one", b"two")
    assert consume(project.bootstrap, topic, topic, 1) == [b"one"]
    project.run("down")
    project.run("up", "--detach", "--wait")
    assert consume(project.bootstrap, topic, topic, 1) == [b"two"]
