"""Ownership of a shard of an internal topic: only the claimant of this leader epoch may append, and only at the log's end.

*Rule: fencing* (docs/rules.md). A claim or an append is refused if its owner epoch is lower than the highest that was seen here,
or that the image holds. Offsets alone would not do: a deposed owner's second append would fit behind its first. The claim's
number fences appends that the owner itself sent before it claimed again, and that may still be on their way.

Only the process that is named as the owner in an epoch may claim in it. The image names it; or the store or a controller does,
when a claim is ahead of the image, since a leader whose image is late must not hold up a shard. The claimant's own word does not
count, so a coordinator that lies takes no shard. A claim outlives images with lower epochs: each of them may name an owner that
was deposed since.
"""

from typing import Final, NamedTuple

from libs.cluster.shard_owners import Owner
from libs.wire.errors import ErrorCode
from services.storage.core.produce.admission import Refusal

NOT_LEADER_OR_FOLLOWER: Final = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
FENCED_LEADER_EPOCH: Final = int(ErrorCode.FENCED_LEADER_EPOCH)
NOT_COORDINATOR: Final = int(ErrorCode.NOT_COORDINATOR)
OFFSET_OUT_OF_RANGE: Final = int(ErrorCode.OFFSET_OUT_OF_RANGE)
INVALID_REQUEST: Final = int(ErrorCode.INVALID_REQUEST)
NOT_ENOUGH_REPLICAS: Final = int(ErrorCode.NOT_ENOUGH_REPLICAS)

COORDINATOR_ONLY = Refusal(int(ErrorCode.INVALID_TOPIC_EXCEPTION), "only its coordinator writes an internal topic")
UNCONFIRMED = Refusal(NOT_ENOUGH_REPLICAS, "neither the in-sync followers nor the store say who leads")
"""The owner may still be the owner, so it need not claim again."""
UNNAMED_OWNER = Refusal(NOT_ENOUGH_REPLICAS, "nobody names the claimant as the owner here yet")
"""The claimant may be the owner, and claims again."""
NOT_OWNED = Refusal(INVALID_REQUEST, "only internal topics have owners")


class Standing(NamedTuple):
    """A claim as it was made. Each append is compared with the whole of it."""

    leader_epoch: int
    owner_epoch: int
    claim: int
    owner: Owner  # the process that claims or appends, by its hello


class ImageOwner(NamedTuple):
    """The owner of a shard, as an image or the store names it. Without a state, the epoch is -1."""

    name: str
    epoch: int


NO_OWNER: Final = ImageOwner("", -1)


class Ownership:
    """The ownership of one partition, for as long as its node runs.

    Owner epochs outlive leaderships, since followers' images hold them too.
    """

    __slots__ = ("highest", "standing")

    def __init__(self) -> None:
        self.standing: Standing | None = None
        self.highest = -1

    def claim(self, wanted: Standing, *, leader_epoch: int, image_owner: ImageOwner) -> Refusal | None:
        """The refusal of a claim. None: the claim stands now. `UNNAMED_OWNER`: it is ahead of the owner that is given."""
        if refusal := _refuse_leader_epoch(wanted.leader_epoch, leader_epoch):
            return refusal
        if refusal := self._refuse_owner_epoch(wanted.owner_epoch, image_owner.epoch):
            return refusal
        if refusal := _refuse_owner(wanted, image_owner):
            return refusal
        standing = self.standing
        if standing is not None and (standing.owner_epoch, standing.owner) == (wanted.owner_epoch, wanted.owner):
            if standing.claim >= wanted.claim:
                return Refusal(FENCED_LEADER_EPOCH, f"claim {standing.claim} of this owner was taken before claim {wanted.claim}")
        elif wanted.owner_epoch > image_owner.epoch:
            return UNNAMED_OWNER
        self.highest = wanted.owner_epoch
        self.standing = wanted
        return None

    def refuse(
        self, writer: Standing, expected_offset: int, acks: int, *, leader_epoch: int, image_owner: ImageOwner, log_end: int
    ) -> Refusal | None:
        """The refusal of an append. None: the append may be staged now."""
        if writer.leader_epoch != leader_epoch:
            return _refuse_leader_epoch(writer.leader_epoch, leader_epoch)
        if writer.owner_epoch < self.highest or writer.owner_epoch < image_owner.epoch:
            return self._refuse_owner_epoch(writer.owner_epoch, image_owner.epoch)
        if refusal := _refuse_owner(writer, image_owner):
            return refusal
        if writer != self.standing:
            return Refusal(FENCED_LEADER_EPOCH, "the claim that this append names does not stand", -1, leader_epoch)
        if expected_offset != log_end:
            return Refusal(OFFSET_OUT_OF_RANGE, f"the log ends at {log_end}, not at {expected_offset}")
        if acks != -1:
            return Refusal(INVALID_REQUEST, "an owner's appends are acknowledged by all")
        return None

    def _refuse_owner_epoch(self, epoch: int, image_owner_epoch: int) -> Refusal | None:
        newest = max(self.highest, image_owner_epoch)
        if epoch < newest:
            return Refusal(NOT_COORDINATOR, f"owner epoch {epoch} is not the newest, {newest}")
        return None


def _refuse_owner(standing: Standing, image_owner: ImageOwner) -> Refusal | None:
    if standing.owner_epoch == image_owner.epoch and str(standing.owner) != image_owner.name:
        return Refusal(NOT_COORDINATOR, f"{image_owner.name or 'nobody'} owns it, not {standing.owner}")
    return None


def _refuse_leader_epoch(named: int, current: int) -> Refusal | None:
    if named == current:
        return None
    return Refusal(FENCED_LEADER_EPOCH if named < current else NOT_LEADER_OR_FOLLOWER, None, -1, current)
