"""Which replicas of this node are on their way to another of its log directories (AlterReplicaLogDirs, KIP-113).

Any number may be; a few to each directory are copied at a time, the others wait. All of a node copy no more than
`replica.alter.log.dirs.io.max.bytes.per.second`. What goes wrong for now is tried again; a log or a directory that fails ends the
move, and the replica stays where it is. After a restart moves begin anew, from the directories that they left behind.
"""

import asyncio
import errno
import logging
from collections.abc import Callable, Mapping

from libs.clock import Clock
from libs.cluster.configs.resolve import effective_broker_int
from libs.cluster.image import ClusterImage
from libs.commitlog.directory import read_moves
from libs.commitlog.errors import LogDamaged, LogWriteError, OffsetOutOfRange, SyncFailed
from libs.commitlog.filesystem import FileSystem
from libs.commitlog.future_log import Place, SourceUnreadable
from libs.commitlog.replicated import NotReplicable
from libs.commitlog.segment import FileRegistry
from libs.commitlog.sync import NO_DESCRIPTORS
from libs.telemetry.logs import fields
from services.storage.core.throttle import Debt
from services.storage.disks import Disk
from services.storage.hosted import Hosted
from services.storage.moving.move import PIECE_BYTES, CopiedInVain, GivenUp, Move
from services.storage.moving.switching import Switching
from services.storage.residents import Residents
from services.storage.topic_settings import log_config

log = logging.getLogger(__name__)

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
COPIED_AT_ONCE = 4
AGAIN_S = 0.05
"""While the partition is busy with something else."""
RETRY_S = 2.0
"""After the disk said no."""
NAP_S = 0.5
"""A throttle that is lifted is noticed after so long."""
ENDING_S_MAX = 5.0


class Moves:
    def __init__(
        self,
        node_id: int,
        fs: FileSystem,
        registry: FileRegistry,
        clock: Clock,
        residents: Residents,
        switching: Switching,
        image: Callable[[], ClusterImage],
        static: Mapping[str, str],
    ) -> None:
        self._node_id = node_id
        self._fs, self._registry, self._clock = fs, registry, clock
        self._residents = residents
        self._switching = switching
        self._image = image
        self._static = static
        self._loop = asyncio.get_running_loop()
        self._moves: dict[Hosted, Move] = {}
        self._ending: dict[str, asyncio.Task[None]] = {}  # by the path of what is removed
        self._slots: dict[Disk, asyncio.Semaphore] = {}
        self._debt = Debt()
        self._closing = False

    def start(self, hosted: Hosted, source: Disk, target: Disk) -> None:
        """Ends another move of it. Nothing to do if it is on its way there."""
        before = self._moves.get(hosted)
        if before is not None:
            if before.target is target:
                return
            self.cancel(hosted)
        move = self._moves[hosted] = Move(hosted, source, target)
        hosted.moving = True
        move.task = self._loop.create_task(self._run(move), name=f"moving {hosted}")
        log.info("moving to another log directory", extra=fields(partition=hosted, from_dir=source.path, to_dir=target.path))

    def cancel(self, hosted: Hosted) -> None:
        """Where it is it stays. One that is just being switched to its copy is there after that: see `Residents.released`."""
        move = self._moves.get(hosted)
        if move is not None and move.task is not None and hosted not in self._residents.held:
            move.task.cancel()
            self._left(move)

    def under_way(self) -> list[Move]:
        return list(self._moves.values())

    async def close(self) -> None:
        """What was copied stays, for the next start to see where it was to go."""
        self._closing = True
        tasks = [move.task for move in self._moves.values() if move.task is not None]
        for hosted in list(self._moves):
            self.cancel(hosted)
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._ending:
            await asyncio.wait(self._ending.values(), timeout=ENDING_S_MAX)
        await self._switching.close()

    def debug(self) -> object:
        return {
            str(move.hosted): {"from": move.source.path, "to": move.target.path, "lag": move.lag} for move in self._moves.values()
        }

    # -- one of them --------------------------------------------------------------------------------------------------------

    async def _run(self, move: Move) -> None:
        try:
            path = self._path(move)
            if path in self._ending:
                await asyncio.wait([self._ending[path]])
            async with self._slots.setdefault(move.target, asyncio.Semaphore(COPIED_AT_ONCE)):
                while not await self._goes_on(move):
                    pass
        except (GivenUp, LogDamaged, NotReplicable) as error:
            log.error("replica stays in its log directory", extra=fields(partition=move.hosted, reason=error))
        except Exception:
            log.exception("replica stays in its log directory", extra=fields(partition=move.hosted))
        finally:
            if self._moves.get(move.hosted) is move:
                self._left(move)

    async def _goes_on(self, move: Move) -> bool:
        """A step. True: it is there."""
        hosted, source, target = move.hosted, move.source, move.target
        if self._closing:
            return True
        if hosted.offline or source.sync.failed or target.sync.failed:
            raise GivenUp("a log directory has failed")
        if not self._residents.has_open(hosted) or source.sync.stalled or target.sync.stalled:
            await asyncio.sleep(AGAIN_S)
            return False
        try:
            if move.copy is None:
                path = hosted.log.directory
                moves = await source.files.submit(lambda: read_moves(self._fs, path))
                await move.begin(self._place(move), moves + 1)
            copied = await move.step(min(PIECE_BYTES, self._rate()))
            await self._nap(copied)
            if self._residents.has_open(hosted) and move.is_near:
                if not self._is_announced(move):
                    await asyncio.sleep(AGAIN_S)
                    return False
                if move.copy is not None:
                    await move.work(move.copy.sync)
                if await self._switching.switch(move):
                    return True
                await asyncio.sleep(AGAIN_S)
        except (CopiedInVain, OffsetOutOfRange):
            move.copy = None
        except SourceUnreadable as error:
            if error.errno not in (errno.ENOENT, *NO_DESCRIPTORS):
                raise GivenUp(str(error)) from error
            await asyncio.sleep(AGAIN_S)
        except SyncFailed as error:
            target.sync.fail(error)
        except LogWriteError as error:
            if error.fatal:
                target.sync.fail(error)
            await self._rest(move, error)
        except OSError as error:
            await self._rest(move, error)
        return False

    def _is_announced(self, move: Move) -> bool:
        """Whether the state names the target. It is asked for when the copy is near, for as long as it takes; the partition is
        answered from where it is meanwhile."""
        key, now = move.hosted.key, self._loop.time()
        if self._residents.places.names(key, move.target):
            return True
        if move.asked_at is None or now - move.asked_at >= RETRY_S:
            move.asked_at = now
            self._residents.places.ask(key, move.target)
        return False

    async def _rest(self, move: Move, error: Exception) -> None:
        log.warning("replica is moved on later", extra=fields(partition=move.hosted, path=move.target.path, reason=error))
        await asyncio.sleep(RETRY_S)

    async def _nap(self, copied: int) -> None:
        """As long as the throttle says, as it is by then."""
        self._debt.add(copied)
        while True:
            wait_s = self._debt.wait_s(self._rate(), self._loop.time())
            if wait_s <= 0:
                return
            await asyncio.sleep(min(wait_s, NAP_S))

    def _rate(self) -> int:
        return effective_broker_int(self._image(), RATE, broker_id=self._node_id, static=self._static)

    def _place(self, move: Move) -> Place:
        hosted = move.hosted
        what = move.target.directory, hosted.topic, hosted.key[1], hosted.key[0], log_config(hosted.config)
        return Place(*what, self._fs, self._registry, self._clock)

    @staticmethod
    def _path(move: Move) -> str:
        return move.target.directory.future_path(move.hosted.topic, move.hosted.key[1], move.hosted.key[0])

    # -- ends ---------------------------------------------------------------------------------------------------------------

    def _left(self, move: Move) -> None:
        """It is there, or goes there no longer."""
        del self._moves[move.hosted]
        move.hosted.moving = False
        path = self._path(move)
        task = self._ending[path] = self._loop.create_task(self._end(move, path), name=f"ending the move of {move.hosted}")
        task.add_done_callback(lambda done: self._ending.pop(path) if self._ending.get(path) is done else None)

    async def _end(self, move: Move, path: str) -> None:
        """Removes what was copied in vain, when no thread is busy with it."""
        if move.task is not None and move.task is not asyncio.current_task():
            await asyncio.wait([move.task])
        if move.working is not None:
            await asyncio.wait([move.working])
        move.copy = None
        if await self._is_let_go(move) and not self._closing and not move.target.sync.failed:
            try:
                await self._switching.forget(move, path)
            except OSError as error:
                log.warning("copy of a replica stays until the next start", extra=fields(path=path, reason=error))

    async def _is_let_go(self, move: Move) -> bool:
        """Returns once no state counts on the target for what lies elsewhere: until then the copy tells a start that it does.
        False: that is not to be waited for."""
        hosted, target, places = move.hosted, move.target, self._residents.places
        while places.may_name(hosted.key, target):
            home = self._residents.home_of(hosted)
            if home is None or home is target:
                break
            newer = self._moves.get(hosted)
            if self._closing or home.sync.failed or target.sync.failed or (newer is not None and newer.target is target):
                return False
            places.check(hosted, home)
            await asyncio.sleep(AGAIN_S)
        return True
