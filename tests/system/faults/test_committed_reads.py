"""The reader of `make chaos TRANSFERS=`, amid a fault."""

import re
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import Producer

from tests.compat.clients.admin import REQUEST_S, Admin
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually
from tests.system.chaos.transactions.committed_reads import read_committed

TOPIC, FLUSH_S = "transfers", 60.0
ASKED = re.compile(r'^penstock_gateway_requests_total{api="metadata"} (\d+)', re.MULTILINE)


def metadata_requests(cluster: LocalCluster) -> int:
    return int(ASKED.findall(cluster.admin("gateway-1", "/metrics"))[0])


def test_a_read_that_begins_without_a_leader_ends_once_there_is_one() -> None:
    with LocalCluster(storage=1) as cluster:
        admin = Admin(cluster.bootstrap)
        admin.create(TOPIC, partitions=2, replicas=1)
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        for partition, value in enumerate(("a -1", "a 1")):
            producer.produce(TOPIC, value, partition=partition)
        assert producer.flush(FLUSH_S) == 0
        cluster.kill("storage-1")
        eventually(lambda: admin.client.list_topics(TOPIC, REQUEST_S).topics[TOPIC].partitions[0].leader == -1)
        admin.close()
        asked_before = metadata_requests(cluster)
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(read_committed, cluster.bootstrap, TOPIC, 2)
            eventually(lambda: metadata_requests(cluster) >= asked_before + 10)
            cluster.start("storage-1")
            assert reading.result().records == [[(0, "a -1")], [(0, "a 1")]]
