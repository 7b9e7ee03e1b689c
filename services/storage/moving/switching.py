"""From a log to its copy in another directory, while nobody is answered.

Order of effects: the copy has nearly all → the partition's state names the target → checkpoints of the target name where it
starts → the partition is answered by nobody → the rest is copied → the copy is on the disk, with all that the log knows → its
directory gets the partition's name, and counts from then on → it is opened → the partition is answered from it → the directory
that it came from is renamed, and removed later.

What fails before the name changes leaves the log as it was. What fails within that leaves two of one name: before anybody is
answered again, the old one is made the newer of the two.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from libs.commitlog.directory import HIGH_WATERMARKS, LOG_START_OFFSETS, read_moves, write_moves
from libs.commitlog.errors import LogDamaged, SyncFailed
from libs.commitlog.filesystem import FileSystem
from libs.commitlog.log import Log
from libs.commitlog.segment import FileRegistry
from libs.telemetry.logs import fields
from services.storage.checkpoints import Checkpoints
from services.storage.hosted import Hosted
from services.storage.moving.move import GivenUp, Move
from services.storage.placements import Placements
from services.storage.residents import Residents

log = logging.getLogger(__name__)

HELD_S_MAX = 2.0
"""Appends wait for so long at most; a target that is slower is tried again."""


class Switching:
    """`on_durable` hears of a log that is wholly on its disk now."""

    def __init__(
        self,
        fs: FileSystem,
        registry: FileRegistry,
        residents: Residents,
        checkpoints: Checkpoints,
        placements: Placements,
        on_durable: Callable[[Hosted], None],
    ) -> None:
        self._fs = fs
        self._registry = registry
        self._residents = residents
        self._checkpoints = checkpoints
        self._placements = placements
        self._on_durable = on_durable
        self._loop = asyncio.get_running_loop()
        self._burials: set[asyncio.Task[None]] = set()

    async def switch(self, move: Move) -> bool:
        """False: not now. Raises what `Move.step` raises, and GivenUp."""
        hosted, source, target = move.hosted, move.source, move.target
        began = self._loop.time()
        try:
            await self._make_room(move)
            if not await self._tell_target(move) or not self._residents.held.hold(hosted):
                return False
            began = self._loop.time()
            try:
                moved = await self._switch(move, began + HELD_S_MAX)
            finally:
                hosted.sync.owe(hosted)
                self._residents.held.release(hosted)
                hosted.sync.kick()
        finally:
            target.forget_arriving(hosted.topic, hosted.key[1])
        if not moved:
            return False
        what = {"from_dir": source.path, "to_dir": target.path, "held_ms": round((self._loop.time() - began) * 1000)}
        log.info("moved to another log directory", extra=fields(partition=hosted, **what))
        self._on_durable(hosted)
        self._placements.settled(hosted.key, target.directory_id)
        self._bury_source(move)
        return True

    async def forget(self, move: Move, path: str) -> None:
        """It is there, or is not to go there any more: what was copied is removed, and before that, what checkpoints tell of it.
        Raises OSError."""
        target = move.target
        if await target.files.submit(lambda: self._fs.exists(path)) and await self._checkpoints.write_log_starts(
            target, anyway=True
        ):
            await self._checkpoints.write_high_watermarks_of(target)
            await target.files.submit(lambda: target.directory.remove(path))

    async def close(self) -> None:
        """What is not buried then is set aside by the next start."""
        await asyncio.gather(*self._burials, return_exceptions=True)

    async def _make_room(self, move: Move) -> None:
        hosted, target = move.hosted, move.target
        path = target.directory.partition_path(hosted.topic, hosted.key[1])
        if await target.files.submit(lambda: self._fs.exists(path)):
            await target.make_room_for(hosted.topic, hosted.key[1], hosted.key[0])

    async def _tell_target(self, move: Move) -> bool:
        """Whether the target's checkpoints say where the log is to start: a start that anyone has seen does not go back."""
        hosted, target = move.hosted, move.target
        name = hosted.topic, hosted.key[1]
        start = hosted.log.log_start_offset
        target.arriving.setdefault(LOG_START_OFFSETS, {})[name] = start
        target.arriving.setdefault(HIGH_WATERMARKS, {})[name] = max(0, min(hosted.high_watermark, hosted.log.durable_offset))
        done = await self._checkpoints.write_log_starts(target, anyway=True)
        return await self._checkpoints.write_high_watermarks_of(target) and done and hosted.log.log_start_offset == start

    async def _switch(self, move: Move, until: float) -> bool:
        """Nobody is answered."""
        hosted, source, target, copy = move.hosted, move.source, move.target, move.copy
        before = hosted.log
        assert copy is not None
        source.sync.forget(hosted)  # no round may write into a directory that is about to be renamed
        await source.sync.quiet()
        while not move.is_whole:
            await move.step()
            if self._loop.time() > until or hosted.offline:
                return False
        start = before.log_start_offset
        if target.arriving[LOG_START_OFFSETS].get((hosted.topic, hosted.key[1])) != start:
            return False
        epochs, producers = before.epochs.entries(), dict(before.producers.entries)
        move.must_reopen = True
        finishing = asyncio.ensure_future(move.work(lambda: copy.finish(epochs, producers, start)))
        await asyncio.wait([finishing], timeout=max(0.0, until - self._loop.time()))
        if not finishing.done():
            log.warning("log directory is too slow to move to it now", extra=fields(partition=hosted, path=target.path))
            finishing.add_done_callback(_forget_error)
            return False
        finishing.result()
        if hosted.offline or source.sync.failed or target.sync.failed or not self._residents.places.names(hosted.key, target):
            return False
        try:
            after = await move.work(copy.promote)
        except (OSError, LogDamaged) as error:
            await self._stay(move)
            if isinstance(error, SyncFailed):
                target.sync.fail(error)
            raise GivenUp(str(error)) from error
        self._change_over(move, before, after)
        return True

    async def _stay(self, move: Move) -> None:
        """The copy may bear the partition's name now: the log that goes on is made the newer one, and the copy a copy again."""
        path, source, copy = move.hosted.log.directory, move.source, move.copy
        assert copy is not None
        try:
            await source.files.submit(lambda: write_moves(self._fs, path, read_moves(self._fs, path) + 2))
        except OSError as error:
            source.sync.fail(error)
        with contextlib.suppress(OSError):
            await move.work(copy.demote)

    def _change_over(self, move: Move, before: Log, after: Log) -> None:
        hosted, target = move.hosted, move.target
        # An opening forgets epochs in which nothing was written, and transactions that ended and are not replicated yet.
        after.take_over(before.epochs.entries(), before.producers)
        after.high_watermark = before.high_watermark
        hosted.log, hosted.sync = after, target.sync
        hosted.configure(hosted.config)
        hosted.next_offset = after.log_end_offset
        for segment in before.segments:  # whoever reads one goes on; nobody begins to
            self._registry.remove(segment.file)
        before.close(clean=False)
        target.arrived(hosted.key, hosted.topic)
        if move.cleaned_to is not None:
            cleaned_to = min(move.cleaned_to, before.cut_to, after.log_end_offset)
            target.cleaned_offsets[hosted.topic, hosted.key[1]] = cleaned_to
        self._residents.moved(hosted, target)

    def _bury_source(self, move: Move) -> None:
        """Begun in this turn: whoever wants the name there waits behind it."""
        task = self._loop.create_task(self._residents.bury_source(move.hosted, move.source))
        self._burials.add(task)
        task.add_done_callback(self._burials.discard)


def _forget_error(done: Awaitable[object]) -> None:
    if isinstance(done, asyncio.Future) and not done.cancelled():
        done.exception()
