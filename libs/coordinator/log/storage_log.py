"""`InternalLog` over RPC. The image names the partition's leader, and every request names the leader epoch.

Appends are the hot path. So they are written as lists in the field order of `contracts/storage.py`. Tests check that they agree.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from libs.cluster.image import ClusterImage
from libs.cluster.records import PartitionState
from libs.coordinator.core.shard import Fence, PlannedAppend
from libs.coordinator.log.append_outcomes import LEADER_MOVED
from libs.coordinator.log.internal_log import Cancel, Claimed, Outcome, Read, Refused, Unknown
from libs.coordinator.log.joined_appends import JoinedAppends, PutAppend, Route
from libs.rpc.client.rpc_client import Response, RpcClient
from libs.rpc.contracts.ownership import CLAIM, Claim
from libs.rpc.contracts.ownership import Claimed as ClaimAnswer
from libs.rpc.contracts.storage import FETCH, Fetch, FetchPartition, FetchReply
from libs.rpc.messages.errors import ContractError, RpcFailure
from libs.rpc.messages.schema import pack, unpack
from libs.runtime.storage_nodes import StorageNodes
from libs.telemetry.tracing.ids import SentRequest
from libs.telemetry.tracing.span import SpanContext
from libs.wire.record_batches.keyed_batches import build_keyed_batch

CLAIM_S_MAX: Final = 3.0
READ_MS_MAX: Final = 500
READ_BYTES: Final = 256 << 10
"""Bytes of one read: some milliseconds of work."""
READ_S_MAX: Final = 10.0
APPEND_MS_MAX: Final = 5000
"""Default time until an append has to be committed."""


class StorageLog:
    """The log of one partition. `append_ms_max` is read at each append, since it may change."""

    def __init__(
        self,
        topic_id: bytes,
        partition: int,
        image: Callable[[], ClusterImage],
        nodes: StorageNodes,
        appends: JoinedAppends,
        *,
        append_ms_max: Callable[[], int] = lambda: APPEND_MS_MAX,
    ) -> None:
        self._topic_id = topic_id
        self._partition = partition
        self._image = image
        self._nodes = nodes
        self._append_ms_max = append_ms_max
        self._appends = appends
        self._last_append: PutAppend | None = None
        self._route: Route | None = None
        self._routed: PartitionState | None = None
        """The state that `_route` is of."""

    def leader_epoch(self) -> int | None:
        state = self._state()
        return state.leader_epoch if state is not None and self._client(state) is not None else None

    def asked(self) -> SentRequest | None:
        return self._last_append.sent if self._last_append is not None else None

    async def claim(self, fence: Fence) -> Claimed | Refused | Unknown:
        request = Claim(self._topic_id, self._partition, fence.leader_epoch, fence.owner_epoch, fence.claim)
        try:
            response = await self._call(fence, CLAIM, request, CLAIM_S_MAX)
            if isinstance(response, Refused):
                return response
            answer = unpack(ClaimAnswer, response.body)
        except (RpcFailure, ContractError) as error:
            return Unknown(str(error))
        return Refused(answer.error) if answer.error else Claimed(answer.log_start_offset, answer.log_end_offset)

    async def read(self, fence: Fence, offset: int) -> Read | Refused | Unknown:
        partition = FetchPartition(self._topic_id, self._partition, offset, READ_BYTES, fence.leader_epoch)
        fetch = Fetch(READ_MS_MAX, 1, READ_BYTES, 0, (partition,), inline=True)
        try:
            response = await self._call(fence, FETCH, fetch, READ_S_MAX)
            if isinstance(response, Refused):
                return response
            (fetched,) = unpack(FetchReply, response.body).partitions
        except (RpcFailure, ContractError, ValueError) as error:
            return Unknown(str(error))
        if fetched.error:
            return Refused(fetched.error)
        return Read(memoryview(response.payload)[: fetched.inline_length], fetched.high_watermark)

    def append(
        self,
        planned: PlannedAppend,
        now_ms: int,
        on_result: Callable[[Outcome], None],
        traces: Sequence[SpanContext] = (),
    ) -> Cancel:
        fence = planned.fence
        batch = build_keyed_batch(planned.records, now_ms, planned.transaction) if planned.records else b""
        self._last_append = None
        state = self._state()
        client = self._leader(fence, state)
        if state is None or client is None:
            return asyncio.get_running_loop().call_soon(on_result, LEADER_MOVED).cancel
        part: list[object] = [
            self._topic_id,
            self._partition,
            fence.leader_epoch,
            len(batch),
            fence.owner_epoch,
            fence.claim,
            planned.offset,
        ]
        self._last_append = append = self._appends.put(self._route_to(client, state), part, batch, on_result, traces)
        return append.cancel

    def _route_to(self, client: RpcClient, state: PartitionState) -> Route:
        ms_max, route = self._append_ms_max(), self._route
        if route is None or route.client is not client or route.ms_max != ms_max or self._routed is not state:
            self._route = route = Route(client, frozenset(state.isr), ms_max)
            self._routed = state
        return route

    async def _call(self, fence: Fence, method: str, request: object, timeout_s: float) -> Response | Refused:
        """The leader's response. Raises RpcFailure."""
        client = self._leader(fence, self._state())
        return LEADER_MOVED if client is None else await client.call(method, pack(request), timeout_s=timeout_s)

    def _leader(self, fence: Fence, state: PartitionState | None) -> RpcClient | None:
        """A client of the fence's leader; None if the leader has moved since."""
        return self._client(state) if state is not None and state.leader_epoch == fence.leader_epoch else None

    def _state(self) -> PartitionState | None:
        return self._image().partition(self._topic_id, self._partition)

    def _client(self, state: PartitionState) -> RpcClient | None:
        return self._nodes.client(state.leader) if state.leader >= 0 else None
