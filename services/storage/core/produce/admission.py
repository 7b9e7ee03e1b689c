"""Admission of a request to a partition: topic, replica, leadership, epoch, acks, ISR. Refusals are data, not exceptions.

Order as in Kafka: unknown (100, 3), leadership (6), then acks (21) and ISR size (19).
"""

from libs.cluster.configs.resolve import BY_FACTOR, default_min_in_sync
from libs.lean_dataclass import dataclass
from libs.wire.errors import ErrorCode

VALID_ACKS = (0, 1, -1)
NO_EPOCH = -1


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error for one partition. `leader` and `leader_epoch` are hints with NOT_LEADER_OR_FOLLOWER, -1 if unknown."""

    error: int
    message: str | None = None
    leader: int = -1
    leader_epoch: int = -1


def refuse_client_epoch(requested: int, current: int) -> int:
    """The error for an epoch that a *client* supplied: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH or 0."""
    if requested in (NO_EPOCH, current):
        return 0
    return int(ErrorCode.FENCED_LEADER_EPOCH if requested < current else ErrorCode.UNKNOWN_LEADER_EPOCH)


def refuse_caller_epoch(requested: int, current: int) -> Refusal | None:
    """The refusal for an epoch that a *gateway's image* supplied.

    A newer epoch: this node is behind, and cannot know who leads. An older one: the gateway is behind, but has found the leader.
    A refusal would let its batches of the new epoch, already on their way, overtake the retry of this one.
    """
    if requested <= current:
        return None
    return Refusal(int(ErrorCode.NOT_LEADER_OR_FOLLOWER), None, -1, current)


def effective_min_in_sync(min_insync_replicas: int, replication_factor: int) -> int:
    """The effective minimum of in-sync replicas.

    KIP-966: a minimum above the replication factor means "all of them", not "never". Without a configured minimum the factor
    decides.
    """
    if min_insync_replicas == BY_FACTOR:
        return default_min_in_sync(replication_factor)
    return max(1, min(min_insync_replicas, replication_factor))


def refuse_acks(acks: int, in_sync: int, min_in_sync: int) -> int:
    """The error for this `acks` before the append: INVALID_REQUIRED_ACKS, NOT_ENOUGH_REPLICAS or 0."""
    if acks not in VALID_ACKS:
        return int(ErrorCode.INVALID_REQUIRED_ACKS)
    if acks == -1 and in_sync < min_in_sync:
        return int(ErrorCode.NOT_ENOUGH_REPLICAS)
    return 0
