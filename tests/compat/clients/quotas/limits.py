"""Sets quotas of client ids, and counts what is stored."""

from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec

from tests.compat.clients.admin import REQUEST_S, Admin
from tests.compat.clients.quotas.floods import PARTITIONS
from tests.compat.differential.scenarios.client_quotas import ALTER, alteration, entry
from tests.compat.differential.systems import System
from tests.support.cluster_harness import LocalCluster


def limit(cluster: LocalCluster, client_id: str, quota: str, rate: float | None) -> None:
    """None removes the quota."""
    answer = System("Penstock", cluster.shape.port + 1).ask(ALTER, 1, alteration(entry({"client-id": client_id}, {quota: rate})))
    assert isinstance(answer, dict)
    assert answer["entries"][0]["error_code"] == 0, answer


def stored(admin: Admin, *topics: str, partitions: int = PARTITIONS) -> dict[str, int]:
    """The records of each topic."""
    asked = {TopicPartition(topic, partition): OffsetSpec.latest() for topic in topics for partition in range(partitions)}
    counts = dict.fromkeys(topics, 0)
    for where, end in admin.client.list_offsets(asked, request_timeout=REQUEST_S).items():
        counts[where.topic] += end.result().offset
    return counts
