"""Metrics by topic and by partition of a storage node, and their bounds."""

import gc

from prometheus_client.parser import text_string_to_metric_families

from libs.cluster import keys
from libs.wire.errors import ErrorCode
from services.storage.partition.partition_meters import PartitionMeters
from services.storage.partition.topic_traffic import OTHERS, TrafficByTopic
from tests.storage.cluster import StorageCluster, batch, parked
from tests.support.polling import until


def metrics(cluster: StorageCluster) -> dict[tuple[str, ...], float]:
    """The values by name, topic and partition."""
    assert cluster.node is not None
    return {
        (sample.name, *[sample.labels[label] for label in ("topic", "partition") if label in sample.labels]): sample.value
        for family in text_string_to_metric_families(cluster.node.environment.metrics.render().decode())
        for sample in family.samples
    }


async def test_the_traffic_of_a_topic_is_told_by_topic_and_its_logs_by_partition(cluster: StorageCluster) -> None:
    topic = await cluster.topic("orders", partitions=2)
    await cluster.topic("quiet")
    sent = [batch(b"a", b"b"), batch(b"c")]
    for index, records in enumerate(sent):
        await cluster.append(topic, records, index=index)
    await cluster.fetch(topic, 0)
    found = metrics(cluster)
    in_name, out_name = "kafka_server_brokertopicmetrics_bytesin_total", "kafka_server_brokertopicmetrics_bytesout_total"
    assert found[in_name, "orders"] == sum(map(len, sent))
    assert found[out_name, "orders"] == len(sent[0])
    assert found["kafka_server_brokertopicmetrics_messagesin_total", "orders"] == 3
    assert (found[in_name, "quiet"], found[out_name, "quiet"]) == (0, 0)
    assert found["kafka_log_log_size", "orders", "0"] == len(sent[0])
    assert found["kafka_log_log_logstartoffset", "orders", "0"] == 0
    assert found["kafka_log_log_logendoffset", "orders", "0"] == 2
    assert found["kafka_log_log_logendoffset", "orders", "1"] == 1
    assert found["kafka_cluster_partition_underreplicated", "orders", "0"] == 0
    assert found["penstock_storage_topics_without_series",] == found["penstock_storage_partitions_without_series",] == 0


async def test_a_fetch_that_reads_several_times_counts_its_bytes_once(cluster: StorageCluster) -> None:
    topic = await cluster.topic("waits")
    one = batch(b"x" * 100)
    waiting = cluster.fetching(topic, 0, max_wait_ms=8000, min_bytes=2 * len(one))
    await until(lambda: parked(cluster) == 1)
    for _ in range(2):
        await cluster.append(topic, one)
    await waiting
    assert metrics(cluster)["kafka_server_brokertopicmetrics_bytesout_total", "waits"] == 2 * len(one)


async def test_failed_requests_are_counted_by_topic(cluster: StorageCluster) -> None:
    topic = await cluster.topic("orders")
    absent = bytes(range(16))
    assert (await cluster.append(topic, batch(b"x")[:-1])).error == ErrorCode.INVALID_RECORD
    assert (await cluster.append(absent, batch(b"x"))).error == ErrorCode.UNKNOWN_TOPIC_ID
    assert (await cluster.fetch(topic, 99)).error == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (await cluster.fetch(absent, 0)).error == ErrorCode.UNKNOWN_TOPIC_ID
    found = metrics(cluster)
    for name in ("failedproducerequests", "failedfetchrequests"):
        assert found[f"kafka_server_brokertopicmetrics_{name}_total", "orders"] == 1
        assert found[f"kafka_server_brokertopicmetrics_{name}_total", OTHERS] == 1


async def test_partitions_beyond_the_bound_have_no_series_and_a_gauge_says_so(cluster: StorageCluster) -> None:
    await cluster.topic("many", partitions=5)
    assert cluster.node is not None
    families = {family.name: family for family in PartitionMeters(cluster.node.partitions, 2).collect()}
    assert len(families["kafka_log_log_size"].samples) == 2
    assert len(families["kafka_cluster_partition_underreplicated"].samples) == 2
    assert families["penstock_storage_partitions_without_series"].samples[0].value == 3


async def test_a_deleted_topic_has_no_series_any_more(cluster: StorageCluster) -> None:
    topic = await cluster.topic("gone")
    await cluster.append(topic, batch(b"x"))
    assert ("kafka_log_log_size", "gone", "0") in metrics(cluster)
    await cluster.write(keys.topic("gone"), None)

    def is_gone() -> bool:
        gc.collect()  # a task that ended lately may still hold the partition
        return not any("gone" in labels for _, *labels in metrics(cluster))

    await until(is_gone)


def test_topics_beyond_the_bound_are_counted_together_and_no_count_falls() -> None:
    traffic = TrafficByTopic(2)
    first, second, third = traffic.of("first"), traffic.of("second"), traffic.of("third")
    assert traffic.of("first") is first
    assert traffic.of("fourth") is third
    first.bytes_in, third.bytes_in = 10, 5
    assert [(label, counts.bytes_in) for label, counts in traffic.series()] == [("first", 10), ("second", 0), (OTHERS, 5)]
    assert traffic.left_out({"first", "second", "third", "fourth"}) == 2
    del second
    assert traffic.of("third") is third  # it stays with the others, though there is room
    fifth = traffic.of("fifth")
    assert fifth is not third
    assert [label for label, _ in traffic.series()] == ["fifth", "first", OTHERS]
    assert traffic.left_out({"first", "fifth"}) == 0
    assert dict(traffic.series())[OTHERS].bytes_in == 5


def test_without_room_for_any_topic_all_are_counted_together() -> None:
    traffic = TrafficByTopic(0)
    traffic.of("a").messages_in += 1
    traffic.of("b").messages_in += 1
    assert [(label, counts.messages_in) for label, counts in traffic.series()] == [(OTHERS, 2)]
