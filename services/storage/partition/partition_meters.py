"""Metrics by topic and by partition, under Kafka's names (kafka.server: BrokerTopicMetrics; kafka.log: Log; kafka.cluster:
Partition). Nothing is counted for the partitions: their numbers are read from them when somebody scrapes."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from libs.telemetry.definitions import CounterDefinition, GaugeDefinition
from services.storage.partition.partition_table import PartitionTable

BYTES_IN = CounterDefinition(
    name="kafka_server_brokertopicmetrics_bytesin",
    help="Bytes of record batches appended by producers, by topic.",
    labels=("topic",),
    healthy="follows the load",
)
BYTES_OUT = CounterDefinition(
    name="kafka_server_brokertopicmetrics_bytesout",
    help="Bytes of record batches in answers to consumers, by topic. "
    "Gateways read on from the last answer by themselves for 0.1 s: only `penstock_gateway_sent_bytes_total` has those bytes.",
    labels=("topic",),
    healthy="follows the load",
)
MESSAGES_IN = CounterDefinition(
    name="kafka_server_brokertopicmetrics_messagesin",
    help="Records appended by producers, by topic.",
    labels=("topic",),
    healthy="follows the load",
)
FAILED_PRODUCES = CounterDefinition(
    name="kafka_server_brokertopicmetrics_failedproducerequests",
    help="Partitions in Append calls that were answered with an error, by topic. `(other)` has those that are not on this node.",
    labels=("topic",),
    healthy="rises only when leaders change",
    otherwise="`penstock_gateway_request_errors_total` tells which error.",
)
FAILED_FETCHES = CounterDefinition(
    name="kafka_server_brokertopicmetrics_failedfetchrequests",
    help="Partitions in Fetch calls that were answered with an error, by topic. `(other)` has those that are not on this node.",
    labels=("topic",),
    healthy="rises only when leaders change",
    otherwise="Consumers ask for offsets that are gone (OFFSET_OUT_OF_RANGE), or a disk fails. Look at the node's log.",
)
TOPICS_LEFT_OUT = GaugeDefinition(
    name="penstock_storage_topics_without_series",
    help="Topics of this node that are counted together, as the topic `(other)`.",
    healthy="0",
    otherwise="Raise `PENSTOCK_TOPIC_SERIES_MAX`, if Prometheus can take more series.",
)
LABELS: Final = ("topic", "partition")
LOG_SIZE = GaugeDefinition(
    name="kafka_log_log_size",
    help="Bytes of the log of a partition that this node leads, by topic and partition.",
    labels=LABELS,
    healthy="as `retention.bytes` and `retention.ms` say",
    otherwise="Lower them, or spread the topic over more partitions. Compacted topics: look at the cleaner.",
)
LOG_START = GaugeDefinition(
    name="kafka_log_log_logstartoffset",
    help="First offset of a partition that this node leads, by topic and partition.",
    labels=LABELS,
    healthy="rises as records expire",
)
LOG_END = GaugeDefinition(
    name="kafka_log_log_logendoffset",
    help="Next offset of a partition that this node leads, by topic and partition. Its rate is that of records.",
    labels=LABELS,
    healthy="follows the load",
)
UNDER_REPLICATED = GaugeDefinition(
    name="kafka_cluster_partition_underreplicated",
    help="1 if a partition that this node leads has replicas out of the ISR, by topic and partition.",
    labels=LABELS,
    healthy="0",
    otherwise="As for `kafka_server_replicamanager_underreplicatedpartitions`.",
)
PARTITIONS_LEFT_OUT = GaugeDefinition(
    name="penstock_storage_partitions_without_series",
    help="Partitions that this node leads and that have no series of their own.",
    healthy="0",
    otherwise="Raise `PENSTOCK_PARTITION_SERIES_MAX`, if Prometheus can take more series. "
    "`/debug/partitions/TOPIC-N` shows any partition.",
)


class PartitionMeters(Collector):
    """The collector. Of the partitions that this node leads, it shows `partitions_max`, those that came first."""

    def __init__(self, partitions: PartitionTable, partitions_max: int) -> None:
        self._partitions = partitions
        self._max = partitions_max

    def collect(self) -> Iterator[Metric]:
        traffic = self._partitions.traffic
        topics = list(traffic.series())
        yield BYTES_IN.samples(((topic,), counts.bytes_in) for topic, counts in topics)
        yield BYTES_OUT.samples(((topic,), counts.bytes_out) for topic, counts in topics)
        yield MESSAGES_IN.samples(((topic,), counts.messages_in) for topic, counts in topics)
        yield FAILED_PRODUCES.samples(((topic,), counts.failed_produces) for topic, counts in topics)
        yield FAILED_FETCHES.samples(((topic,), counts.failed_fetches) for topic, counts in topics)
        here = self._partitions.by_key.values()
        yield TOPICS_LEFT_OUT.sample(traffic.left_out({partition.topic for partition in here}))
        led = sum(partition.leading for partition in here)
        shown = list(islice((partition for partition in here if partition.leading), self._max))
        labelled = [((partition.topic, str(partition.key[1])), partition) for partition in shown]
        yield LOG_SIZE.samples((labels, partition.log.size) for labels, partition in labelled)
        yield LOG_START.samples((labels, partition.log_start_offset) for labels, partition in labelled)
        yield LOG_END.samples((labels, partition.log_end_offset) for labels, partition in labelled)
        yield UNDER_REPLICATED.samples((labels, float(partition.replica.missing > 0)) for labels, partition in labelled)
        yield PARTITIONS_LEFT_OUT.sample(led - len(shown))
