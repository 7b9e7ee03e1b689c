"""The follower's throttle (KIP-73): it holds back replicas that still catch up, and lets in-sync ones through.

It throttles the replicas that an operator named (KIP-73), and those that the cluster moves by itself, each group by its own rate.
"""

from libs.cluster.configs.resolve import effective_broker_int
from services.storage.config import BrokerConfigs
from services.storage.core.replication.throttle import CopyAllowance, is_throttled
from services.storage.replication.follower.followed_partition import FollowedPartition

RATE, REPLICAS = "follower.replication.throttled.rate", "follower.replication.throttled.replicas"
MOVING_RATE = "self.balancing.bytes.per.second"


class FollowerThrottle:
    def __init__(self, broker_configs: BrokerConfigs) -> None:
        self._broker_configs = broker_configs
        self._node_id = broker_configs.node_id
        self._allowance = CopyAllowance()
        self._moved = CopyAllowance()

    def copied(self, followed: FollowedPartition, size: int, now: float) -> float:
        """Counts copied bytes. Returns the seconds for which the partition is not pulled."""
        if not size:
            return 0.0
        image, partition = self._broker_configs.image(), followed.partition
        wait_s = 0.0
        if is_throttled(image.overrides("topic", partition.topic).get(REPLICAS, ""), partition.key[1], self._node_id):
            wait_s = self._allowance.take(size, self._broker_configs.integer(RATE), now)
        state = image.partition(*partition.key)
        if state is not None and state.paced and self._node_id in state.adding:
            wait_s = max(wait_s, self._moved.take(size, effective_broker_int(image, MOVING_RATE), now))
        return wait_s if followed.lag > 0 else 0.0
