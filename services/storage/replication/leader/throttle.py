"""The leader's throttle (KIP-73): it holds back what followers outside the ISR are given."""

from services.storage.config import BrokerConfigs
from services.storage.core.replication.leader.in_sync import Standing
from services.storage.core.replication.throttle import CopyAllowance, is_throttled
from services.storage.partition.partition import Partition
from services.storage.partition.partition_table import PartitionTable

RATE, REPLICAS = "leader.replication.throttled.rate", "leader.replication.throttled.replicas"


class LeaderThrottle:
    """The throttle of one leader. It never holds back in-sync followers: that would delay producers, and drive them out of the
    ISR."""

    def __init__(self, partitions: PartitionTable, broker_configs: BrokerConfigs) -> None:
        self._partitions = partitions
        self._broker_configs = broker_configs
        self._allowance = CopyAllowance()

    def applies(self, partition: Partition, follower: int) -> bool:
        if partition.replica.isr.standing(follower) is not Standing.OUT:
            return False
        replicas = self._partitions.image.overrides("topic", partition.topic).get(REPLICAS, "")
        return is_throttled(replicas, partition.key[1], self._partitions.node_id)

    def take(self, size: int, now: float) -> float:
        """Counts given bytes. Returns the seconds until there may be more."""
        return self._allowance.take(size, self._broker_configs.integer(RATE), now)
