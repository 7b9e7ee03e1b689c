"""Checks with the store whether this node still leads, before a refusal that only the true leader may give.

A leader that was replaced without knowing it lacks the records of its successor. A gateway that does not know it either may send
it a batch behind those, or a read past its end. OUT_OF_ORDER_SEQUENCE_NUMBER makes a producer fail the batch, and
OFFSET_OUT_OF_RANGE sends a consumer elsewhere in the log. So such requests get NOT_LEADER_OR_FOLLOWER, also while the store does
not answer: that costs only time.

Neither the lease nor the image would do. A live leader is replaced too, by a reassignment, or by a controller that took it for
dead. And a watch may lag for any time. A check costs a read of one key, one at a time for each partition, and only refused
requests wait for it.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping

from libs.cluster import keys
from libs.cluster.codec import RecordError, decode
from libs.cluster.records import PartitionState
from libs.cluster.store import MetadataStore, StoreUnavailable
from libs.telemetry.logs import fields
from libs.wire.errors import ErrorCode
from services.storage.core.produce.admission import Refusal
from services.storage.partition.partition import Key, Partition

log = logging.getLogger("replication")

STORE_S_MAX = 1.0

OnChecked = Callable[[Refusal | None], None]
"""None: this node still leads, in the epoch of the check's beginning, and nobody else has led since. Else the refusal."""

OnConfirmed = Callable[[Mapping[Key, Refusal]], None]
Confirm = Callable[[Collection[Partition], OnConfirmed], None]
"""Confirms that this node leads partitions (`services/storage/replication/leader/leadership_confirmations.py`). The mapping has
the refusals of those of which nobody can say so."""


class LeaderChecks:
    def __init__(self, node_id: int, store: MetadataStore) -> None:
        self._node_id = node_id
        self._store = store
        self._waiting: dict[Key, list[tuple[int, OnChecked]]] = {}
        self._tasks: dict[Key, asyncio.Task[None]] = {}

    def check(self, partition: Partition, on_checked: OnChecked) -> None:
        """Checks a partition that this node leads as far as it knows. `on_checked` is called later, unless the node stops
        before."""
        self._waiting.setdefault(partition.key, []).append((partition.leader_epoch, on_checked))
        if partition.key not in self._tasks:
            self._tasks[partition.key] = asyncio.get_running_loop().create_task(
                self._answer(partition), name=f"who leads {partition}"
            )

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    async def _answer(self, partition: Partition) -> None:
        try:
            while waiting := self._waiting.pop(partition.key, None):
                # a check that comes meanwhile waits for the next read: this one may have been served before
                state = await self.stored_state(partition)
                for leader_epoch, on_checked in waiting:
                    on_checked(self._refusal(leader_epoch, state))
        finally:
            del self._tasks[partition.key]

    async def stored_state(self, partition: Partition) -> PartitionState | None:
        """The state in the store. None: the state is gone, or the store does not answer in time."""
        try:
            async with asyncio.timeout(STORE_S_MAX):
                record = await self._store.get(keys.partition(*partition.key))
            return decode(PartitionState, record.value) if record is not None else None
        except (StoreUnavailable, TimeoutError, RecordError) as error:
            log.info("cannot check leadership", extra=fields(partition=partition, reason=str(error) or type(error).__name__))
            return None

    def _refusal(self, leader_epoch: int, state: PartitionState | None) -> Refusal | None:
        not_leader = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if state is None:
            return Refusal(not_leader, None, -1, leader_epoch)
        if (state.leader, state.leader_epoch) == (self._node_id, leader_epoch):
            return None
        return Refusal(not_leader, None, -1 if state.leader == self._node_id else state.leader, state.leader_epoch)
