"""`InternalLog` over RPC. The image names the partition's leader, and every request names the leader epoch.

Appends are the hot path. So they are written, and their answers read, as lists in the field order of `contracts/storage.py`.
Tests check that they agree.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from libs.cluster.image import ClusterImage
from libs.cluster.records import PartitionState
from libs.coordinator.core.shard import Fence, PlannedAppend
from libs.coordinator.log.internal_log import Cancel, Claimed, Read, Refused, Stored, Unknown
from libs.rpc.client.rpc_client import Response, RpcClient
from libs.rpc.contracts.ownership import CLAIM, Claim
from libs.rpc.contracts.ownership import Claimed as ClaimAnswer
from libs.rpc.contracts.storage import (
    APPEND,
    FETCH,
    Appended,
    AppendReply,
    Fetch,
    FetchPartition,
    FetchReply,
)
from libs.rpc.messages.errors import ContractError, RpcFailure
from libs.rpc.messages.schema import pack, unpack
from libs.runtime.storage_nodes import StorageNodes
from libs.telemetry.tracing.ids import SentRequest, process_name
from libs.telemetry.tracing.rpc_context import pack_contexts
from libs.telemetry.tracing.span import SpanContext
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.keyed_batches import build_keyed_batch

CLAIM_S_MAX: Final = 3.0
READ_MS_MAX: Final = 500
READ_BYTES: Final = 256 << 10
"""Bytes of one read: some milliseconds of work."""
READ_S_MAX: Final = 10.0
APPEND_MS_MAX: Final = 5000
"""Default time until an append has to be committed."""
ANSWER_S_MAX: Final = 1.0
"""Extra time for the answer, after the time to commit is over."""
ALL: Final = -1

NOT_LEADER_OR_FOLLOWER: Final = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
IN_LOG: Final = (int(ErrorCode.REQUEST_TIMED_OUT), int(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
"""Errors after which the batch may be in the log, and may yet be committed."""
LEADER_MOVED: Final = Refused(NOT_LEADER_OR_FOLLOWER)


class StorageLog:
    """The log of one partition. `append_ms_max` is read at each append, since it may change."""

    def __init__(
        self,
        topic_id: bytes,
        partition: int,
        image: Callable[[], ClusterImage],
        nodes: StorageNodes,
        *,
        append_ms_max: Callable[[], int] = lambda: APPEND_MS_MAX,
    ) -> None:
        self._topic_id = topic_id
        self._partition = partition
        self._image = image
        self._nodes = nodes
        self._append_ms_max = append_ms_max
        self._last_append: tuple[RpcClient, int] | None = None

    def leader_epoch(self) -> int | None:
        state = self._state()
        return state.leader_epoch if state is not None and self._client(state) is not None else None

    def asked(self) -> SentRequest | None:
        if self._last_append is None:
            return None
        client, request_id = self._last_append
        peer = client.peer
        return SentRequest(process_name(peer.role, peer.node_id, peer.incarnation), request_id) if peer is not None else None

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
        on_result: Callable[[Stored | Refused | Unknown], None],
        traces: Sequence[SpanContext] = (),
    ) -> Cancel:
        fence = planned.fence
        batch = build_keyed_batch(planned.records, now_ms, planned.transaction) if planned.records else b""
        client = self._leader(fence)
        self._last_append = None
        if client is None:
            return self._call_soon(on_result, LEADER_MOVED)
        part = [
            self._topic_id,
            self._partition,
            fence.leader_epoch,
            len(batch),
            fence.owner_epoch,
            fence.claim,
            planned.offset,
        ]
        ms_max = self._append_ms_max()
        payload, timeout_s = (batch,) if batch else (), ms_max / 1000 + ANSWER_S_MAX
        try:
            request_id = client.send(
                APPEND,
                [ALL, ms_max, [part]],
                payload,
                partial(_on_response, on_result),
                timeout_s=timeout_s,
                trace=pack_contexts([(0, context) for context in traces]) if traces else None,
            )
        except RpcFailure as error:
            return self._call_soon(on_result, _failed(error))
        self._last_append = client, request_id
        return partial(client.cancel, request_id)

    def _call_soon(self, on_result: Callable[[Stored | Refused | Unknown], None], outcome: Refused | Unknown) -> Cancel:
        return asyncio.get_running_loop().call_soon(on_result, outcome).cancel

    async def _call(self, fence: Fence, method: str, request: object, timeout_s: float) -> Response | Refused:
        """The leader's response. Raises RpcFailure."""
        client = self._leader(fence)
        return LEADER_MOVED if client is None else await client.call(method, pack(request), timeout_s=timeout_s)

    def _leader(self, fence: Fence) -> RpcClient | None:
        """A client of the fence's leader; None if the leader has moved since."""
        state = self._state()
        return self._client(state) if state is not None and state.leader_epoch == fence.leader_epoch else None

    def _state(self) -> PartitionState | None:
        return self._image().partition(self._topic_id, self._partition)

    def _client(self, state: PartitionState) -> RpcClient | None:
        return self._nodes.client(state.leader) if state.leader >= 0 else None


def _on_response(on_result: Callable[[Stored | Refused | Unknown], None], result: Response | Exception) -> None:
    if isinstance(result, RpcFailure):
        on_result(_failed(result))
        return
    base_offset = None if isinstance(result, Exception) else _stored_at(result.body)
    if base_offset is not None:
        on_result(Stored(base_offset))
        return
    try:
        if isinstance(result, Exception):
            raise result
        (answer,) = unpack(AppendReply, result.body).partitions
    except Exception as error:
        on_result(Unknown(str(error)))
    else:
        on_result(_outcome(answer))


def _stored_at(reply: list[object]) -> int | None:
    """The base offset of a plain success; None for an answer that has to be read in full."""
    partitions = reply[0] if reply else None
    if type(partitions) is not list or len(partitions) != 1 or type(partitions[0]) is not list or len(partitions[0]) < 2:
        return None
    error, base_offset = partitions[0][:2]
    return base_offset if type(error) is int and not error and type(base_offset) is int else None


def _failed(error: RpcFailure) -> Refused | Unknown:
    return Unknown(str(error)) if error.sent else LEADER_MOVED


def _outcome(answer: Appended) -> Stored | Refused | Unknown:
    if not answer.error:
        return Stored(answer.base_offset)
    if answer.in_log or answer.error in IN_LOG:
        return Unknown(f"stored, but perhaps not committed: error {answer.error}")
    return Refused(answer.error)
