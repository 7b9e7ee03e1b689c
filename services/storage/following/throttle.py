"""Holds back copies of replicas that an operator has throttled, while they catch up; those that have are let through (KIP-73)."""

from collections.abc import Callable, Mapping

from libs.cluster.configs.resolve import effective_broker_int
from libs.cluster.image import ClusterImage
from services.storage.core.throttle import CopyAllowance, is_throttled
from services.storage.following.followed import Followed

RATE, REPLICAS = "follower.replication.throttled.rate", "follower.replication.throttled.replicas"


class FollowerThrottle:
    def __init__(self, node_id: int, image: Callable[[], ClusterImage], static: Mapping[str, str]) -> None:
        self._node_id = node_id
        self._image = image
        self._static = static
        self._allowance = CopyAllowance()

    def copied(self, followed: Followed, size: int, now: float) -> float:
        """Seconds for which nothing more is asked of it."""
        hosted = followed.hosted
        replicas = self._image().overrides("topic", hosted.topic).get(REPLICAS, "")
        if not size or not is_throttled(replicas, hosted.key[1], self._node_id):
            return 0.0
        rate = effective_broker_int(self._image(), RATE, broker_id=self._node_id, static=self._static)
        wait_s = self._allowance.take(size, rate, now)
        return wait_s if followed.lag > 0 else 0.0
