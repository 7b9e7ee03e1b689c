"""AlterReplicaLogDirs: moves replicas of this node to its other log directories, or notes where they are to be made.

As in Kafka, the directory is checked first, then the partition. A request for a replica's present directory ends its move.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from libs.rpc.contracts.storage import AlterLogDirs, AlterLogDirsReply
from libs.rpc.messages.errors import ContractError
from libs.rpc.messages.schema import unpack
from libs.rpc.server.call import Call
from libs.wire.errors import ErrorCode
from services.storage.core.replication.leadership import hosts
from services.storage.disks.disks import Disk, Disks
from services.storage.disks.requested_directories import RequestedDirectories
from services.storage.moving.moves import Moves
from services.storage.partition.open_logs import OpenLogs
from services.storage.partition.partition import Key, Partition
from services.storage.partition.partition_table import PartitionTable

OPENING_S = 5.0
"""How long a request waits, in all, for replicas that this node is opening."""


class LogDirAlterations:
    """The requests. `configured` has the paths of all log directories, also of those that do not open."""

    def __init__(
        self,
        configured: Sequence[str],
        partitions: PartitionTable,
        disks: Disks,
        open_logs: OpenLogs[Disk],
        moves: Moves,
        requested: RequestedDirectories,
        *,
        released: Callable[[Partition], Awaitable[None]],
    ) -> None:
        self._configured = configured
        self._partitions = partitions
        self._disks = disks
        self._open_logs = open_logs
        self._released = released
        self._moves = moves
        self._requested = requested

    def accept(self, call: Call) -> Coroutine[Any, Any, None] | None:
        try:
            request = unpack(AlterLogDirs, call.body)
        except ContractError as error:
            call.fail(int(ErrorCode.INVALID_REQUEST), str(error))
            return None
        return self._alter(call, request)

    async def _alter(self, call: Call, request: AlterLogDirs) -> None:
        until = asyncio.get_running_loop().time() + OPENING_S
        errors = [await self._move(path, (topic_id, index), until) for path, topic_id, index in request.partitions]
        call.reply(AlterLogDirsReply(tuple([int(error) for error in errors])))

    async def _move(self, path: str, key: Key, until: float) -> ErrorCode:
        disk = next((disk for disk in self._disks.all if disk.path == path), None)
        if disk is None and path not in self._configured:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if disk is None or disk.sync.failed:
            return ErrorCode.KAFKA_STORAGE_ERROR
        state = self._partitions.image.partition(*key)
        if state is None or key[0] not in self._partitions.image.topics_by_id:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not hosts(state, self._partitions.node_id):
            self._requested.request(key, disk)
            return ErrorCode.REPLICA_NOT_AVAILABLE
        if key in self._partitions.broken:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return await self._move_here(disk, key, until)

    async def _move_here(self, disk: Disk, key: Key, until: float) -> ErrorCode:
        opened = self._open_logs.get(key)
        if opened is not None:
            await self._released(opened[0])  # afterwards it may lie elsewhere, or be gone
            opened = self._open_logs.get(key)
        if opened is None:
            self._requested.request(key, disk)
            opened = await self._open_logs.opened(key, until)  # its topic may have been made a moment ago
        if opened is None:
            return ErrorCode.REPLICA_NOT_AVAILABLE
        partition, source = opened
        if partition.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if source is disk:
            self._moves.cancel(partition)
        else:
            self._moves.start(partition, source, disk)
        return ErrorCode.NONE
