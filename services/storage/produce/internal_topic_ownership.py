"""Claims of shards of internal topics, and the appends of their owners.

An append without a batch asks whether its owner is still the owner. A leader that was replaced unawares does not know of owners
that claimed from its successors, so it confirms its leadership first. An append with a batch needs none: the followers of a
replaced leader do not commit it.

The rules are in `services/storage/core/produce/ownership.py`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from libs.cluster.topic_names import INTERNAL_TOPICS
from libs.rpc.contracts.ownership import Claim, Claimed
from libs.rpc.messages.errors import ContractError
from libs.rpc.messages.schema import unpack
from libs.rpc.server.call import Call
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batches import BatchError
from services.storage.core.produce.admission import Refusal
from services.storage.core.produce.ownership import NOT_OWNED, UNCONFIRMED, Ownership, Standing
from services.storage.partition.append_answers import appended, refused_as, refused_batch
from services.storage.partition.leader_checks import Confirm
from services.storage.partition.partition import Key, Partition
from services.storage.partition.partition_table import PartitionTable
from services.storage.partition.pending_append import AppendCall

Stage = Callable[[Partition, AppendCall, int, memoryview], None]
"""Stages an append. Raises BatchError."""


class Owners:
    def __init__(self, partitions: PartitionTable, confirm: Confirm) -> None:
        self._partitions = partitions
        self._confirm = confirm
        self._by_key: dict[Key, Ownership] = {}

    def __len__(self) -> int:
        """The number of partitions whose owners are known."""
        return len(self._by_key)

    def forget(self, key: Key) -> None:
        """Forgets a partition that has left this node. If it comes back, the image holds every owner epoch that was claimed here:
        a claim names a leader epoch of this node, so its owner epoch was written before the state that took the partition away.
        """
        self._by_key.pop(key, None)

    def accept(self, call: Call) -> None:
        try:
            claim = unpack(Claim, call.body)
        except ContractError as error:
            call.fail(int(ErrorCode.INVALID_REQUEST), str(error))
            return
        partition = self._partitions.serving((claim.topic_id, claim.partition))
        call.reply(Claimed(partition.error) if isinstance(partition, Refusal) else self._claim(partition, claim))

    def take(
        self, admitted: Partition | Refusal, part: list[Any], request: AppendCall, slot: int, view: memoryview, stage: Stage
    ) -> None:
        """Stages or refuses an owner's append, in the layout of `contracts/storage.py`."""
        refusal = self._refuse(admitted, part, request.acks) if isinstance(admitted, Partition) else admitted
        if refusal is not None:
            request.settle(slot, refused_as(refusal))
            return
        assert isinstance(admitted, Partition)
        try:
            if view:
                stage(admitted, request, slot, view)
            else:
                self._confirm_owner(admitted, request, slot)
        except BatchError as error:
            request.settle(slot, refused_batch(error, admitted.log_start_offset))

    def _confirm_owner(self, partition: Partition, request: AppendCall, slot: int) -> None:
        leader_epoch = partition.leader_epoch
        confirmed = appended(partition.next_offset, -1, partition.log_start_offset)

        def on_confirmed(refusals: Mapping[Key, Refusal]) -> None:
            refusal = refusals.get(partition.key)
            if refusal is not None and (refusal.leader, refusal.leader_epoch) == (-1, leader_epoch):
                refusal = UNCONFIRMED
            request.settle(slot, refused_as(refusal) if refusal is not None else confirmed)

        self._confirm([partition], on_confirmed)

    def _refuse(self, partition: Partition, part: list[Any], acks: int) -> Refusal | None:
        if partition.topic not in INTERNAL_TOPICS:
            return NOT_OWNED
        _, _, leader_epoch, _, owner_epoch, claim, expected_offset = part[:7]
        return (self._by_key.get(partition.key) or self._of(partition)).refuse(
            Standing(leader_epoch, owner_epoch, claim),
            expected_offset,
            acks,
            leader_epoch=partition.replica.leader_epoch,
            image_owner_epoch=self._image_owner_epoch(partition),
            log_end=partition.next_offset,
        )

    def _claim(self, partition: Partition, claim: Claim) -> Claimed:
        if not is_internal(partition):
            return Claimed(NOT_OWNED.error)
        refusal = self._of(partition).claim(
            Standing(claim.leader_epoch, claim.owner_epoch, claim.claim),
            leader_epoch=partition.leader_epoch,
            image_owner_epoch=self._image_owner_epoch(partition),
        )
        if refusal is not None:
            return Claimed(refusal.error)
        # Behind what is staged, whose write comes at the end of this turn.
        return Claimed(0, partition.log_start_offset, partition.next_offset, partition.high_watermark)

    def _of(self, partition: Partition) -> Ownership:
        ownership = self._by_key.get(partition.key)
        if ownership is None:
            ownership = self._by_key[partition.key] = Ownership()
        return ownership

    def _image_owner_epoch(self, partition: Partition) -> int:
        state = self._partitions.image.partition(*partition.key)
        return state.owner_epoch if state is not None else -1


def is_internal(partition: Partition) -> bool:
    return partition.topic in INTERNAL_TOPICS


def is_owners(part: list[Any]) -> bool:
    """Whether an append names its owner. `append_answers.partitions_of` has checked its types. A gateway's append has four
    values."""
    return len(part) >= 7 and part[4] >= 0
