"""Metrics by topic and by partition, under Kafka's names (kafka.server: BrokerTopicMetrics; kafka.log: Log; kafka.cluster:
Partition). Nothing is counted for the partitions: their numbers are read from them when somebody scrapes."""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from libs.telemetry.definitions import (
    CounterDefinition,
    Family,
    FamilySource,
    GaugeDefinition,
    Labels,
    MetricSet,
    Rows,
    with_pauses,
)
from services.storage.partition.partition import Partition
from services.storage.partition.partition_table import PartitionTable
from services.storage.partition.topic_traffic import TrafficByTopic

LABELS: Final = ("topic", "partition")


class TopicGauges(MetricSet):
    """The traffic of each topic at a scrape, for which it is made. `here`: the partitions of this node."""

    def __init__(self, traffic: TrafficByTopic, here: Collection[Partition]) -> None:
        super().__init__()
        self._topics = [((topic,), counts) for topic, counts in traffic.series()]
        self._left_out = traffic.left_out({partition.topic for partition in here})

    @CounterDefinition(
        name="kafka_server_brokertopicmetrics_bytesin",
        help="Bytes of record batches appended by producers, by topic.",
        labels=("topic",),
        healthy="follows the load",
    )
    def bytes_in(self) -> Rows:
        return ((labels, counts.bytes_in) for labels, counts in self._topics)

    @CounterDefinition(
        name="kafka_server_brokertopicmetrics_bytesout",
        help="Bytes of record batches in answers to consumers, by topic. Gateways read on from the last answer by themselves "
        "for 0.1 s: only `penstock_gateway_sent_bytes_total` has those bytes.",
        labels=("topic",),
        healthy="follows the load",
    )
    def bytes_out(self) -> Rows:
        return ((labels, counts.bytes_out) for labels, counts in self._topics)

    @CounterDefinition(
        name="kafka_server_brokertopicmetrics_messagesin",
        help="Records appended by producers, by topic.",
        labels=("topic",),
        healthy="follows the load",
    )
    def messages_in(self) -> Rows:
        return ((labels, counts.messages_in) for labels, counts in self._topics)

    @CounterDefinition(
        name="kafka_server_brokertopicmetrics_failedproducerequests",
        help="Partitions in Append calls that were answered with an error, by topic. `(other)` has those that are not on this "
        "node.",
        labels=("topic",),
        healthy="rises only when leaders change",
        otherwise="`penstock_gateway_request_errors_total` tells which error.",
    )
    def failed_produces(self) -> Rows:
        return ((labels, counts.failed_produces) for labels, counts in self._topics)

    @CounterDefinition(
        name="kafka_server_brokertopicmetrics_failedfetchrequests",
        help="Partitions in Fetch calls that were answered with an error, by topic. `(other)` has those that are not on this "
        "node.",
        labels=("topic",),
        healthy="rises only when leaders change",
        otherwise="Consumers ask for offsets that are gone (OFFSET_OUT_OF_RANGE), or a disk fails. Look at the node's log.",
    )
    def failed_fetches(self) -> Rows:
        return ((labels, counts.failed_fetches) for labels, counts in self._topics)

    @GaugeDefinition(
        name="penstock_storage_topics_without_series",
        help="Topics of this node that are counted together, as the topic `(other)`.",
        healthy="0",
        otherwise="Raise `PENSTOCK_TOPIC_SERIES_MAX`, if Prometheus can take more series.",
    )
    def left_out(self) -> int:
        return self._left_out


class PartitionGauges(MetricSet):
    """The partitions that this node leads at a scrape, for which it is made: `partitions_max` of them, those that came first."""

    def __init__(self, here: Sequence[Partition], partitions_max: int) -> None:
        super().__init__()
        self._here = here
        self._max = partitions_max
        self._led: list[tuple[Labels, Partition]] = []
        self._left_out = 0

    def families(self) -> Iterator[Family | None]:
        yield from with_pauses(self._here, self._look)
        yield from super().families()

    def _look(self, here: Sequence[Partition]) -> None:
        led = [partition for partition in here if partition.leading]
        shown = led[: self._max - len(self._led)]
        self._led += [((partition.topic, str(partition.key[1])), partition) for partition in shown]
        self._left_out += len(led) - len(shown)

    @GaugeDefinition(
        name="kafka_log_log_size",
        help="Bytes of the log of a partition that this node leads, by topic and partition.",
        labels=LABELS,
        healthy="as `retention.bytes` and `retention.ms` say",
        otherwise="Lower them, or spread the topic over more partitions. Compacted topics: look at the cleaner.",
    )
    def log_sizes(self) -> Rows:
        return ((labels, partition.log.size) for labels, partition in self._led)

    @GaugeDefinition(
        name="kafka_log_log_logstartoffset",
        help="First offset of a partition that this node leads, by topic and partition.",
        labels=LABELS,
        healthy="rises as records expire",
    )
    def log_starts(self) -> Rows:
        return ((labels, partition.log_start_offset) for labels, partition in self._led)

    @GaugeDefinition(
        name="kafka_log_log_logendoffset",
        help="Next offset of a partition that this node leads, by topic and partition. Its rate is that of records.",
        labels=LABELS,
        healthy="follows the load",
    )
    def log_ends(self) -> Rows:
        return ((labels, partition.log_end_offset) for labels, partition in self._led)

    @GaugeDefinition(
        name="kafka_cluster_partition_underreplicated",
        help="1 if a partition that this node leads has replicas out of the ISR, by topic and partition.",
        labels=LABELS,
        healthy="0",
        otherwise="As for `kafka_server_replicamanager_underreplicatedpartitions`.",
    )
    def under_replicated(self) -> Rows:
        return ((labels, float(partition.replica.missing > 0)) for labels, partition in self._led)

    @GaugeDefinition(
        name="penstock_storage_partitions_without_series",
        help="Partitions that this node leads and that have no series of their own.",
        healthy="0",
        otherwise="Raise `PENSTOCK_PARTITION_SERIES_MAX`, if Prometheus can take more series. "
        "`/debug/partitions/TOPIC-N` shows any partition.",
    )
    def left_out(self) -> int:
        return self._left_out


class PartitionMeters(FamilySource):
    """The collector. Of the partitions that this node leads, it shows `partitions_max`."""

    def __init__(self, partitions: PartitionTable, partitions_max: int) -> None:
        self._partitions = partitions
        self._max = partitions_max

    def families(self) -> Iterator[Family | None]:
        here = list(self._partitions.by_key.values())
        yield from TopicGauges(self._partitions.traffic, here).families()
        yield from PartitionGauges(here, self._max).families()
