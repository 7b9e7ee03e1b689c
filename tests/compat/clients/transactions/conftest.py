"""Fixtures of the tests with transactions."""

import pytest

from tests.compat.clients.groups.brokers import AGAINST
from tests.compat.kafka.broker import KafkaBroker
from tests.support.cluster_harness import LocalCluster


def _of_the_cluster(cluster: LocalCluster) -> str:
    return cluster.bootstrap


def _of_kafka(kafka: KafkaBroker) -> str:
    return kafka.bootstrap


bootstrap = pytest.fixture(scope="module", name="bootstrap")(_of_kafka if AGAINST == "kafka" else _of_the_cluster)
"""The bootstrap servers of the shared cluster, or of Apache Kafka (tests/compat/clients/groups/brokers.py)."""
