"""One cluster for all streams that are observed."""

from collections.abc import Iterator

import pytest

from tests.support.cluster_harness import LocalCluster


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    with LocalCluster() as running:
        running.up()
        yield running.bootstrap
