"""Whether this node leads still, by the store's word: asked before a refusal that is true only of the leader's log.

A leader that was replaced, and has not heard so, lacks what its successor took. A gateway that has not heard so either may send
it a batch behind that, or a read past its own end. A producer that is told OUT_OF_ORDER_SEQUENCE_NUMBER fails the batch, and a
consumer that is told OFFSET_OUT_OF_RANGE goes elsewhere in the log. So they hear NOT_LEADER_OR_FOLLOWER, as does everybody while
the store does not answer: all that is lost then is time.

Neither the lease nor the image would do. Who lives is replaced too, by a reassignment or by a controller that took it for dead,
and a watch may lag for as long as it likes. A check costs a read of one key, one at a time for each partition, and only those who
are refused wait for it.
"""

import asyncio
import logging
from collections.abc import Callable

from libs.cluster import keys
from libs.cluster.codec import RecordError, decode
from libs.cluster.records import PartitionState
from libs.cluster.store import MetadataStore, StoreUnavailable
from libs.telemetry.logs import fields
from libs.wire.errors import ErrorCode
from services.storage.core.admission import Refusal
from services.storage.hosted import Hosted, Key

log = logging.getLogger(__name__)

STORE_S_MAX = 1.0

Then = Callable[[Refusal | None], None]
"""None: this node leads, in the epoch in which it led when it was asked, and nobody else has led since. Else what to answer."""


class LeaderChecks:
    def __init__(self, node_id: int, store: MetadataStore) -> None:
        self._node_id = node_id
        self._store = store
        self._asked: dict[Key, list[tuple[int, Then]]] = {}
        self._tasks: dict[Key, asyncio.Task[None]] = {}

    def ask(self, hosted: Hosted, then: Then) -> None:
        """Of a partition that this node leads as far as it knows. `then` is called later, unless the node stops before."""
        self._asked.setdefault(hosted.key, []).append((hosted.leader_epoch, then))
        if hosted.key not in self._tasks:
            self._tasks[hosted.key] = asyncio.get_running_loop().create_task(self._answer(hosted), name=f"who leads {hosted}")

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    async def _answer(self, hosted: Hosted) -> None:
        try:
            while asked := self._asked.pop(hosted.key, None):
                state = await self._state(hosted)  # who asks amid it waits for the next: this read may have been served before
                for leader_epoch, then in asked:
                    then(self._refusal(leader_epoch, state))
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

    def _refusal(self, leader_epoch: int, state: PartitionState | None) -> Refusal | None:
        not_leader = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if state is None:
            return Refusal(not_leader, None, -1, leader_epoch)
        if (state.leader, state.leader_epoch) == (self._node_id, leader_epoch):
            return None
        return Refusal(not_leader, None, -1 if state.leader == self._node_id else state.leader, state.leader_epoch)
