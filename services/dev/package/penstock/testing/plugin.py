"""The pytest plugin: fixtures that give a cluster. pytest loads it by itself wherever Penstock is installed.

`@pytest.mark.penstock(broker_configs={"num.partitions": 3})` gives the arguments of `Cluster` for `penstock_cluster`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .cluster import Cluster


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "penstock(**arguments): arguments of penstock.testing.Cluster for penstock_cluster")


@pytest.fixture
def penstock_cluster(request: pytest.FixtureRequest) -> "Iterator[Cluster]":
    """A cluster for this test alone."""
    from .cluster import Cluster

    marker = request.node.get_closest_marker("penstock")
    with Cluster(**(marker.kwargs if marker is not None else {})) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def penstock_session_cluster() -> "Iterator[Cluster]":
    """A cluster for all tests of a session, or of a worker of pytest-xdist."""
    from .cluster import Cluster

    with Cluster() as cluster:
        yield cluster
