"""Holds back what followers outside the ISR are given, where an operator has throttled the leader's replica of it (KIP-73)."""

from collections.abc import Mapping

from libs.cluster.configs.resolve import effective_broker_int
from services.storage.core.in_sync import Standing
from services.storage.core.throttle import CopyAllowance, is_throttled
from services.storage.hosted import Hosted
from services.storage.partitions import Partitions

RATE, REPLICAS = "leader.replication.throttled.rate", "leader.replication.throttled.replicas"


class LeaderThrottle:
    """Who is in sync is never held back: that would hold back producers, and in the end throw it out of the ISR."""

    def __init__(self, partitions: Partitions, static: Mapping[str, str]) -> None:
        self._partitions = partitions
        self._static = static
        self._allowance = CopyAllowance()

    def applies(self, hosted: Hosted, follower: int) -> bool:
        if hosted.replica.isr.standing(follower) is not Standing.OUT:
            return False
        replicas = self._partitions.image.overrides("topic", hosted.topic).get(REPLICAS, "")
        return is_throttled(replicas, hosted.key[1], self._partitions.node_id)

    def gave(self, size: int, now: float) -> float:
        """So much was given, or nothing: the seconds until there may be more."""
        node_id = self._partitions.node_id
        rate = effective_broker_int(self._partitions.image, RATE, broker_id=node_id, static=self._static)
        return self._allowance.take(size, rate, now)
