"""DescribeLogDirs: what lies in each log directory of this node, and how full its volume is."""

from collections.abc import Coroutine
from functools import partial
from typing import Any

from libs.commitlog.files.filesystem import FileSystem
from libs.rpc.contracts.storage import DescribeLogDirs, LogDir, LogDirsReply, LogInDir
from libs.rpc.messages.errors import ContractError
from libs.rpc.messages.schema import unpack
from libs.rpc.server.call import Call
from libs.wire.errors import ErrorCode
from services.storage.disks.disks import Disk, Disks
from services.storage.moving.moves import Moves
from services.storage.partition.open_logs import OpenLogs
from services.storage.partition.partition import Partition
from services.storage.reconcile.frozen_partitions import FrozenPartitions
from services.storage.threads.turns import Turns

KAFKA_STORAGE_ERROR = int(ErrorCode.KAFKA_STORAGE_ERROR)


class LogDirDescription:
    def __init__(self, disks: Disks, open_logs: OpenLogs[Disk], moves: Moves, frozen: FrozenPartitions, fs: FileSystem) -> None:
        self._disks = disks
        self._open_logs = open_logs
        self._frozen = frozen
        self._moves = moves
        self._fs = fs

    def accept(self, call: Call) -> Coroutine[Any, Any, None] | None:
        try:
            request = unpack(DescribeLogDirs, call.body)
        except ContractError as error:
            call.fail(int(ErrorCode.INVALID_REQUEST), str(error))
            return None
        return self._describe(call, request)

    async def _describe(self, call: Call, request: DescribeLogDirs) -> None:
        wanted = None if request.partitions is None else set(request.partitions)
        logs: dict[Disk, list[LogInDir]] = {disk: [] for disk in self._disks.all}
        turns = Turns()
        for partition, disk in self._open_logs.all():
            if self._is_here(partition) and (wanted is None or partition.key in wanted):
                lag = max(0, partition.high_watermark - partition.log_end_offset)
                logs[disk].append(LogInDir(partition.topic, partition.key[1], partition.log.size, lag))
                await turns.taken()
        for move in self._moves.in_progress():
            partition = move.partition
            if (wanted is None or partition.key in wanted) and self._open_logs.disk_of(partition) is not move.target:
                size = move.copy.size if move.copy is not None else 0
                logs[move.target].append(LogInDir(partition.topic, partition.key[1], size, move.lag, is_future=True))
        call.reply(LogDirsReply(tuple([await self._directory(disk, descriptions) for disk, descriptions in logs.items()])))

    def _is_here(self, partition: Partition) -> bool:
        """A replica that is just being switched serves nobody, but it is where it was until it is at its target."""
        return self._open_logs.is_in_use(partition) or (partition in self._frozen and not partition.offline)

    async def _directory(self, disk: Disk, logs: list[LogInDir]) -> LogDir:
        if disk.sync.failed:
            return LogDir(KAFKA_STORAGE_ERROR, disk.path)
        try:
            total, usable = await disk.files.submit(partial(self._fs.space, disk.path))
        except OSError:
            return LogDir(KAFKA_STORAGE_ERROR, disk.path)
        return LogDir(0, disk.path, total, usable, tuple(logs))
