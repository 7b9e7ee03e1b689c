"""Holds back copies of replicas while they catch up; those that have are let through.

Throttled are those that an operator named (KIP-73), and those that the cluster moves by itself, each by a rate of their own.
"""

from collections.abc import Callable, Mapping

from libs.cluster.configs.resolve import effective_broker_int
from libs.cluster.image import ClusterImage
from services.storage.core.throttle import CopyAllowance, is_throttled
from services.storage.following.followed import Followed

RATE, REPLICAS = "follower.replication.throttled.rate", "follower.replication.throttled.replicas"
MOVING_RATE = "self.balancing.bytes.per.second"


class FollowerThrottle:
    def __init__(self, node_id: int, image: Callable[[], ClusterImage], static: Mapping[str, str]) -> None:
        self._node_id = node_id
        self._image = image
        self._static = static
        self._allowance = CopyAllowance()
        self._moved = CopyAllowance()

    def copied(self, followed: Followed, size: int, now: float) -> float:
        """Seconds for which nothing more is asked of it."""
        if not size:
            return 0.0
        image, hosted = self._image(), followed.hosted
        wait_s = 0.0
        if is_throttled(image.overrides("topic", hosted.topic).get(REPLICAS, ""), hosted.key[1], self._node_id):
            rate = effective_broker_int(image, RATE, broker_id=self._node_id, static=self._static)
            wait_s = self._allowance.take(size, rate, now)
        state = image.partition(*hosted.key)
        if state is not None and state.paced and self._node_id in state.adding:
            wait_s = max(wait_s, self._moved.take(size, effective_broker_int(image, MOVING_RATE), now))
        return wait_s if followed.lag > 0 else 0.0
