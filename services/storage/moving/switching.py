"""The switch from a log to its copy in another directory, while the partition is frozen.

Order of effects: the copy has nearly all → the partition's state names the target → checkpoints of the target have its log start
→ the partition is frozen → the rest is copied → the copy is on the disk, with all that the log knows → its directory gets the
partition's name, and counts from then on → it is opened → the partition is served from it → the source directory is renamed, and
removed later.

A failure before the name changes leaves the log as it was. A failure within that leaves two directories of one name. Before the
partition is served again, the old one is made the newer of the two.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from libs.commitlog.checkpoints.offset_checkpoint import Entry
from libs.commitlog.model.errors import LogDamaged, SyncFailed
from libs.commitlog.partition_log.directory import HIGH_WATERMARKS, LOG_START_OFFSETS, read_moves, write_moves
from libs.commitlog.partition_log.log import Log
from libs.telemetry.logs import fields
from services.storage.disks.directory_checks import DirectoryChecks
from services.storage.disks.disks import Disk
from services.storage.logs.checkpoints import Checkpoints
from services.storage.moving.move import Move, MoveFailed
from services.storage.partition.log_files import LogFiles
from services.storage.partition.open_logs import OpenLogs
from services.storage.partition.partition import Partition
from services.storage.reconcile.frozen_partitions import FrozenPartitions

log = logging.getLogger("disks")

HELD_S_MAX = 2.0
"""The longest time that appends wait. A switch to a slower target is tried again."""


class Switching:
    """The switches. `on_durable` is called for a log that is wholly on its disk."""

    def __init__(
        self,
        files: LogFiles,
        open_logs: OpenLogs[Disk],
        frozen: FrozenPartitions,
        directory_checks: DirectoryChecks,
        checkpoints: Checkpoints,
        *,
        on_durable: Callable[[Partition], None],
        delete_source: Callable[[Partition, Disk], Coroutine[Any, Any, None]],
    ) -> None:
        self._fs = files.fs
        self._registry = files.registry
        self._open_logs = open_logs
        self._frozen = frozen
        self._directory_checks = directory_checks
        self._delete_source_files = delete_source
        self._checkpoints = checkpoints
        self._on_durable = on_durable
        self._loop = asyncio.get_running_loop()
        self._deletions: set[asyncio.Task[None]] = set()

    async def switch(self, move: Move) -> bool:
        """Switches to the copy. False: not now. Raises what `Move.step` raises, and MoveFailed."""
        partition, source, target = move.partition, move.source, move.target
        began = self._loop.time()
        try:
            await self._make_room(move)
            if not await self._write_target_checkpoints(move) or not self._frozen.freeze(partition):
                return False
            began = self._loop.time()
            try:
                moved = await self._switch(move, began + HELD_S_MAX)
            finally:
                partition.sync.request_round(partition)
                self._frozen.unfreeze(partition)
                partition.sync.start_round()
        finally:
            target.forget_arriving(partition.topic, partition.key[1])
        if not moved:
            return False
        details = {"from_dir": source.path, "to_dir": target.path, "held_ms": round((self._loop.time() - began) * 1000)}
        log.info("moved to another log directory", extra=fields(partition=partition, **details))
        self._on_durable(partition)
        self._directory_checks.report(partition.key, target)
        self._delete_source(move)
        return True

    async def forget(self, move: Move, path: str) -> None:
        """Removes the copy of an ended move, and before it the checkpoint's entries for it. Raises OSError."""
        target = move.target
        if await target.files.submit(lambda: self._fs.exists(path)) and await self._checkpoints.write_log_starts(target):
            await self._checkpoints.write_high_watermarks_of(target)
            await target.files.submit(lambda: target.directory.remove(path))

    async def close(self) -> None:
        """Ends deletions. Sources that are left are set aside by the next start."""
        await asyncio.gather(*self._deletions, return_exceptions=True)

    async def _make_room(self, move: Move) -> None:
        partition, target = move.partition, move.target
        path = target.directory.partition_path(partition.topic, partition.key[1])
        if await target.files.submit(lambda: self._fs.exists(path)):
            await target.make_room_for(partition.topic, partition.key[1], partition.key[0])

    async def _write_target_checkpoints(self, move: Move) -> bool:
        """Writes the log's start into the target's checkpoints, since a start that anyone has seen must not go back. False: not
        done."""
        partition, target = move.partition, move.target
        name = partition.topic, partition.key[1]
        start = partition.log.log_start_offset
        target.arriving.setdefault(LOG_START_OFFSETS, {})[name] = Entry(start, partition.key[0])
        committed = max(0, min(partition.high_watermark, partition.log.durable_offset))
        target.arriving.setdefault(HIGH_WATERMARKS, {})[name] = Entry(committed, partition.key[0])
        done = await self._checkpoints.write_log_starts(target)
        return await self._checkpoints.write_high_watermarks_of(target) and done and partition.log.log_start_offset == start

    async def _switch(self, move: Move, until: float) -> bool:
        """Switches while the partition is frozen. False: not now."""
        partition, source, target, copy = move.partition, move.source, move.target, move.copy
        before = partition.log
        assert copy is not None
        source.sync.forget(partition)  # no round may write into a directory that is about to be renamed
        await source.sync.wait_for_round()
        while not move.is_whole:
            await move.step()
            if self._loop.time() > until or partition.offline:
                return False
        start = before.log_start_offset
        if target.arriving[LOG_START_OFFSETS].get((partition.topic, partition.key[1])) != Entry(start, partition.key[0]):
            return False
        epochs, producers = before.epochs.entries(), before.producers.view()
        move.must_reopen = True
        finishing = asyncio.ensure_future(move.work(lambda: copy.finish(epochs, producers, start)))
        await asyncio.wait([finishing], timeout=max(0.0, until - self._loop.time()))
        if not finishing.done():
            log.warning("log directory is too slow to move to it now", extra=fields(partition=partition, path=target.path))
            finishing.add_done_callback(_forget_error)
            return False
        finishing.result()
        if (
            partition.offline
            or source.sync.failed
            or target.sync.failed
            or not self._directory_checks.names(partition.key, target)
        ):
            return False
        try:
            after = await move.work(copy.promote)
        except (OSError, LogDamaged) as error:
            await self._roll_back(move)
            if isinstance(error, SyncFailed):
                target.sync.fail(error)
            raise MoveFailed(str(error)) from error
        self._replace_log(move, before, after)
        return True

    async def _roll_back(self, move: Move) -> None:
        """Makes the old log the newer one, and the copy a copy again: it may have the partition's name already."""
        path, source, copy = move.partition.log.directory, move.source, move.copy
        assert copy is not None
        try:
            await source.files.submit(lambda: write_moves(self._fs, path, read_moves(self._fs, path) + 2))
        except OSError as error:
            source.sync.fail(error)
        with contextlib.suppress(OSError):
            await move.work(copy.demote)

    def _replace_log(self, move: Move, before: Log, after: Log) -> None:
        partition, target = move.partition, move.target
        # An opening forgets epochs without batches, and ended transactions that are not replicated yet.
        after.take_over(before.epochs.entries(), before.producers)
        partition.log, partition.sync = after, target.sync
        partition.configure(partition.config)
        partition.next_offset = after.log_end_offset
        for segment in before.segments:  # running reads go on, new ones do not begin
            self._registry.remove(segment.file)
        before.close(clean=False)
        target.arrived(partition.key, partition.topic)
        if move.cleaned_to is not None:
            cleaned_to = min(move.cleaned_to, before.truncated_to, after.log_end_offset)
            target.cleaned_offsets[partition.key] = cleaned_to
        self._open_logs.put(partition, target)

    def _delete_source(self, move: Move) -> None:
        """Deletes the source. It begins in this turn, so that whoever wants the name there waits behind it."""
        task = self._loop.create_task(self._delete_source_files(move.partition, move.source))
        self._deletions.add(task)
        task.add_done_callback(self._deletions.discard)


def _forget_error(done: Awaitable[object]) -> None:
    if isinstance(done, asyncio.Future) and not done.cancelled():
        done.exception()
