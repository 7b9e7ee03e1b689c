"""Refusals by what the log knows of a producer, which only its leader may give: each waits until the store has said who leads.

A leader that was replaced, and has not heard so, lacks what its successor took. A gateway that has not heard so either may send
it the batch behind that, and a producer that is told OUT_OF_ORDER_SEQUENCE_NUMBER fails it. So it hears
NOT_LEADER_OR_FOLLOWER, as does everybody while the store does not answer: all that is lost then is time.

Neither the lease nor the image would do. Who lives is replaced too, by a reassignment or by a controller that took it for dead,
and a watch may lag for as long as it likes. Only who is refused costs a read, of one key, and one at a time for each partition.
"""

import asyncio
import logging
from typing import NamedTuple

from libs.cluster import keys
from libs.cluster.codec import RecordError, decode
from libs.cluster.records import PartitionState
from libs.cluster.store import MetadataStore, StoreUnavailable
from libs.telemetry.logs import fields
from libs.wire.batches import BatchError
from libs.wire.errors import ErrorCode
from services.storage.append_messages import Answer, refused_as, refused_batch
from services.storage.core.admission import Refusal
from services.storage.hosted import Hosted, Key
from services.storage.waiting import AppendRequest

log = logging.getLogger(__name__)

STORE_S_MAX = 1.0


class _Held(NamedTuple):
    """`answer` is true if this node leads in `leader_epoch` at any later moment: nobody else has led since."""

    request: AppendRequest
    slot: int
    leader_epoch: int
    answer: Answer


class SequenceRefusals:
    def __init__(self, loop: asyncio.AbstractEventLoop, node_id: int, store: MetadataStore) -> None:
        self._loop = loop
        self._node_id = node_id
        self._store = store
        self._held: dict[Key, list[_Held]] = {}
        self._tasks: dict[Key, asyncio.Task[None]] = {}

    def give(self, hosted: Hosted, request: AppendRequest, slot: int, error: BatchError) -> None:
        """`error`: of `ProducerState.check`. Answered later."""
        request.written()
        held = _Held(request, slot, hosted.leader_epoch, refused_batch(error, hosted.log_start_offset))
        self._held.setdefault(hosted.key, []).append(held)
        if hosted.key not in self._tasks:
            self._tasks[hosted.key] = self._loop.create_task(self._settle(hosted), name=f"who leads {hosted}")

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    async def _settle(self, hosted: Hosted) -> None:
        try:
            while held := self._held.pop(hosted.key, None):
                state = await self._state(hosted)  # who comes amid it waits for the next: this read may have been served before
                for one in held:
                    one.request.settle(one.slot, self._answer(one, state))
        finally:
            del self._tasks[hosted.key]

    async def _state(self, hosted: Hosted) -> PartitionState | None:
        """None: it is gone, or nobody says in time."""
        try:
            async with asyncio.timeout(STORE_S_MAX):
                found = await self._store.get(keys.partition(*hosted.key))
            return decode(PartitionState, found.value) if found is not None else None
        except (StoreUnavailable, TimeoutError, RecordError) as error:
            log.info("cannot know whether it leads", extra=fields(partition=hosted, reason=str(error) or type(error).__name__))
            return None

    def _answer(self, one: _Held, state: PartitionState | None) -> Answer:
        not_leader = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if state is None:
            return refused_as(Refusal(not_leader, None, -1, one.leader_epoch))
        if (state.leader, state.leader_epoch) == (self._node_id, one.leader_epoch):
            return one.answer
        leader = -1 if state.leader == self._node_id else state.leader
        return refused_as(Refusal(not_leader, None, leader, state.leader_epoch))
