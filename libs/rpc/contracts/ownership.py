"""The claim by which the owner of a shard (a partition of an internal topic) becomes its only writer. Its leader answers. A
leader that has not heard of that owner may ask the controllers (`ShardOwner`).

*Rule: fencing* (docs/rules.md). A claim holds in one leader epoch. From then on the leader stores an append only if it names this
claim in `storage.AppendPartition` (`owner_epoch`, `claim`) and the offset at which the log ends.
"""

from libs.lean_dataclass import dataclass

CLAIM = "storage.claim"
SHARD_OWNER = "controller.shard_owner"


@dataclass(frozen=True, slots=True)
class Claim:
    topic_id: bytes  # 16
    partition: int
    # that of the caller's image. Any other is refused, with FENCED_LEADER_EPOCH (74) where the leader's is newer
    leader_epoch: int
    owner_epoch: int  # as the partition's state names the caller
    claim: int  # rises with each claim of one owner epoch, so that earlier appends of the same owner are fenced too


@dataclass(frozen=True, slots=True)
class Claimed:
    """The outcome of a claim. `error` 0: the shard is taken. 16 NOT_COORDINATOR: there is a newer owner, or the
    image names another one in this epoch. 6 NOT_LEADER_OR_FOLLOWER, 74 FENCED_LEADER_EPOCH, 3 UNKNOWN_TOPIC_OR_PARTITION, 100
    UNKNOWN_TOPIC_ID: ask the leader that the image names now. 56 KAFKA_STORAGE_ERROR: the log is offline. 19
    NOT_ENOUGH_REPLICAS: neither the image nor the store nor a controller names this owner to the leader yet: claim again.

    Every record that is in the log, or may still get there, lies below `log_end_offset`. From `high_watermark` on
    they are not yet committed.
    """

    error: int
    log_start_offset: int = -1
    log_end_offset: int = -1
    high_watermark: int = -1


@dataclass(frozen=True, slots=True)
class ShardOwner:
    """The question of whom the image of a controller names as the owner of a shard. Any controller answers, elected or not."""

    topic_id: bytes  # 16
    partition: int


@dataclass(frozen=True, slots=True)
class NamedOwner:
    owner: str  # "node id@incarnation"; "": nobody
    owner_epoch: int  # -1: the image has no such partition
