"""Writes the markers of prepared transactions to the leaders of their partitions, until each partition has its own.

One request is on its way to a node at a time. What comes meanwhile shares the next one. A leader that cannot store a marker, or
does not answer, gets it again; a leader that has moved is looked up in the newest image. A topic that is gone needs no marker.

**A late marker must not end the next transaction.** Clients before `transaction.version` 2 keep their epoch, so a marker that was
delayed on its way would fit. Requests have numbers that rise, and leaders refuse lower ones of the same shard. So a marker that
was sent twice is not stored behind its second copy. It names the leader epoch, so another leader does not take it. A transaction
is completed only when each partition has answered: what was sent before is stored, or refused.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from libs.cluster.image import ClusterImage
from libs.rpc.contracts.storage import AppendReply
from libs.rpc.contracts.transactions import WRITE_MARKERS, Marker, WriteMarkers
from libs.rpc.errors import ContractError, RpcFailure
from libs.rpc.schema import pack, unpack
from libs.runtime.storage_nodes import StorageNodes
from libs.telemetry.logs import fields
from libs.wire.errors import ErrorCode
from services.transaction_coordinator.core.states import State
from services.transaction_coordinator.core.transaction import TRANSACTION_VERSION_2, TopicPartition, Transaction

log = logging.getLogger(__name__)

MARKERS_MAX: Final = 1_000
"""Most markers of one request: some milliseconds of a leader's work."""
TIMEOUT_S: Final = 5.0
"""How long a leader may take to commit markers. What it has not committed then is sent again."""
ANSWER_S: Final = 1.0
"""Extra time for its answer."""
RETRY_S: Final = 0.1
"""The pause after a failure. A new image ends it."""

NONE: Final = int(ErrorCode.NONE)
FINAL: Final = frozenset((NONE, int(ErrorCode.INVALID_PRODUCER_EPOCH), int(ErrorCode.TRANSACTION_COORDINATOR_FENCED)))
"""Answers after which a partition needs no marker of this coordinator any more."""


@dataclass(eq=False, slots=True)
class _Ending:
    """A prepared transaction, and its partitions that have no marker yet."""

    shard: int
    owner_epoch: int
    prepared: Transaction
    missing: set[TopicPartition] = field(default_factory=set)


class MarkerWriter:
    """The markers of all shards of this process. Call `follow` with each image, and `close` at the end.

    `owns(shard, owner_epoch)` tells whether the shard still belongs to this process. `on_written(shard, owner_epoch, prepared)`
    is called when each partition of a transaction has its marker.
    """

    def __init__(
        self,
        nodes: StorageNodes,
        owns: Callable[[int, int], bool],
        on_written: Callable[[int, int, Transaction], None],
    ) -> None:
        self._nodes = nodes
        self._owns = owns
        self._on_written = on_written
        self._loop = asyncio.get_running_loop()
        self._image = ClusterImage()
        self._endings: dict[tuple[int, str], _Ending] = {}
        self._queues: dict[int, dict[tuple[_Ending, TopicPartition], None]] = {}
        """By node: what waits for its next request."""
        self._homeless: dict[tuple[_Ending, TopicPartition], None] = {}
        """What has no leader now, or failed a moment ago."""
        self._sending: dict[int, asyncio.Task[None]] = {}
        self._numbers = itertools.count(1)
        self._retry: asyncio.TimerHandle | None = None
        self._closed = False

    def __len__(self) -> int:
        """The number of transactions whose markers are being written."""
        return len(self._endings)

    def write(self, shard: int, owner_epoch: int, transactions: Iterable[Transaction]) -> None:
        """Writes the markers of prepared transactions. One that is being written already is not begun anew."""
        for prepared in transactions:
            key = (shard, prepared.transactional_id)
            former = self._endings.get(key)
            if former is not None and (former.owner_epoch, former.prepared) == (owner_epoch, prepared):
                continue
            ending = self._endings[key] = _Ending(shard, owner_epoch, prepared, set(prepared.partitions))
            if ending.missing:
                self._route([(ending, partition) for partition in sorted(ending.missing)])
            else:
                self._loop.call_soon(self._finish, ending)

    def follow(self, image: ClusterImage) -> None:
        self._image = image
        self._route_homeless()

    async def close(self) -> None:
        self._closed = True
        if self._retry is not None:
            self._retry.cancel()
        sending = list(self._sending.values())
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)

    # -- routes -----------------------------------------------------------------------------------------------------------------

    def _route(self, pairs: Iterable[tuple[_Ending, TopicPartition]]) -> None:
        """Queues markers at their leaders."""
        for ending, (name, index) in pairs:
            topic = self._image.topics.get(name)
            if topic is None or index >= topic.partitions:  # it was deleted: whoever added it knew an image that has it
                self._done(ending, (name, index))
                continue
            state = self._image.partition(bytes.fromhex(topic.topic_id), index)
            if state is None or state.leader < 0 or self._nodes.client(state.leader) is None:
                self._homeless[ending, (name, index)] = None
                self._retry_later()
                continue
            self._queues.setdefault(state.leader, {})[ending, (name, index)] = None
            if state.leader not in self._sending and not self._closed:
                # Not at once: transactions that end in the same turn share a request.
                self._sending[state.leader] = self._loop.create_task(self._send(state.leader), name=f"markers {state.leader}")

    def _route_homeless(self) -> None:
        if self._homeless and not self._closed:
            homeless, self._homeless = self._homeless, {}
            self._route(homeless)

    def _retry_later(self) -> None:
        if self._retry is None and not self._closed:
            self._retry = self._loop.call_later(RETRY_S, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        self._route_homeless()

    # -- requests ---------------------------------------------------------------------------------------------------------------

    async def _send(self, node_id: int) -> None:
        """Sends what is queued at a node, one request after the other."""
        try:
            while queue := self._queues.get(node_id):
                sent = list(itertools.islice(queue, MARKERS_MAX))
                for pair in sent:
                    del queue[pair]
                await self._send_some(node_id, [pair for pair in sent if self._is_needed(*pair)])
        finally:
            self._queues.pop(node_id, None)
            del self._sending[node_id]

    async def _send_some(self, node_id: int, pairs: list[tuple[_Ending, TopicPartition]]) -> None:
        markers: list[Marker] = []
        sent: list[tuple[_Ending, TopicPartition]] = []
        for ending, partition in pairs:
            marker = self._marker(ending, partition, node_id)
            if marker is None:
                self._homeless[ending, partition] = None  # its leader has moved meanwhile
            else:
                markers.append(marker)
                sent.append((ending, partition))
        client = self._nodes.client(node_id)
        errors: tuple[int, ...] = ()
        if client is not None and markers:
            request = WriteMarkers(next(self._numbers), int(TIMEOUT_S * 1000), tuple(markers))
            try:
                response = await client.call(WRITE_MARKERS, pack(request), timeout_s=TIMEOUT_S + ANSWER_S)
                errors = tuple(answer.error for answer in unpack(AppendReply, response.body).partitions)
            except (RpcFailure, ContractError) as reason:
                log.info("markers were not written", extra=fields(node=node_id, markers=len(markers), reason=reason))
        for at, (ending, partition) in enumerate(sent):
            error = errors[at] if at < len(errors) else int(ErrorCode.NETWORK_EXCEPTION)
            if error in FINAL:
                if error:
                    log.warning("a marker is refused for good", extra=fields(partition=partition, error=error))
                self._done(ending, partition)
            else:
                self._homeless[ending, partition] = None
        if self._homeless:
            self._retry_later()

    def _marker(self, ending: _Ending, partition: TopicPartition, node_id: int) -> Marker | None:
        """None: the node does not lead that partition any more."""
        name, index = partition
        topic = self._image.topics.get(name)
        state = self._image.partition(bytes.fromhex(topic.topic_id), index) if topic is not None else None
        if topic is None or state is None or state.leader != node_id:
            return None
        prepared = ending.prepared
        return Marker(
            bytes.fromhex(topic.topic_id),
            index,
            state.leader_epoch,
            prepared.producer.producer_id,
            prepared.producer.epoch,
            prepared.state is State.PREPARE_COMMIT,
            prepared.client_version >= TRANSACTION_VERSION_2,
            ending.shard,
            ending.owner_epoch,
        )

    # -- ends -------------------------------------------------------------------------------------------------------------------

    def _is_needed(self, ending: _Ending, partition: TopicPartition) -> bool:
        if self._endings.get((ending.shard, ending.prepared.transactional_id)) is not ending:
            return False
        if not self._owns(ending.shard, ending.owner_epoch):
            del self._endings[ending.shard, ending.prepared.transactional_id]  # its new owner writes them
            return False
        return partition in ending.missing

    def _done(self, ending: _Ending, partition: TopicPartition) -> None:
        ending.missing.discard(partition)
        if not ending.missing:
            self._finish(ending)

    def _finish(self, ending: _Ending) -> None:
        key = (ending.shard, ending.prepared.transactional_id)
        if self._endings.get(key) is ending:
            del self._endings[key]
            self._on_written(ending.shard, ending.owner_epoch, ending.prepared)
