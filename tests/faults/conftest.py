"""Fixtures of the fault tests."""

from collections.abc import Iterator

import pytest

from tests.cluster_harness import LocalCluster


@pytest.fixture(scope="module")
def mortals() -> Iterator[LocalCluster]:
    """Two storage nodes, two gateways and two controllers for the tests of a module that kill processes and start them again."""
    with LocalCluster(storage=2, gateways=2, controllers=2) as running:
        yield running


@pytest.fixture
def healed(mortals: LocalCluster) -> LocalCluster:
    """The same, with everything running again, whatever an earlier test left down."""
    mortals.up()
    return mortals
