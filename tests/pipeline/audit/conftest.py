"""One cluster for all audits: one storage node, which compacts at once."""

from collections.abc import Iterator

import pytest

from tests.support.cluster_harness import LocalCluster


@pytest.fixture(scope="session")
def audited_cluster() -> Iterator[LocalCluster]:
    settings = {"storage-1": {"PENSTOCK_BROKER_CONFIGS": "log.cleaner.backoff.ms=50"}}
    with LocalCluster(environment_of=settings) as running:
        running.up()
        yield running


@pytest.fixture
def bootstrap(audited_cluster: LocalCluster) -> str:
    return audited_cluster.bootstrap
