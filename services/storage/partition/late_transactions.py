"""The metric of transactions that no coordinator will end any more (KIP-664)."""

from collections.abc import Generator, Sequence
from typing import Final

from libs.clock import Clock
from libs.cluster.configs.resolve import effective_broker_int
from libs.telemetry.definitions import GaugeDefinition, MetricSet, with_pauses
from services.storage.partition.open_transactions import has_late_one
from services.storage.partition.partition import Partition
from services.storage.partition.partition_table import PartitionTable

PARTITIONS_AT_ONCE: Final = 10
"""Each may have a thousand open transactions that are looked at."""


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
    def late(self) -> Generator[None, None, int]:
        now_ms = self._clock.wall_ms()
        timeout_ms_max = effective_broker_int(self._partitions.image, "transaction.max.timeout.ms")
        found: list[Partition] = []

        def look(partitions: Sequence[Partition]) -> None:
            led = [partition for partition in partitions if partition.leading]
            found.extend([partition for partition in led if has_late_one(partition, now_ms, timeout_ms_max)])

        yield from with_pauses(list(self._partitions.by_key.values()), look, PARTITIONS_AT_ONCE)
        return len(found)
