"""Metrics of a storage node. Hot paths count plain numbers; samples are made when somebody scrapes.

Kafka's own names where Kafka has one: its JMX names, in the form that its usual Prometheus exporters give them.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from libs.telemetry.definitions import (
    CounterDefinition,
    Family,
    GaugeDefinition,
    HistogramDefinition,
    MetricSet,
    Rows,
    with_pauses,
)
from libs.telemetry.durations import Durations
from libs.telemetry.metrics import Metrics
from libs.telemetry.stages import Stage, StageDurations

if TYPE_CHECKING:
    from services.storage.partition.partition import Partition
    from services.storage.partition.partition_table import PartitionTable

TOPICS = "kafka_server_brokertopicmetrics_"
REPLICAS = "kafka_server_replicamanager_"


class StorageMeters(MetricSet):
    """A collector in the service's registry. The stages of an append are received → appended → synced.

    All appends of one read are received and written at the same moment, so the clock is read once for them.
    """

    replication_bytes_out: int = CounterDefinition(
        name=TOPICS + "replicationbytesout",
        help="Bytes of record batches sent to followers.",
        healthy="bytes in, times the followers of each partition",
    ).kept()
    produce_requests: int = CounterDefinition(
        name=TOPICS + "totalproducerequests",
        help="Partitions in Append calls of gateways.",
        healthy="follows the load",
    ).kept()
    fetch_requests: int = CounterDefinition(
        name=TOPICS + "totalfetchrequests",
        help="Partitions in answered Fetch calls of gateways.",
        healthy="follows the load",
    ).kept()
    expired_produces: int = CounterDefinition(
        name="kafka_server_delayedoperationpurgatory_expired_produces",
        help="Batches with acks=all that were not committed within the producer's request timeout.",
        healthy="0",
        otherwise="A follower or a disk is slow. Look at the followers' lag, and at "
        "`kafka_log_logflushstats_logflushrateandtimes_seconds`.",
    ).kept()
    held_up_by: dict[int, int] = CounterDefinition(
        name="penstock_storage_held_up_produces",
        help="Times that acks=all waited more than 0.5 s for a follower in the ISR. Waits that end within a second are one.",
        labels=("follower",),
        healthy="0",
        otherwise="The follower stops for a moment now and then: look at its disk, its CPU and the network. "
        "`/debug/partitions/TOPIC-N` of a leader shows what it lacks, and when it was heard last.",
    ).kept()
    isr_shrinks: int = CounterDefinition(
        name=REPLICAS + "isrshrinks",
        help="ISR changes that removed a follower.",
        healthy="below 0.1 a second; rises only when a storage node stops",
        otherwise="A follower is too slow: look at its disk, its CPU and the network. `replica.lag.time.max.ms` is the limit.",
    ).kept()
    isr_expands: int = CounterDefinition(
        name=REPLICAS + "isrexpands",
        help="ISR changes that added a follower.",
        healthy="below 0.1 a second; as many as followers were removed",
        otherwise="Fewer: a follower does not catch up. Look at its lag.",
    ).kept()
    duplicates: int = CounterDefinition(
        name="penstock_storage_duplicates",
        help="Batches of idempotent producers that the log held already.",
        healthy="rises only when producers send again",
        otherwise="Producers lose connections, or their request timeout is too short.",
    ).kept()
    opening: Durations = HistogramDefinition(
        name="penstock_storage_opening_seconds",
        help="Time of batches whose records are opened, from arrival until the append goes on.",
        healthy="below 100 ms",
        otherwise="Opening takes CPU. It is due to `record.validation=full`, compaction, or a `compression.type` that differs.",
    ).kept()
    flush_time: Durations = HistogramDefinition(
        name="kafka_log_logflushstats_logflushrateandtimes_seconds",
        help="Sync rounds, and the time of each. A round is one fdatasync for each log with new records.",
        healthy="below 10 ms on an SSD",
        otherwise="The disk is slow or full of other work. Every acks=all answer waits for it with `durability=synced`.",
    ).kept()

    def __init__(self, metrics: Metrics, partitions: "PartitionTable") -> None:
        super().__init__()
        self.stalled: set[str] = set()
        self.offline: set[str] = set()
        self._append_stages = StageDurations(Stage.APPENDED, Stage.SYNCED)
        self.appended = self._append_stages.of(Stage.APPENDED)
        self.synced = self._append_stages.of(Stage.SYNCED)
        self._partitions = partitions
        metrics.registry.register(self)

    @HistogramDefinition(
        name="penstock_storage_append_stage_seconds",
        help="Time of a batch, by stage. appended: from arrival to the write. synced: with acks=all, from the write to the "
        "commit.",
        labels=("stage",),
        healthy="`appended` below 10 ms; `synced` about an fdatasync of the slowest in-sync replica",
        otherwise="A high `appended` means that the node is busy. A high `synced` means that a disk or a follower is slow.",
    )
    def append_stages(self) -> Rows:
        return self._append_stages.samples()

    @GaugeDefinition(
        name="penstock_storage_stalled_directories",
        help="Log directories in which a sync round takes longer than PENSTOCK_SYNC_HANG_S.",
        healthy="0",
        otherwise="The disk hangs. Its leaderships move to other nodes; look at the kernel's log, and replace the disk.",
    )
    def stalled_directories(self) -> int:
        return len(self.stalled)

    def families(self) -> Iterator[Family | None]:
        yield from super().families()
        yield from ReplicaGauges(list(self._partitions.by_key.values())).families()


class ReplicaGauges(MetricSet):
    """The replicas of a node at a scrape, for which it is made."""

    def __init__(self, partitions: "Sequence[Partition]") -> None:
        super().__init__()
        self._partitions = partitions
        self._led = self._producer_ids = self._under_replicated = self._under_min_isr = self._at_min_isr = 0

    def families(self) -> Iterator[Family | None]:
        yield from with_pauses(self._partitions, self._look)
        yield from super().families()

    def _look(self, partitions: "Sequence[Partition]") -> None:
        self._producer_ids += sum([partition.log.producers.entries.count for partition in partitions])
        led = [partition.replica for partition in partitions if partition.leading]
        self._led += len(led)
        self._under_replicated += sum(replica.missing > 0 for replica in led)
        self._under_min_isr += sum(replica.in_sync < replica.min_in_sync for replica in led)
        self._at_min_isr += sum(replica.in_sync == replica.min_in_sync for replica in led)

    @GaugeDefinition(
        name=REPLICAS + "partitioncount",
        help="Replicas on this node.",
        healthy="alike on all nodes",
        otherwise="Set `self.balancing.mode`, or move replicas by `kafka-reassign-partitions.sh`.",
    )
    def partitions(self) -> int:
        return len(self._partitions)

    @GaugeDefinition(
        name=REPLICAS + "leadercount",
        help="Partitions that this node leads.",
        healthy="alike on all nodes",
        otherwise="After a restart, leadership returns within `leader.imbalance.check.interval.seconds`.",
    )
    def led(self) -> int:
        return self._led

    @GaugeDefinition(
        name=REPLICAS + "produceridcount",
        help="Idempotent producers that the logs of this node remember.",
        healthy="below `PENSTOCK_PRODUCER_IDS_MAX`, and below `producer.ids.max` for each partition",
        otherwise="A client makes a new producer for each few batches, or makes ids up. The logs forget about the longest "
        "silent; a batch that such a producer repeats is stored twice.",
    )
    def producer_ids(self) -> int:
        return self._producer_ids

    @GaugeDefinition(
        name=REPLICAS + "underreplicatedpartitions",
        help="Partitions that this node leads and that have replicas out of the ISR.",
        healthy="0",
        otherwise="A storage node is down or slow. `kafka-topics.sh --describe --under-replicated-partitions` names the "
        "partitions.",
    )
    def under_replicated(self) -> int:
        return self._under_replicated

    @GaugeDefinition(
        name=REPLICAS + "underminisrpartitioncount",
        help="Partitions that this node leads and whose ISR is smaller than min.insync.replicas.",
        healthy="0",
        otherwise="Producers with acks=all get NOT_ENOUGH_REPLICAS. Bring storage nodes back.",
    )
    def under_min_isr(self) -> int:
        return self._under_min_isr

    @GaugeDefinition(
        name=REPLICAS + "atminisrpartitioncount",
        help="Partitions that this node leads and whose ISR is exactly min.insync.replicas.",
        healthy="0 where topics have more replicas than that",
        otherwise="The next failure stops writes with acks=all. Bring storage nodes back first.",
    )
    def at_min_isr(self) -> int:
        return self._at_min_isr
