"""`InternalLog` over RPC: the partition's leader is whom the image names, and every request names its epoch.

Appends are the hot path, so they are written and their answers read as lists, in the field order of `contracts/storage.py`; tests
hold them to it.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from libs.cluster.image import ClusterImage
from libs.cluster.records import PartitionState
from libs.rpc.client import Response, RpcClient
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
from libs.rpc.errors import ContractError, RpcFailure
from libs.rpc.schema import pack, unpack
from libs.runtime.shards.log_port import Cancel, Claimed, Read, Refused, Stored, Unknown
from libs.runtime.shards.shard import Fence, PlannedAppend
from libs.runtime.storage_nodes import StorageNodes
from libs.wire.errors import ErrorCode
from libs.wire.keyed_batches import build_keyed_batch

CLAIM_S_MAX: Final = 3.0
READ_MS_MAX: Final = 500
READ_BYTES: Final = 256 << 10
"""Some milliseconds of reading."""
READ_S_MAX: Final = 10.0
APPEND_MS_MAX: Final = 5000
"""Where nobody says how long what is written may take to be committed."""
ANSWER_S_MAX: Final = 1.0
"""For an answer to arrive when that time is over."""
ALL: Final = -1

NOT_LEADER: Final = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
IN_LOG: Final = (int(ErrorCode.REQUEST_TIMED_OUT), int(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
"""It may stand there, and may yet be committed, or not."""
MOVED: Final = Refused(NOT_LEADER)


class StorageLog:
    """Of one partition. `append_ms_max` is asked for at each append: it may change."""

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

    def leader_epoch(self) -> int | None:
        state = self._state()
        return state.leader_epoch if state is not None and self._client(state) is not None else None

    async def claim(self, fence: Fence) -> Claimed | Refused | Unknown:
        wanted = Claim(self._topic_id, self._partition, fence.leader_epoch, fence.owner_epoch, fence.claim)
        try:
            response = await self._call(fence, CLAIM, wanted, CLAIM_S_MAX)
            if isinstance(response, Refused):
                return response
            answer = unpack(ClaimAnswer, response.body)
        except (RpcFailure, ContractError) as error:
            return Unknown(str(error))
        return Refused(answer.error) if answer.error else Claimed(answer.log_start_offset, answer.log_end_offset)

    async def read(self, fence: Fence, offset: int) -> Read | Refused | Unknown:
        wanted = FetchPartition(self._topic_id, self._partition, offset, READ_BYTES, fence.leader_epoch)
        fetch = Fetch(READ_MS_MAX, 1, READ_BYTES, 0, (wanted,), inline=True)
        try:
            response = await self._call(fence, FETCH, fetch, READ_S_MAX)
            if isinstance(response, Refused):
                return response
            (found,) = unpack(FetchReply, response.body).partitions
        except (RpcFailure, ContractError, ValueError) as error:
            return Unknown(str(error))
        if found.error:
            return Refused(found.error)
        return Read(memoryview(response.payload)[: found.inline_length], found.high_watermark)

    def append(self, planned: PlannedAppend, now_ms: int, told: Callable[[Stored | Refused | Unknown], None]) -> Cancel:
        fence = planned.fence
        batch = build_keyed_batch(planned.records, now_ms) if planned.records else b""
        client = self._leader(fence)
        if client is None:
            return self._tell_soon(told, MOVED)
        part = [
            *(self._topic_id, self._partition, fence.leader_epoch, len(batch)),
            *(fence.owner_epoch, fence.claim, planned.offset),
        ]
        ms_max = self._append_ms_max()
        payload, timeout_s = (batch,) if batch else (), ms_max / 1000 + ANSWER_S_MAX
        try:
            request_id = client.send(APPEND, [ALL, ms_max, [part]], payload, partial(_hear, told), timeout_s=timeout_s)
        except RpcFailure as error:
            return self._tell_soon(told, _failed(error))
        return partial(client.cancel, request_id)

    def _tell_soon(self, told: Callable[[Stored | Refused | Unknown], None], outcome: Refused | Unknown) -> Cancel:
        return asyncio.get_running_loop().call_soon(told, outcome).cancel

    async def _call(self, fence: Fence, method: str, request: object, timeout_s: float) -> Response | Refused:
        """Raises RpcFailure."""
        client = self._leader(fence)
        return MOVED if client is None else await client.call(method, pack(request), timeout_s=timeout_s)

    def _leader(self, fence: Fence) -> RpcClient | None:
        """None: it moved since."""
        state = self._state()
        return self._client(state) if state is not None and state.leader_epoch == fence.leader_epoch else None

    def _state(self) -> PartitionState | None:
        return self._image().partition(self._topic_id, self._partition)

    def _client(self, state: PartitionState) -> RpcClient | None:
        return self._nodes.client(state.leader) if state.leader >= 0 else None


def _hear(told: Callable[[Stored | Refused | Unknown], None], heard: Response | Exception) -> None:
    if isinstance(heard, RpcFailure):
        told(_failed(heard))
        return
    base_offset = None if isinstance(heard, Exception) else _stored_at(heard.body)
    if base_offset is not None:
        told(Stored(base_offset))
        return
    try:
        if isinstance(heard, Exception):
            raise heard
        (answer,) = unpack(AppendReply, heard.body).partitions
    except Exception as error:
        told(Unknown(str(error)))
    else:
        told(_outcome(answer))


def _stored_at(reply: list[object]) -> int | None:
    """None: it is no plain answer that all went well, and is to be read in full."""
    partitions = reply[0] if reply else None
    if type(partitions) is not list or len(partitions) != 1 or type(partitions[0]) is not list or len(partitions[0]) < 2:
        return None
    error, base_offset = partitions[0][:2]
    return base_offset if type(error) is int and not error and type(base_offset) is int else None


def _failed(error: RpcFailure) -> Refused | Unknown:
    return Unknown(str(error)) if error.sent else MOVED


def _outcome(answer: Appended) -> Stored | Refused | Unknown:
    if not answer.error:
        return Stored(answer.base_offset)
    if answer.in_log or answer.error in IN_LOG:
        return Unknown(f"stored, and not known to be committed: error {answer.error}")
    return Refused(answer.error)
