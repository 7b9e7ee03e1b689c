"""Claims of shards of internal topics, and the appends of their owners.

An append without a batch asks whether its owner is still the owner. A leader that was replaced unawares does not know of owners
that claimed from its successors, so it confirms its leadership first. An append with a batch needs none: the followers of a
replaced leader do not commit it.

A claim may be ahead of this node's image. Then it waits for an answer of the store or of the controllers
(`services/storage/produce/owner_questions.py`), which is decided upon like an image. Claims of one owner may so overtake each
other; the lower number is refused.

The rules are in `services/storage/core/produce/ownership.py`.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from libs.cluster.shard_owners import OWNED_BY, Owner
from libs.rpc.contracts.ownership import Claim, Claimed
from libs.rpc.messages.errors import ContractError
from libs.rpc.messages.schema import unpack
from libs.rpc.server.call import Call
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batches import BatchError
from services.storage.core.produce.admission import Refusal
from services.storage.core.produce.ownership import (
    NO_OWNER,
    NOT_OWNED,
    UNCONFIRMED,
    UNNAMED_OWNER,
    ImageOwner,
    Ownership,
    Standing,
)
from services.storage.partition.append_answers import appended, refused_as, refused_batch
from services.storage.partition.coordinator_topics import require_own
from services.storage.partition.leader_checks import Confirm
from services.storage.partition.partition import Key, Partition
from services.storage.partition.partition_table import PartitionTable
from services.storage.partition.pending_append import AppendCall

OnOwner = Callable[[ImageOwner], None]
AskOwner = Callable[[Partition, OnOwner], None]
"""Asks who is named as the owner of a shard, beyond this node's image. The answer is `NO_OWNER` where nobody can say, and comes
later, unless the node stops before."""

Stage = Callable[[Partition, AppendCall, int, memoryview], None]
"""Stages an append. Raises BatchError."""


class Owners:
    def __init__(self, partitions: PartitionTable, confirm: Confirm, ask_owner: AskOwner) -> None:
        self._partitions = partitions
        self._confirm = confirm
        self._ask_owner = ask_owner
        self._by_key: dict[Key, Ownership] = {}

    def __len__(self) -> int:
        """The number of partitions whose owners are known."""
        return len(self._by_key)

    def forget(self, key: Key) -> None:
        """Forgets a partition that has left this node. If it comes back, the image holds every owner epoch that was claimed here:
        the store named its owner before the state that took the partition away.
        """
        self._by_key.pop(key, None)

    def accept(self, call: Call) -> None:
        try:
            claim = unpack(Claim, call.body)
        except ContractError as error:
            call.fail(int(ErrorCode.INVALID_REQUEST), str(error))
            return
        key = claim.topic_id, claim.partition
        require_own(call.peer, call.method, self._partitions, (key,))
        wanted = Standing(claim.leader_epoch, claim.owner_epoch, claim.claim, Owner(call.peer.node_id, call.peer.incarnation))
        partition = self._partitions.serving(key)
        if isinstance(partition, Refusal):
            call.reply(Claimed(partition.error))
        elif (answer := self._claim(partition, wanted, NO_OWNER)) is not None:
            call.reply(answer)
        else:
            self._ask_owner(partition, partial(self._decide, call, key, wanted))

    def _decide(self, call: Call, key: Key, wanted: Standing, named: ImageOwner) -> None:
        """Answers a claim that was ahead of the image."""
        partition = self._partitions.serving(key)
        if isinstance(partition, Refusal):
            call.reply(Claimed(partition.error))
        else:
            call.reply(self._claim(partition, wanted, named) or Claimed(UNNAMED_OWNER.error))

    def take(
        self, admitted: Partition | Refusal, part: list[Any], request: AppendCall, slot: int, view: memoryview, stage: Stage
    ) -> None:
        """Stages or refuses an owner's append, in the layout of `contracts/storage.py`."""
        refusal = self._refuse(admitted, part, request) if isinstance(admitted, Partition) else admitted
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

    def _refuse(self, partition: Partition, part: list[Any], request: AppendCall) -> Refusal | None:
        peer = request.call.peer
        if OWNED_BY.get(partition.topic) != peer.role:
            return NOT_OWNED
        _, _, leader_epoch, _, owner_epoch, claim, expected_offset = part[:7]
        return (self._by_key.get(partition.key) or self._of(partition)).refuse(
            Standing(leader_epoch, owner_epoch, claim, Owner(peer.node_id, peer.incarnation)),
            expected_offset,
            request.acks,
            leader_epoch=partition.replica.leader_epoch,
            image_owner=self._image_owner(partition),
            log_end=partition.next_offset,
        )

    def _claim(self, partition: Partition, wanted: Standing, named: ImageOwner) -> Claimed | None:
        """The answer to a claim, if the newest of the image and `named` names an owner in its epoch."""
        image_owner = max(self._image_owner(partition), named, key=_epoch)
        refusal = self._of(partition).claim(wanted, leader_epoch=partition.leader_epoch, image_owner=image_owner)
        if refusal is UNNAMED_OWNER:
            return None
        if refusal is not None:
            return Claimed(refusal.error)
        # Behind what is staged, whose write comes at the end of this turn.
        return Claimed(0, partition.log_start_offset, partition.next_offset, partition.high_watermark)

    def _of(self, partition: Partition) -> Ownership:
        ownership = self._by_key.get(partition.key)
        if ownership is None:
            ownership = self._by_key[partition.key] = Ownership()
        return ownership

    def _image_owner(self, partition: Partition) -> ImageOwner:
        state = self._partitions.image.partition(*partition.key)
        return ImageOwner(state.owner, state.owner_epoch) if state is not None else NO_OWNER


def _epoch(owner: ImageOwner) -> int:
    return owner.epoch


def is_owners(part: list[Any]) -> bool:
    """Whether an append names its owner. `append_answers.partitions_of` has checked its types. A gateway's append has four
    values."""
    return len(part) >= 7 and part[4] >= 0
