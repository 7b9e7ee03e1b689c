"""The internal partition as its leader serves it: claims and appends are refused by storage's own rules (`Ownership`).

What was appended is committed later. When the leader moves, a part of what is not committed is lost, and what is left is
committed by the next one.
"""

from collections.abc import Callable
from typing import Any

from libs.cluster.shard_owners import Owner
from libs.coordinator.core.decisions import KeyValue
from libs.coordinator.core.shard import Fence, PlannedAppend
from libs.coordinator.log.internal_log import Claimed, Refused, Stored
from libs.wire.errors import ErrorCode
from services.storage.core.produce.ownership import ImageOwner, Ownership, Standing
from tests.simulation.groups.simulator import Simulator

Outcome = Any
Reply = Callable[[Outcome], None]
ALL = -1


class Partition:
    def __init__(self, simulator: Simulator, on_committed: Callable[[list[KeyValue]], None]) -> None:
        self.simulator = simulator
        self.records: list[KeyValue] = []
        self.committed = 0
        self.leader_epoch = 1
        self.image_owner_epoch = 0
        self.commit_ms = 3.0
        """Of one append, about."""
        self.too_few = False
        """Replicas in sync."""
        self._nodes = [Ownership(), Ownership(), Ownership()]
        self._leader = 0
        self._ends: list[int] = []
        """Of batches that are not committed."""
        self._on_committed = on_committed

    @property
    def _fences(self) -> Ownership:
        return self._nodes[self._leader]

    @property
    def _image_owner(self) -> ImageOwner:
        return ImageOwner(str(_owner(self.image_owner_epoch)), self.image_owner_epoch)

    def claim(self, fence: Fence, reply: Reply) -> None:
        refusal = self._fences.claim(_standing(fence), leader_epoch=self.leader_epoch, image_owner=self._image_owner)
        reply(Refused(refusal.error) if refusal is not None else Claimed(0, len(self.records)))

    def append(self, planned: PlannedAppend, reply: Reply) -> None:
        refusal = self._fences.refuse(
            _standing(planned.fence),
            planned.offset,
            ALL,
            leader_epoch=self.leader_epoch,
            image_owner=self._image_owner,
            log_end=len(self.records),
        )
        if refusal is not None:
            reply(Refused(refusal.error))
        elif self.too_few:
            reply(Refused(ErrorCode.NOT_ENOUGH_REPLICAS))
        elif not planned.records:
            reply(Stored(planned.offset))
        else:
            self.records += planned.records
            self._ends.append(len(self.records))
            took_ms = self.commit_ms * (0.3 + self.simulator.random.random())
            self.simulator.later(took_ms, self._commit, self.leader_epoch, len(self.records), reply, planned.offset)

    def _commit(self, leader_epoch: int, end: int, reply: Reply | None, base: int) -> None:
        if leader_epoch != self.leader_epoch:
            return
        while self._ends and self._ends[0] <= end:
            upto = self._ends.pop(0)
            batch, self.committed = self.records[self.committed : upto], upto
            self._on_committed(batch)
        if reply is not None:
            reply(Stored(base))

    def move_leader(self) -> None:
        random = self.simulator.random
        kept = random.randint(0, len(self._ends))
        self._ends = self._ends[:kept]
        lost = len(self.records) - (self._ends[-1] if self._ends else self.committed)
        if lost:
            del self.records[len(self.records) - lost :]
        self.leader_epoch += 1
        self._leader = random.randrange(3)
        self.simulator.log_event(f"the leader moves, epoch {self.leader_epoch}; {lost} records are lost that were not committed")
        self.simulator.later(random.choice((5, 300)), self._commit, self.leader_epoch, len(self.records), None, 0)

    def compacted(self, start: int, end: int, *, cleaned: bool, tombstones: bool) -> list[tuple[int, KeyValue]]:
        """The records that a reader finds after compaction."""
        found = [(offset, self.records[offset]) for offset in range(start, end)]
        if not cleaned:
            return found
        last = {record.key: offset for offset, record in found}
        return [
            (offset, record)
            for offset, record in found
            if last[record.key] == offset and (tombstones or record.value is not None)
        ]


def _standing(fence: Fence) -> Standing:
    return Standing(fence.leader_epoch, fence.owner_epoch, fence.claim, _owner(fence.owner_epoch))


def _owner(epoch: int) -> Owner:
    """The process of that epoch: each is a new one here."""
    return Owner(1, epoch)
