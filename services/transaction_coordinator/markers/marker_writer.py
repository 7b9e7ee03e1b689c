"""Writes the markers of prepared transactions to the leaders of their partitions, until each partition has its own. A shard of
`__consumer_offsets` gets its marker from the group coordinator that owns it.

One request is on its way to a process at a time. What comes meanwhile shares the next one. A leader that cannot store a marker,
or does not answer, gets it again; one that was replaced meanwhile is not waited for. A topic that was deleted needs no marker.
One that the metadata lack since they were restored is waited for: a rebuild from the disks brings it back, with its open
transactions.

**A late marker must not end the next transaction.** Clients before `transaction.version` 2 keep their epoch, so a marker that was
delayed on its way would fit. Requests have numbers that rise, and leaders refuse lower ones of the same shard. So a marker that
was sent twice is not stored behind its second copy. It names the leader epoch, so another leader does not take it. A transaction
is completed only when each partition has answered, and its markers are not begun anew before that is known to be in the log.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import Final, TypeAlias

from libs.cluster.image import ClusterImage
from libs.cluster.metadata_history import is_surely_deleted
from libs.cluster.records import PartitionState
from libs.cluster.shard_owners import Owner
from libs.cluster.topic_names import GROUP_TOPIC
from libs.lean_dataclass import dataclass
from libs.rpc.client.rpc_client import Response, RpcClient
from libs.rpc.contracts.storage import AppendReply
from libs.rpc.contracts.transactions import WRITE_GROUP_MARKERS, WRITE_MARKERS, Marker, WriteMarkers
from libs.rpc.messages.errors import ContractError, RpcFailure
from libs.rpc.messages.schema import pack, unpack
from libs.runtime.member_clients import MemberClients
from libs.runtime.storage_nodes import StorageNodes
from libs.telemetry.level_switches import Switches
from libs.telemetry.limited_lines import LimitedLines
from libs.telemetry.logs import fields
from libs.telemetry.tracing.rpc_context import pack_contexts
from libs.telemetry.tracing.span import SpanContext
from libs.wire.errors import ErrorCode
from services.transaction_coordinator.core.states import State
from services.transaction_coordinator.core.transaction import TRANSACTION_VERSION_2, TopicPartition, Transaction
from services.transaction_coordinator.markers.ending_traces import MARKERS_MAX as MARKERS_TRACED_MAX
from services.transaction_coordinator.markers.ending_traces import EndingTrace, EndingTraces, MarkerTimes

log = logging.getLogger("transactions")

LOGGED: Final = Switches(log)

MARKERS_MAX: Final = 1_000
"""Most markers of one request: some milliseconds of a leader's work."""
TIMEOUT_S: Final = 5.0
"""How long a leader may take to commit markers. What it has not committed then is sent again."""
ANSWER_S: Final = 1.0
"""Extra time for its answer."""
RETRY_S: Final = 0.1
"""The pause after a failure. A new image ends it."""

MISSING_WAY_OUT: Final = "rebuild the metadata (docs/operate/restoring-metadata.md), or create a topic of that name"
LINES_S: Final = 60.0
"""The time between two such lines about a topic."""

NETWORK_EXCEPTION: Final = int(ErrorCode.NETWORK_EXCEPTION)
FINAL: Final = frozenset((int(ErrorCode.NONE), int(ErrorCode.INVALID_PRODUCER_EPOCH)))
"""Answers after which a partition needs no marker any more: it has it, or knows a newer producer, whose epoch a marker brought.

Not TRANSACTION_COORDINATOR_FENCED: a newer owner of the shard writes the marker, or none does, and then it must be seen."""


@dataclass(eq=False, slots=True)
class _Ending:
    """A prepared transaction, and its partitions that have no marker yet."""

    shard: int
    owner_epoch: int
    prepared: Transaction
    missing: set[TopicPartition]
    trace: EndingTrace
    seen: set[TopicPartition] = field(default_factory=set)
    """Partitions that an image had since."""


Pair: TypeAlias = tuple[_Ending, TopicPartition]
Destination: TypeAlias = int | Owner
"""Who takes a partition's markers: a storage node, by its id, or the owner of a shard of groups."""


class MarkerWriter:
    """The markers of all shards of this process. Call `follow` with each image, and `close` at the end.

    `owns(shard, owner_epoch)` tells whether the shard still belongs to this process. `on_written(shard, owner_epoch, prepared)`
    is called when each partition of a transaction has its marker. Call `forget` once that is in the log, or somebody else's.
    """

    def __init__(
        self,
        nodes: StorageNodes,
        groups: MemberClients,
        owns: Callable[[int, int], bool],
        on_written: Callable[[int, int, Transaction], None],
        traces: EndingTraces,
    ) -> None:
        self._nodes = nodes
        self._groups = groups
        self._owns = owns
        self._on_written = on_written
        self._traces = traces
        self._loop = asyncio.get_running_loop()
        self._image = ClusterImage()
        self._endings: dict[tuple[int, str], _Ending] = {}
        self._queues: dict[Destination, dict[Pair, None]] = {}
        """What waits for the next request."""
        self._unrouted: dict[Pair, None] = {}
        """What has no destination now, or failed a moment ago."""
        self._sending: dict[Destination, asyncio.Task[None]] = {}
        self._calls: dict[Destination, tuple[asyncio.Task[Response], Sequence[Pair]]] = {}
        """The requests on their way."""
        self._numbers = itertools.count(1)
        self._retry: asyncio.TimerHandle | None = None
        self._lines = LimitedLines(log, LINES_S, self._loop)
        self._closed = False

    def __len__(self) -> int:
        """The number of prepared transactions that are not known to be complete."""
        return len(self._endings)

    def write(self, shard: int, owner_epoch: int, transactions: Iterable[Transaction]) -> None:
        """Writes the markers of prepared transactions. One that is being written already is not begun anew."""
        for prepared in transactions:
            key = (shard, prepared.transactional_id)
            former = self._endings.get(key)
            if former is not None and (former.owner_epoch, former.prepared) == (owner_epoch, prepared):
                continue
            ending = self._endings[key] = _Ending(
                shard, owner_epoch, prepared, set(prepared.partitions), self._traces.begin(prepared)
            )
            if ending.missing:
                self._route([(ending, partition) for partition in sorted(ending.missing)])
            else:
                self._loop.call_soon(self._finish, ending)

    def trace_of(self, shard: int, prepared: Transaction) -> EndingTrace | None:
        """The times of a transaction that was not forgotten."""
        ending = self._endings.get((shard, prepared.transactional_id))
        return ending.trace if ending is not None and ending.prepared == prepared else None

    def forget(self, shard: int, owner_epoch: int, prepared: Transaction) -> None:
        """Forgets a transaction that is complete, or that another owner completes."""
        ending = self._endings.get((shard, prepared.transactional_id))
        if ending is not None and (ending.owner_epoch, ending.prepared) == (owner_epoch, prepared):
            del self._endings[shard, prepared.transactional_id]

    def follow(self, image: ClusterImage) -> None:
        self._image = image
        for destination, (call, pairs) in self._calls.items():
            if all(self._destination(partition) != destination for _, partition in pairs):
                call.cancel()  # it may be stopped or cut off, and never answer
        self._route_again()

    async def close(self) -> None:
        self._closed = True
        if self._retry is not None:
            self._retry.cancel()
        sending = list(self._sending.values())
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)

    # -- routes -----------------------------------------------------------------------------------------------------------

    def _state(self, partition: TopicPartition) -> tuple[bytes, PartitionState] | None:
        topic = self._image.topics.get(partition[0])
        if topic is None:
            return None
        topic_id = bytes.fromhex(topic.topic_id)
        state = self._image.partition(topic_id, partition[1])
        return (topic_id, state) if state is not None else None

    def _destination(self, partition: TopicPartition) -> Destination | None:
        """None: nobody takes its markers now."""
        found = self._state(partition)
        if found is None:
            return None
        if partition[0] == GROUP_TOPIC:
            return Owner.named(found[1].owner)
        return found[1].leader if found[1].leader >= 0 else None

    def _client(self, destination: Destination) -> RpcClient | None:
        return self._groups.client_of(destination) if isinstance(destination, Owner) else self._nodes.client(destination)

    def _is_gone(self, ending: _Ending, partition: TopicPartition) -> bool:
        """Whether its topic was deleted. Who added the partition knew an image that has it. This process's image is no older,
        unless the store was restored since."""
        topic = self._image.topics.get(partition[0])
        if topic is not None and partition[1] < topic.partitions:
            ending.seen.add(partition)
            return False
        if partition in ending.seen or is_surely_deleted(self._image.history.restored_ms, ending.prepared.started_ms):
            return True
        details = {"topic": partition[0], "partition": partition[1], "transactional_id": ending.prepared.transactional_id}
        event = "a transaction waits for a topic that the metadata lack since they were restored"
        self._lines.write(partition[0], logging.WARNING, event, **details, way_out=MISSING_WAY_OUT)
        return False

    def _route(self, pairs: Iterable[Pair]) -> None:
        """Queues markers at their destinations."""
        for ending, partition in pairs:
            if not self._is_needed(ending, partition):
                continue
            if self._is_gone(ending, partition):
                self._done(ending, partition)
                continue
            destination = self._destination(partition)
            if destination is None or self._client(destination) is None:
                self._unrouted[ending, partition] = None
                self._retry_later()
                continue
            self._queues.setdefault(destination, {})[ending, partition] = None
            if destination not in self._sending and not self._closed:
                # Not at once: transactions that end in the same turn share a request.
                self._sending[destination] = self._loop.create_task(self._send(destination), name=f"markers for {destination}")

    def _route_again(self) -> None:
        if self._unrouted and not self._closed:
            unrouted, self._unrouted = self._unrouted, {}
            self._route(unrouted)

    def _retry_later(self) -> None:
        if self._retry is None and not self._closed:
            self._retry = self._loop.call_later(RETRY_S, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        self._route_again()

    # -- requests ---------------------------------------------------------------------------------------------------------

    async def _send(self, destination: Destination) -> None:
        """Sends what is queued, one request after the other."""
        try:
            while queue := self._queues.get(destination):
                pairs = list(itertools.islice(queue, MARKERS_MAX))
                for pair in pairs:
                    del queue[pair]
                try:
                    await self._send_some(destination, pairs)
                except Exception:
                    log.exception("markers were not sent", extra=fields(to=destination, markers=len(pairs)))
                    self._unrouted |= dict.fromkeys(pair for pair in pairs if pair[1] in pair[0].missing)
                    self._retry_later()
        finally:
            self._queues.pop(destination, None)
            del self._sending[destination]

    async def _send_some(self, destination: Destination, pairs: Iterable[Pair]) -> None:
        markers: list[Marker] = []
        sent: list[Pair] = []
        for ending, partition in pairs:
            if not self._is_needed(ending, partition):
                continue
            marker = self._marker(ending, partition, destination)
            if marker is None:  # its destination has moved meanwhile
                self._unrouted[ending, partition] = None
            else:
                markers.append(marker)
                sent.append((ending, partition))
        client = self._client(destination)
        contexts, sent_at = [self._traces.of_marker(ending.trace) for ending, _ in sent], self._loop.time()
        errors = await self._answers(destination, client, markers, sent, contexts) if client is not None and markers else ()
        answered_at, server = self._loop.time(), str(destination)
        for at, (ending, partition) in enumerate(sent):
            error = errors[at] if at < len(errors) else NETWORK_EXCEPTION
            if len(ending.trace.markers) < MARKERS_TRACED_MAX:
                span_id = context.span_id if (context := contexts[at]) is not None else 0
                times = MarkerTimes(partition, server, sent_at, answered_at, error, span_id)
                ending.trace.markers.append(times)
            if error in FINAL:
                self._done(ending, partition)
            elif self._destination(partition) not in (destination, None):
                self._route([(ending, partition)])
            else:
                self._unrouted[ending, partition] = None
        if self._unrouted:
            self._retry_later()

    async def _answers(
        self,
        destination: Destination,
        client: RpcClient,
        markers: Sequence[Marker],
        sent: Sequence[Pair],
        contexts: Sequence[SpanContext | None],
    ) -> Sequence[int]:
        """The error of each marker; nothing if its destination does not answer, or was replaced meanwhile."""
        method = WRITE_GROUP_MARKERS if isinstance(destination, Owner) else WRITE_MARKERS
        request = pack(WriteMarkers(next(self._numbers), int(TIMEOUT_S * 1000), tuple(markers)))
        packed = pack_contexts([(at, context) for at, context in enumerate(contexts) if context is not None])

        async def ask() -> Response:
            return await client.call(method, request, timeout_s=TIMEOUT_S + ANSWER_S, trace=packed)

        call = self._loop.create_task(ask())
        self._calls[destination] = call, sent
        try:
            await asyncio.wait([call])
            answers = unpack(AppendReply, call.result().body).partitions
        except asyncio.CancelledError:
            if not call.cancelled():
                call.cancel()
                raise  # this process stops
            return ()
        except (RpcFailure, ContractError) as reason:
            log.info("markers were not written", extra=fields(to=destination, markers=len(markers), reason=reason))
            return ()
        finally:
            del self._calls[destination]
        if LOGGED.debug:
            log.debug("markers answered", extra=fields(to=destination, markers=len(markers)))
        refused = [answer.error for answer in answers if answer.error]
        if refused:
            details = fields(to=destination, markers=len(refused), first_error=refused[0])
            log.info("markers were refused", extra=details)
        return [answer.error for answer in answers]

    def _marker(self, ending: _Ending, partition: TopicPartition, destination: Destination) -> Marker | None:
        """None: it is not the destination of that partition any more."""
        found = self._state(partition)
        if found is None or self._destination(partition) != destination:
            return None
        topic_id, state = found
        prepared = ending.prepared
        return Marker(
            topic_id,
            partition[1],
            state.owner_epoch if isinstance(destination, Owner) else state.leader_epoch,
            prepared.producer.producer_id,
            prepared.producer.epoch,
            prepared.state is State.PREPARE_COMMIT,
            prepared.client_version >= TRANSACTION_VERSION_2,
            ending.shard,
            ending.owner_epoch,
        )

    # -- ends -------------------------------------------------------------------------------------------------------------

    def _is_needed(self, ending: _Ending, partition: TopicPartition) -> bool:
        if self._endings.get((ending.shard, ending.prepared.transactional_id)) is not ending:
            return False
        if not self._owns(ending.shard, ending.owner_epoch):
            self.forget(ending.shard, ending.owner_epoch, ending.prepared)  # its new owner writes them
            return False
        return partition in ending.missing

    def _done(self, ending: _Ending, partition: TopicPartition) -> None:
        ending.missing.discard(partition)
        if not ending.missing:
            self._finish(ending)

    def _finish(self, ending: _Ending) -> None:
        if self._endings.get((ending.shard, ending.prepared.transactional_id)) is ending:
            self._on_written(ending.shard, ending.owner_epoch, ending.prepared)
