"""Fixtures of the tests with transactions."""

import pytest

from tests.compat.clients.groups.brokers import AGAINST


@pytest.fixture(scope="module")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The bootstrap servers of the shared cluster, or of Apache Kafka (tests/compat/clients/groups/brokers.py)."""
    brokers = request.getfixturevalue("kafka" if AGAINST == "kafka" else "cluster")
    return str(brokers.bootstrap)
