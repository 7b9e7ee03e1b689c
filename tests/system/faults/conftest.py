"""Fixtures of the fault tests."""

from collections.abc import Iterator

import pytest

from tests.support.cluster_harness import LocalCluster

ONE_REPLICA = {"PENSTOCK_DEFAULT_REPLICATION_FACTOR": "1"}


@pytest.fixture(scope="module")
def mortals() -> Iterator[LocalCluster]:
    """Two storage nodes, two gateways and two controllers for the tests of a module that kill processes and start them again.
    Topics have one replica: what a dead node led waits for it."""
    with LocalCluster(storage=2, gateways=2, controllers=2, environment=ONE_REPLICA) as running:
        yield running


@pytest.fixture
def healed(mortals: LocalCluster) -> LocalCluster:
    """The same, with everything running again, whatever an earlier test left down."""
    mortals.up()
    return mortals
