"""Whether a request may touch a partition: topic, replica, leadership, epoch, acks, ISR. Data, not exceptions.

Order as in Kafka (kafka-facts section 4): unknown (100, 3), leadership (6), then acks (21) and ISR size (19).
"""

from dataclasses import dataclass

from libs.cluster.configs.resolve import BY_FACTOR, default_min_in_sync
from libs.wire.errors import ErrorCode

VALID_ACKS = (0, 1, -1)
NO_EPOCH = -1


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error for one partition. `leader` and `leader_epoch` are hints with error 6, -1 when unknown."""

    error: int
    message: str | None = None
    leader: int = -1
    leader_epoch: int = -1


def refuse_client_epoch(requested: int, current: int) -> int:
    """The error for an epoch that a *client* supplied: 0, 74 FENCED_LEADER_EPOCH or 75 UNKNOWN_LEADER_EPOCH."""
    if requested in (NO_EPOCH, current):
        return 0
    return int(ErrorCode.FENCED_LEADER_EPOCH if requested < current else ErrorCode.UNKNOWN_LEADER_EPOCH)


def refuse_caller_epoch(requested: int, current: int) -> Refusal | None:
    """For an epoch that a *gateway's image* supplied.

    Newer: this node is behind, and cannot know who leads. Older: the gateway is behind and found the leader all the same. To
    refuse it would let batches that it sends in the new epoch, already on their way, be stored before this one's retry.
    """
    if requested <= current:
        return None
    return Refusal(int(ErrorCode.NOT_LEADER_OR_FOLLOWER), None, -1, current)


def effective_min_in_sync(min_insync_replicas: int, replication_factor: int) -> int:
    """KIP-966: a minimum above the replication factor means "all of them", not "never". Where nobody configured one, the factor
    decides."""
    if min_insync_replicas == BY_FACTOR:
        return default_min_in_sync(replication_factor)
    return max(1, min(min_insync_replicas, replication_factor))


def refuse_acks(acks: int, in_sync: int, min_in_sync: int) -> int:
    """The error for this `acks` before the append: 0, 21 INVALID_REQUIRED_ACKS or 19 NOT_ENOUGH_REPLICAS."""
    if acks not in VALID_ACKS:
        return int(ErrorCode.INVALID_REQUIRED_ACKS)
    if acks == -1 and in_sync < min_in_sync:
        return int(ErrorCode.NOT_ENOUGH_REPLICAS)
    return 0
