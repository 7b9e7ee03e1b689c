"""Claims of internal partitions, and the appends of those who claimed. The rules stand in `core/ownership.py`."""

from collections.abc import Callable
from typing import Any

from libs.cluster.topic_names import INTERNAL_TOPICS
from libs.rpc.call import Call
from libs.rpc.contracts.ownership import Claim, Claimed
from libs.rpc.errors import ContractError
from libs.rpc.schema import unpack
from libs.wire.batches import BatchError
from libs.wire.errors import ErrorCode
from services.storage.append_messages import appended, refused_as, refused_batch
from services.storage.core.admission import Refusal
from services.storage.core.ownership import NOT_OWNED, Ownership, Standing
from services.storage.hosted import Hosted, Key
from services.storage.partitions import Partitions
from services.storage.waiting import AppendRequest

Stage = Callable[[Hosted, AppendRequest, int, memoryview], None]
"""Raises BatchError."""


class Owners:
    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions
        self._by_key: dict[Key, Ownership] = {}

    def accept(self, call: Call) -> None:
        try:
            wanted = unpack(Claim, call.body)
        except ContractError as error:
            call.fail(int(ErrorCode.INVALID_REQUEST), str(error))
            return
        found = self._partitions.serving((wanted.topic_id, wanted.partition))
        call.reply(Claimed(found.error) if isinstance(found, Refusal) else self._claim(found, wanted))

    def take(
        self, found: Hosted | Refusal, part: list[Any], request: AppendRequest, slot: int, view: memoryview, stage: Stage
    ) -> None:
        """An owner's append, as `contracts/storage.py` has it: staged now, or refused."""
        refusal = self._refuse(found, part, request.acks) if isinstance(found, Hosted) else found
        if refusal is not None:
            request.settle(slot, refused_as(refusal))
            return
        assert isinstance(found, Hosted)
        try:
            if view:
                stage(found, request, slot, view)
            else:
                request.settle(slot, appended(found.next_offset, -1, found.log_start_offset))
        except BatchError as error:
            request.settle(slot, refused_batch(error, found.log_start_offset))

    def _refuse(self, hosted: Hosted, part: list[Any], acks: int) -> Refusal | None:
        if hosted.topic not in INTERNAL_TOPICS:
            return NOT_OWNED
        _, _, leader_epoch, _, owner_epoch, claim, expected_offset = part[:7]
        return (self._by_key.get(hosted.key) or self._of(hosted)).refuse(
            *(Standing(leader_epoch, owner_epoch, claim), expected_offset, acks),
            leader_epoch=hosted.replica.leader_epoch,
            image_owner_epoch=self._image_owner_epoch(hosted),
            log_end=hosted.next_offset,
        )

    def _claim(self, hosted: Hosted, wanted: Claim) -> Claimed:
        if not is_internal(hosted):
            return Claimed(NOT_OWNED.error)
        refusal = self._of(hosted).claim(
            Standing(wanted.leader_epoch, wanted.owner_epoch, wanted.claim),
            leader_epoch=hosted.leader_epoch,
            image_owner_epoch=self._image_owner_epoch(hosted),
        )
        if refusal is not None:
            return Claimed(refusal.error)
        # Past what is staged: its write is to come, in this very turn.
        return Claimed(0, hosted.log_start_offset, hosted.next_offset, hosted.high_watermark)

    def _of(self, hosted: Hosted) -> Ownership:
        found = self._by_key.get(hosted.key)
        if found is None:
            found = self._by_key[hosted.key] = Ownership()
        return found

    def _image_owner_epoch(self, hosted: Hosted) -> int:
        state = self._partitions.image.partition(*hosted.key)
        return state.owner_epoch if state is not None else -1


def is_internal(hosted: Hosted) -> bool:
    return hosted.topic in INTERNAL_TOPICS


def is_owners(part: list[Any]) -> bool:
    """Whether an append names its owner, of one that `append_messages.partitions_of` let through, types and all. A gateway's is
    four values long."""
    return len(part) >= 7 and part[4] >= 0
