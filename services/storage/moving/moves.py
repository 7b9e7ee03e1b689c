"""Moves of replicas between the log directories of this node (AlterReplicaLogDirs, KIP-113).

Any number of moves may be in progress. A few to each directory are copied at a time, the others wait. All of a node together copy
no more than `replica.alter.log.dirs.io.max.bytes.per.second`. Passing errors are retried. A log or a directory that fails ends
the move, and the replica stays where it is. After a restart moves start again, from the directories of their copies.
"""

import asyncio
import errno
import logging
from functools import partial

from libs.commitlog.files.sync import NO_DESCRIPTORS
from libs.commitlog.model.errors import LogDamaged, LogWriteError, OffsetOutOfRange, SyncFailed
from libs.commitlog.partition_log.directory import read_moves
from libs.commitlog.partition_log.future_log import Place, SourceUnreadable
from libs.commitlog.partition_log.replicated_batches import NotReplicable
from libs.telemetry.logs import fields
from services.storage.config import BrokerConfigs
from services.storage.core.replication.throttle import Debt
from services.storage.disks.directory_checks import DirectoryChecks
from services.storage.disks.disks import Disk
from services.storage.moving.move import PIECE_BYTES, CopyDiverged, Move, MoveFailed
from services.storage.moving.switching import Switching
from services.storage.partition.log_files import LogFiles
from services.storage.partition.open_logs import OpenLogs
from services.storage.partition.partition import Partition
from services.storage.partition.topic_settings import log_config
from services.storage.reconcile.frozen_partitions import FrozenPartitions

log = logging.getLogger("disks")

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
COPIED_AT_ONCE = 4
BUSY_RETRY_S = 0.05
"""The wait while the partition is busy with something else."""
RETRY_S = 2.0
"""The wait after an error of the disk."""
THROTTLE_CHECK_S = 0.5
"""The time after which a changed throttle is noticed."""
ENDING_S_MAX = 5.0


class Moves:
    def __init__(
        self,
        files: LogFiles,
        open_logs: OpenLogs[Disk],
        frozen: FrozenPartitions,
        directory_checks: DirectoryChecks,
        switching: Switching,
        broker_configs: BrokerConfigs,
    ) -> None:
        self._files = files
        self._open_logs = open_logs
        self._frozen = frozen
        self._directory_checks = directory_checks
        self._switching = switching
        self._broker_configs = broker_configs
        self._loop = asyncio.get_running_loop()
        self._moves: dict[Partition, Move] = {}
        self._ending: dict[str, asyncio.Task[None]] = {}  # by the path that is removed
        self._slots: dict[Disk, asyncio.Semaphore] = {}
        self._debt = Debt()
        self._closing = False

    def start(self, partition: Partition, source: Disk, target: Disk) -> None:
        """Starts a move, and ends another move of the replica. A move to the same target goes on."""
        before = self._moves.get(partition)
        if before is not None:
            if before.target is target:
                return
            self.cancel(partition)
        move = self._moves[partition] = Move(partition, source, target)
        partition.cancel_move = partial(self.cancel, partition)
        move.task = self._loop.create_task(self._run(move), name=f"moving {partition}")
        log.info("moving to another log directory", extra=fields(partition=partition, from_dir=source.path, to_dir=target.path))

    def cancel(self, partition: Partition) -> None:
        """Ends a move; the replica stays where it is. If it is just being switched, it ends at the target: see
        `FrozenPartitions`."""
        move = self._moves.get(partition)
        if move is not None and move.task is not None and partition not in self._frozen:
            move.task.cancel()
            self._ended(move)

    def in_progress(self) -> list[Move]:
        return list(self._moves.values())

    async def close(self) -> None:
        """Ends all moves. Copies stay, and tell the next start their targets."""
        self._closing = True
        tasks = [move.task for move in self._moves.values() if move.task is not None]
        for partition in list(self._moves):
            self.cancel(partition)
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._ending:
            await asyncio.wait(self._ending.values(), timeout=ENDING_S_MAX)
        await self._switching.close()

    def debug(self) -> object:
        return {
            str(move.partition): {"from": move.source.path, "to": move.target.path, "lag": move.lag}
            for move in self._moves.values()
        }

    # -- one of them --------------------------------------------------------------------------------------------------------

    async def _run(self, move: Move) -> None:
        try:
            path = self._path(move)
            if path in self._ending:
                await asyncio.wait([self._ending[path]])
            async with self._slots.setdefault(move.target, asyncio.Semaphore(COPIED_AT_ONCE)):
                while not await self._step(move):
                    pass
        except (MoveFailed, LogDamaged, NotReplicable) as error:
            log.error("replica stays in its log directory", extra=fields(partition=move.partition, reason=error))
        except Exception:
            log.exception("replica stays in its log directory", extra=fields(partition=move.partition))
        finally:
            if self._moves.get(move.partition) is move:
                self._ended(move)

    async def _step(self, move: Move) -> bool:
        """Makes a step. True: the move has ended."""
        partition, source, target = move.partition, move.source, move.target
        if self._closing:
            return True
        if partition.offline or source.sync.failed or target.sync.failed:
            raise MoveFailed("a log directory has failed")
        if not self._open_logs.is_in_use(partition) or source.sync.stalled or target.sync.stalled:
            await asyncio.sleep(BUSY_RETRY_S)
            return False
        try:
            if move.copy is None:
                path = partition.log.directory
                moves = await source.files.submit(lambda: read_moves(self._files.fs, path))
                await move.begin(self._place(move), moves + 1)
            copied = await move.step(min(PIECE_BYTES, self._rate()))
            await self._throttle(copied)
            if self._open_logs.is_in_use(partition) and move.is_near:
                if not self._is_announced(move):
                    await asyncio.sleep(BUSY_RETRY_S)
                    return False
                if move.copy is not None:
                    await move.work(move.copy.sync)
                if await self._switching.switch(move):
                    return True
                await asyncio.sleep(BUSY_RETRY_S)
        except (CopyDiverged, OffsetOutOfRange):
            move.copy = None
        except SourceUnreadable as error:
            if error.errno not in (errno.ENOENT, *NO_DESCRIPTORS):
                raise MoveFailed(str(error)) from error
            await asyncio.sleep(BUSY_RETRY_S)
        except SyncFailed as error:
            target.sync.fail(error)
        except LogWriteError as error:
            if error.fatal:
                target.sync.fail(error)
            await self._back_off(move, error)
        except OSError as error:
            await self._back_off(move, error)
        return False

    def _is_announced(self, move: Move) -> bool:
        """Whether the state names the target. That is requested when the copy is near, for as long as it takes.

        Meanwhile the partition is served from its source.
        """
        key, now = move.partition.key, self._loop.time()
        if self._directory_checks.names(key, move.target):
            return True
        if move.requested_at is None or now - move.requested_at >= RETRY_S:
            move.requested_at = now
            self._directory_checks.request(key, move.target)
        return False

    async def _back_off(self, move: Move, error: Exception) -> None:
        log.warning("move of a replica waits", extra=fields(partition=move.partition, path=move.target.path, reason=error))
        await asyncio.sleep(RETRY_S)

    async def _throttle(self, copied: int) -> None:
        """Waits as long as the throttle says, which may change meanwhile."""
        self._debt.add(copied)
        while True:
            wait_s = self._debt.wait_s(self._rate(), self._loop.time())
            if wait_s <= 0:
                return
            await asyncio.sleep(min(wait_s, THROTTLE_CHECK_S))

    def _rate(self) -> int:
        return self._broker_configs.integer(RATE)

    def _place(self, move: Move) -> Place:
        partition = move.partition
        topic_id, index = partition.key
        fs, registry, clock = self._files
        config = log_config(partition.config)
        return Place(move.target.directory, partition.topic, index, topic_id, config, fs, registry, clock)

    @staticmethod
    def _path(move: Move) -> str:
        return move.target.directory.future_path(move.partition.topic, move.partition.key[1], move.partition.key[0])

    # -- ends ---------------------------------------------------------------------------------------------------------------

    def _ended(self, move: Move) -> None:
        """Notes the end of a move, at the target or not."""
        del self._moves[move.partition]
        move.partition.cancel_move = None
        path = self._path(move)
        task = self._ending[path] = self._loop.create_task(self._end(move, path), name=f"ending the move of {move.partition}")
        task.add_done_callback(lambda done: self._ending.pop(path) if self._ending.get(path) is done else None)

    async def _end(self, move: Move, path: str) -> None:
        """Removes a useless copy, when no thread works on it."""
        if move.task is not None and move.task is not asyncio.current_task():
            await asyncio.wait([move.task])
        if move.working is not None:
            await asyncio.wait([move.working])
        move.copy = None
        if await self._is_released(move) and not self._closing and not move.target.sync.failed:
            try:
                await self._switching.forget(move, path)
            except OSError as error:
                log.warning("copy of a replica stays until the next start", extra=fields(path=path, reason=error))

    async def _is_released(self, move: Move) -> bool:
        """Returns when no state counts on the target for a replica elsewhere; until then the copy tells a start where it lies.

        False: the copy must stay.
        """
        partition, target, places = move.partition, move.target, self._directory_checks
        while places.may_name(partition.key, target):
            log_disk = self._open_logs.disk_of(partition)
            if log_disk is None or log_disk is target:
                break
            newer = self._moves.get(partition)
            if self._closing or log_disk.sync.failed or target.sync.failed or (newer is not None and newer.target is target):
                return False
            places.check(partition, log_disk)
            await asyncio.sleep(BUSY_RETRY_S)
        return True
