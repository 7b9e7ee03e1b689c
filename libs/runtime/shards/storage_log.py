"""`InternalLog` over RPC: the partition's leader is whom the image names, and every request names its epoch."""

from collections.abc import Callable
from typing import Final

from libs.cluster.image import ClusterImage
from libs.cluster.records import PartitionState
from libs.rpc.client import Response, RpcClient
from libs.rpc.contracts.ownership import CLAIM, Claim
from libs.rpc.contracts.ownership import Claimed as ClaimAnswer
from libs.rpc.contracts.storage import (
    APPEND,
    FETCH,
    Append,
    Appended,
    AppendPartition,
    AppendReply,
    Fetch,
    FetchPartition,
    FetchReply,
)
from libs.rpc.errors import ContractError, RpcFailure
from libs.rpc.schema import pack, unpack
from libs.rpc.transport import Buffer
from libs.runtime.shards.log_port import Claimed, Read, Refused, Stored, Unknown
from libs.runtime.shards.shard import Fence, PlannedAppend
from libs.runtime.storage_nodes import StorageNodes
from libs.wire.errors import ErrorCode
from libs.wire.records import Record, build_batch

CLAIM_S_MAX: Final = 3.0
READ_MS_MAX: Final = 500
READ_BYTES: Final = 256 << 10
"""Some milliseconds of reading."""
READ_S_MAX: Final = 10.0
APPEND_MS_MAX: Final = 5000
"""offsets.commit.timeout.ms, as Kafka has it."""
ALL: Final = -1

NOT_LEADER: Final = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
IN_LOG: Final = (int(ErrorCode.REQUEST_TIMED_OUT), int(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
"""It may stand there, and may yet be committed, or not."""


class StorageLog:
    """Of one partition."""

    def __init__(self, topic_id: bytes, partition: int, image: Callable[[], ClusterImage], nodes: StorageNodes) -> None:
        self._topic_id = topic_id
        self._partition = partition
        self._image = image
        self._nodes = nodes

    def leader_epoch(self) -> int | None:
        state = self._state()
        return state.leader_epoch if state is not None and self._client(state) is not None else None

    async def claim(self, fence: Fence) -> Claimed | Refused | Unknown:
        wanted = Claim(self._topic_id, self._partition, fence.leader_epoch, fence.owner_epoch, fence.claim)
        try:
            response = await self._call(fence, CLAIM, wanted, (), CLAIM_S_MAX)
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
            response = await self._call(fence, FETCH, fetch, (), READ_S_MAX)
            if isinstance(response, Refused):
                return response
            (found,) = unpack(FetchReply, response.body).partitions
        except (RpcFailure, ContractError, ValueError) as error:
            return Unknown(str(error))
        if found.error:
            return Refused(found.error)
        return Read(memoryview(response.payload)[: found.inline_length], found.high_watermark)

    async def append(self, planned: PlannedAppend, now_ms: int) -> Stored | Refused | Unknown:
        fence = planned.fence
        records = [Record(key, value, now_ms) for key, value in planned.records]
        batch = build_batch(records) if records else b""
        part = AppendPartition(
            *(self._topic_id, self._partition, fence.leader_epoch, len(batch)),
            *(fence.owner_epoch, fence.claim, planned.offset),
        )
        append = Append(ALL, APPEND_MS_MAX, (part,))
        try:
            response = await self._call(fence, APPEND, append, [batch] if batch else (), APPEND_MS_MAX / 1000 + 1)
            if isinstance(response, Refused):
                return response
            (answer,) = unpack(AppendReply, response.body).partitions
        except RpcFailure as error:
            return Unknown(str(error)) if error.sent else Refused(NOT_LEADER)
        except (ContractError, ValueError) as error:
            return Unknown(str(error))
        return _outcome(answer)

    async def _call(
        self, fence: Fence, method: str, request: object, payload: "list[Buffer] | tuple[()]", timeout_s: float
    ) -> Response | Refused:
        """Raises RpcFailure."""
        state = self._state()
        client = self._client(state) if state is not None and state.leader_epoch == fence.leader_epoch else None
        if client is None:
            return Refused(NOT_LEADER)  # it moved since
        return await client.call(method, pack(request), payload, timeout_s=timeout_s)

    def _state(self) -> PartitionState | None:
        return self._image().partition(self._topic_id, self._partition)

    def _client(self, state: PartitionState) -> RpcClient | None:
        return self._nodes.client(state.leader) if state.leader >= 0 else None


def _outcome(answer: Appended) -> Stored | Refused | Unknown:
    if not answer.error:
        return Stored(answer.base_offset)
    if answer.in_log or answer.error in IN_LOG:
        return Unknown(f"stored, and not known to be committed: error {answer.error}")
    return Refused(answer.error)
