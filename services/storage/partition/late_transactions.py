"""The metric of transactions that no coordinator will end any more (KIP-664)."""

from libs.clock import Clock
from libs.cluster.configs.resolve import effective_broker_int
from libs.telemetry.definitions import GaugeDefinition, MetricSet
from services.storage.partition.open_transactions import has_late_one
from services.storage.partition.partition_table import PartitionTable


class LateTransactions(MetricSet):
    """A collector in the service's registry."""

    def __init__(self, partitions: PartitionTable, clock: Clock) -> None:
        super().__init__()
        self._partitions = partitions
        self._clock = clock

    @GaugeDefinition(
        name="kafka_server_replicamanager_partitionswithlatetransactionscount",
        help="Partitions that this node leads, with a transaction that has been open for five minutes longer than "
        "`transaction.max.timeout.ms`.",
        healthy="0",
        otherwise="No coordinator ends it, and readers of committed records wait. `kafka-transactions.sh find-hanging` names "
        "it, and `abort` ends it.",
    )
    def late(self) -> int:
        now_ms = self._clock.wall_ms()
        timeout_ms_max = effective_broker_int(self._partitions.image, "transaction.max.timeout.ms")
        led = (partition for partition in self._partitions.by_key.values() if partition.leading)
        return sum(has_late_one(partition, now_ms, timeout_ms_max) for partition in led)
