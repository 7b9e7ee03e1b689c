"""How the owner of a shard (a partition of an internal topic) makes itself the only one who writes it. Answered by its leader.

*Rule: fencing* (DESIGN section 8). A claim is taken in one leader epoch. From then on the leader stores there only what names
this claim in `storage.AppendPartition` (`owner_epoch`, `claim`) and the offset at which the log ends.
"""

from dataclasses import dataclass

CLAIM = "storage.claim"


@dataclass(frozen=True, slots=True)
class Claim:
    topic_id: bytes  # 16
    partition: int
    leader_epoch: int  # as the caller's image has it: any other is refused, 74 where the leader's is newer
    owner_epoch: int  # as the partition's state names the caller
    claim: int  # rises with each claim of one owner epoch: it fences also what the owner itself sent before


@dataclass(frozen=True, slots=True)
class Claimed:
    """`error` 0: taken. 16: there is a newer owner. 6, 74, 3, 100: ask whom the image names now. 56: the log is offline.

    Whatever the log holds, or may come to hold, lies below `log_end_offset`; from `high_watermark` on it is not yet committed.
    """

    error: int
    log_start_offset: int = -1
    log_end_offset: int = -1
    high_watermark: int = -1
