"""AlterReplicaLogDirs: moves replicas of this node to its other log directories, or notes where they are to be made.

In Kafka's order: the directory is judged first, then the partition. Where a replica already is it stays, and a move of it ends.
"""

from collections.abc import Coroutine, Sequence
from typing import Any

from libs.rpc.call import Call
from libs.rpc.contracts.storage import AlterLogDirs, AlterLogDirsReply
from libs.rpc.errors import ContractError
from libs.rpc.schema import unpack
from libs.wire.errors import ErrorCode
from services.storage.core.leadership import hosts
from services.storage.disks import Disk, Disks
from services.storage.hosted import Key
from services.storage.moving.moves import Moves
from services.storage.moving.wanted import WantedDirectories
from services.storage.partitions import Partitions
from services.storage.residents import Residents


class DirectoryChanges:
    """`configured`: the paths of all log directories, also of those that do not open."""

    def __init__(
        self,
        configured: Sequence[str],
        partitions: Partitions,
        disks: Disks,
        residents: Residents,
        moves: Moves,
        wanted: WantedDirectories,
    ) -> None:
        self._configured = configured
        self._partitions = partitions
        self._disks = disks
        self._residents = residents
        self._moves = moves
        self._wanted = wanted

    def accept(self, call: Call) -> Coroutine[Any, Any, None] | None:
        try:
            request = unpack(AlterLogDirs, call.body)
        except ContractError as error:
            call.fail(int(ErrorCode.INVALID_REQUEST), str(error))
            return None
        return self._alter(call, request)

    async def _alter(self, call: Call, request: AlterLogDirs) -> None:
        errors = [await self._move(path, (topic_id, index)) for path, topic_id, index in request.partitions]
        call.reply(AlterLogDirsReply(tuple([int(error) for error in errors])))

    async def _move(self, path: str, key: Key) -> ErrorCode:
        disk = next((disk for disk in self._disks.all if disk.path == path), None)
        if disk is None and path not in self._configured:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if disk is None or disk.sync.failed:
            return ErrorCode.KAFKA_STORAGE_ERROR
        state = self._partitions.image.partition(*key)
        if state is None or key[0] not in self._partitions.image.topics_by_id:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not hosts(state, self._partitions.node_id):
            self._wanted.want(key, disk)
            return ErrorCode.REPLICA_NOT_AVAILABLE
        if key in self._partitions.broken:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return await self._move_here(disk, key)

    async def _move_here(self, disk: Disk, key: Key) -> ErrorCode:
        home = self._residents.home(key)
        if home is not None:
            await self._residents.released(home[0])  # it may be elsewhere then, or gone
            home = self._residents.home(key)
        if home is None:
            self._wanted.want(key, disk)
            return ErrorCode.REPLICA_NOT_AVAILABLE
        hosted, source = home
        if hosted.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if source is disk:
            self._moves.cancel(hosted)
        else:
            self._moves.start(hosted, source, disk)
        return ErrorCode.NONE
