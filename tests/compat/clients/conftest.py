"""Fixtures of the client tests."""

from collections.abc import Iterator

import pytest

from tests.compat.clients.admin import Admin
from tests.support.cluster_harness import LocalCluster


@pytest.fixture(scope="module")
def bootstrap(cluster: LocalCluster) -> str:
    """The bootstrap servers of the shared cluster."""
    return cluster.bootstrap


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> Iterator[Admin]:
    opened = Admin(bootstrap)
    yield opened
    opened.close()


@pytest.fixture
def three() -> Iterator[LocalCluster]:
    """Three storage nodes, for a test that ends some of them."""
    with LocalCluster(storage=3) as running:
        yield running
