"""DescribeLogDirs: what lies in each log directory of this node, and how full its volume is."""

from collections.abc import Coroutine
from functools import partial
from typing import Any

from libs.commitlog.filesystem import FileSystem
from libs.rpc.call import Call
from libs.rpc.contracts.storage import DescribeLogDirs, LogDir, LogDirsReply, LogInDir
from libs.rpc.errors import ContractError
from libs.rpc.schema import unpack
from libs.wire.errors import ErrorCode
from services.storage.disks import Disk, Disks
from services.storage.moving.moves import Moves
from services.storage.residents import Residents
from services.storage.turns import Turns

FAILED = int(ErrorCode.KAFKA_STORAGE_ERROR)


class LogDirDescription:
    def __init__(self, disks: Disks, residents: Residents, moves: Moves, fs: FileSystem) -> None:
        self._disks = disks
        self._residents = residents
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
        for hosted, disk in self._residents.open_logs():
            if self._residents.has_open(hosted) and (wanted is None or hosted.key in wanted):
                lag = max(0, hosted.high_watermark - hosted.log_end_offset)
                logs[disk].append(LogInDir(hosted.topic, hosted.key[1], hosted.log.size, lag))
                await turns.taken()
        for move in self._moves.under_way():
            hosted = move.hosted
            if wanted is None or hosted.key in wanted:
                size = move.copy.size if move.copy is not None else 0
                logs[move.target].append(LogInDir(hosted.topic, hosted.key[1], size, move.lag, is_future=True))
        call.reply(LogDirsReply(tuple([await self._directory(disk, found) for disk, found in logs.items()])))

    async def _directory(self, disk: Disk, logs: list[LogInDir]) -> LogDir:
        if disk.sync.failed:
            return LogDir(FAILED, disk.path)
        try:
            total, usable = await disk.files.submit(partial(self._fs.space, disk.path))
        except OSError:
            return LogDir(FAILED, disk.path)
        return LogDir(0, disk.path, total, usable, tuple(logs))
