"""The storage node: follows the cluster image, serves RPC, and ties appends, syncs, fetches and partitions together.

Order of a start: lock → incarnation → image → log directories → logs → RPC → membership. It registers only once it can lead, and
leads only when a partition state names the incarnation that registered (Rule: restarts).
Order of a stop: others lead what they can → no more appends → final sync → logs closed → clean mark → lease revoked, so that
nobody is elected in its place while its last answers are still on their way.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from functools import partial

from libs.cluster.follower import ImageFollower
from libs.cluster.records import STORAGE
from libs.commitlog.log import Log
from libs.commitlog.segment import FileRegistry
from libs.commitlog.sync import run_round
from libs.rpc.client import RpcClient
from libs.rpc.contracts.outline import OUTLINE
from libs.rpc.contracts.ownership import CLAIM
from libs.rpc.contracts.storage import (
    ALTER_LOG_DIRS,
    APPEND,
    DELETE_RECORDS,
    DESCRIBE_LOG_DIRS,
    FETCH,
    LIST_OFFSETS,
    OPEN_FILE,
)
from libs.runtime.children import Children
from libs.runtime.controllers import Controllers
from libs.telemetry.logs import fields
from services.storage.appends import Appends
from services.storage.checkpoints import Checkpoints
from services.storage.chores import Chores
from services.storage.config import StorageConfig
from services.storage.core.leadership import assigned_directory
from services.storage.delete_records import RecordDeletion
from services.storage.departure import hand_over
from services.storage.disk_opening import open_disks
from services.storage.disks import Disk, Disks
from services.storage.fetches import Fetches
from services.storage.following.following import Following
from services.storage.following.starts import LogStarts
from services.storage.following.surgery import Surgery
from services.storage.hosted import Hosted, Key
from services.storage.leader_checks import LeaderChecks
from services.storage.leading import Leading
from services.storage.list_offsets import OffsetListing
from services.storage.log_dirs import LogDirDescription
from services.storage.meters import Meters
from services.storage.moving.leftovers import begin_anew, settle_twins
from services.storage.moving.moves import Moves
from services.storage.moving.requests import DirectoryChanges
from services.storage.moving.switching import Switching
from services.storage.moving.wanted import WantedDirectories
from services.storage.near_readers import NearReaders
from services.storage.open_file import FileOpening
from services.storage.openings import Openings
from services.storage.outline import Outlining
from services.storage.partitions import Partitions
from services.storage.placements import Placements
from services.storage.presence import Presence
from services.storage.readers import Readers
from services.storage.recovery import Recovery
from services.storage.residents import Residents
from services.storage.shortening import Shortening
from services.storage.stalls import Stalls
from services.storage.surroundings import Surroundings
from services.storage.sync_scheduler import SyncScheduler
from services.storage.withdrawals import Withdrawals

log = logging.getLogger(__name__)

CLOSED_PER_ROUND = 256
MARK_S_MAX = 2.0
"""How long a stop waits for a failed disk to take the mark that it failed."""

BATCH_OPENERS = max(1, len(os.sched_getaffinity(0)) - 1)
"""Processes that look into produced batches; the event loop needs a core too."""
LOOKUPS = 2
"""Batches that are opened for a timestamp at the same time. Each may be of many megabytes, decompressed."""


class StorageNode:
    """`start` returns when the node is registered; `ready` tells how far it is until then."""

    def __init__(self, config: StorageConfig, incarnation: int, world: Surroundings) -> None:
        self._config = config
        self._incarnation = incarnation
        self._world = world
        self._loop = asyncio.get_running_loop()
        self._state = "starting"
        self._loaded = False
        self._follower = ImageFollower(world.store)
        self._presence = Presence(config, incarnation, world, self._follower)
        self._partitions = Partitions(config.node_id, incarnation)
        self._registry = FileRegistry(world.open_files)
        self._meters = Meters(world.metrics, self._partitions)
        self._controller = Controllers(self._presence.hello, world.host_id, world.transport)
        self._checks = LeaderChecks(config.node_id, world.store)
        self._fetches = Fetches(self._partitions, self._meters, NearReaders(self._partitions, config.static), self._checks)
        self._leading = Leading(
            *(incarnation, self._partitions, self._meters, self._controller),
            on_committed=lambda hosted: self._appends.committed(hosted),
            static=config.static,
        )
        self._readers = Readers(self._fetches, self._leading.pulls)
        self._appends = Appends(
            self._partitions,
            world.clock,
            self._meters,
            self._checks,
            children=world.children("batches", BATCH_OPENERS, 0),
            children_max=BATCH_OPENERS,
            on_appended=self._leading.pulls.appended,
            on_committed=self._committed,
            readers_wait=self._fetches.waiting_on,
        )
        self._disks = Disks(())
        self._lookups = world.offload("lookups", LOOKUPS)
        self._residents: Residents | None = None
        self._placements: Placements | None = None
        self._withdrawals: Withdrawals | None = None
        self._stalls: Stalls | None = None
        self._checkpoints: Checkpoints | None = None
        self._shortening: Shortening | None = None
        self._following: Following | None = None
        self._moves: Moves | None = None
        self._chores: Chores | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._marks: list[asyncio.Future[None]] = []

    def ready(self) -> tuple[bool, str]:
        if self._state != "serving":
            return False, self._state
        if not self._disks.usable:
            return False, "every log directory has failed"
        stalled = [disk.path for disk in self._disks.all if disk.sync.stalled]
        if stalled:
            return False, f"a sync of {stalled[0]} hangs"
        return True, ""

    def debug(self) -> Mapping[str, Callable[[], object]]:
        """For the admin port's /debug."""
        return {
            "partitions": self._partitions.debug,
            "following": lambda: self._following.debug() if self._following is not None else None,
            "moves": lambda: self._moves.debug() if self._moves is not None else None,
            "cleaner": lambda: self._chores.cleaning.debug() if self._chores is not None else None,
        }

    # -- start ------------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Raises DirectoryLocked, DirectoryOfAnother, DirectoryDamaged, OSError: then the node cannot run here."""
        self._state = "waiting for the metadata store"
        await self._presence.first_image()
        cluster_id = await self._cluster_id()
        self._state = "opening log directories"
        await self._presence.look_for_another()
        self._controller.follow(self._follower.image)
        self._follower.subscribe(lambda _, new: self._controller.follow(new))
        self._presence.look_back()
        opened = await open_disks(self._config, self._world, cluster_id, self, self._meters.offline)
        self._disks = Disks(opened, len(self._config.directories))
        await settle_twins(self._disks, self._world.fs, self._assigned_directory)
        caller = self._config.node_id, self._incarnation
        wanted = WantedDirectories(self._partitions, self._disks)
        self._placements = Placements(*caller, lambda: self._follower.image, self._controller, self._disks.opened_ids)
        self._withdrawals = Withdrawals(*caller, lambda: self._follower.image, self._controller)
        self._residents = residents = Residents(
            self._incarnation,
            self._partitions,
            self._disks,
            Openings(self._world.fs, self._registry, self._world.clock, Recovery(self._recovery_processes)),
            self._appends,
            self._readers,
            *(self._placements, self._withdrawals, wanted),
            before_removal=self._forget_deleted,
            static=self._config.static,
        )
        self._checkpoints = Checkpoints(self._disks, residents)
        self._shortening = Shortening(self._world.fs, residents, self._checkpoints, on_start=self._starts_later)
        self._following = self._make_following(self._checkpoints, self._shortening)
        residents.follow_with(self._following)
        self._moves = self._make_moves(residents, self._checkpoints, self._placements)
        residents.move_with(self._moves)
        self._stalls = Stalls(residents, self._following, self._withdrawals)
        self._state = "opening logs"
        self._follower.subscribe(residents.follow)
        residents.follow(type(self._follower.image)(), self._follower.image)
        await residents.settled()
        await residents.set_aside_strays()
        await begin_anew(self._disks, residents, self._moves, self._checkpoints)
        self._loaded = True
        self._state = "registering"
        await self._listen(self._shortening, residents, self._moves, wanted)
        self._placements.start()
        self._leading.start()
        self._chores = Chores(
            *(self._config, self._world, self._follower, self._partitions, self._disks),
            *(residents, self._checkpoints, self._shortening),
        )
        self._chores.start()
        await self._withdrawals.tell_first()
        await self._presence.register()
        self._following.begin()
        self._withdrawals.start()
        self._state = "serving"
        log.info("serving", extra=fields(incarnation=self._incarnation, logs=len(residents.open_logs())))

    async def _cluster_id(self) -> str:
        """The first controller gives the cluster its id; until then there is nothing to serve."""
        while not self._follower.image.cluster_id:
            changed = asyncio.Event()
            unsubscribe = self._follower.subscribe(lambda old, new, changed=changed: changed.set())  # type: ignore[misc]
            try:
                if not self._follower.image.cluster_id:
                    await changed.wait()
            finally:
                unsubscribe()
        return self._follower.image.cluster_id

    def _recovery_processes(self) -> Children:
        return self._world.children("recovery", self._config.recovery_processes or len(os.sched_getaffinity(0)), 0)

    def _connect(self, address: str, storage_node: int) -> RpcClient:
        return RpcClient(address, self._presence.hello, self._world.transport, expected=(STORAGE, storage_node))

    def _make_following(self, checkpoints: Checkpoints, shortening: Shortening) -> Following:
        return Following(
            *(self._config.node_id, self._incarnation, self._world.host_id),
            lambda: self._partitions.image,
            self._connect,
            Surgery(self._partitions, checkpoints),
            LogStarts(shortening),
            self._committed,
            self._world.metrics,
            self._config.static,
        )

    def _make_moves(self, residents: Residents, checkpoints: Checkpoints, placements: Placements) -> Moves:
        switching = Switching(self._world.fs, self._registry, residents, checkpoints, placements, self.synced)
        return Moves(
            *(self._config.node_id, self._world.fs, self._registry, self._world.clock, residents, switching),
            lambda: self._partitions.image,
            self._config.static,
        )

    def _assigned_directory(self, key: Key) -> str:
        state = self._follower.image.partition(*key)
        return assigned_directory(state, self._config.node_id) if state is not None else ""

    async def _listen(self, shortening: Shortening, residents: Residents, moves: Moves, wanted: WantedDirectories) -> None:
        directories = DirectoryChanges(self._config.directories, self._partitions, self._disks, residents, moves, wanted)
        methods = {
            APPEND: self._appends.accept,
            CLAIM: self._appends.owners.accept,
            FETCH: self._fetches.accept,
            LIST_OFFSETS: OffsetListing(self._partitions, self._lookups).accept,
            DELETE_RECORDS: RecordDeletion(self._partitions, self._disks, shortening).accept,
            DESCRIBE_LOG_DIRS: LogDirDescription(self._disks, residents, moves, self._world.fs).accept,
            ALTER_LOG_DIRS: directories.accept,
            OPEN_FILE: FileOpening(self._registry).accept,
            **self._leading.methods,
            OUTLINE: Outlining(self._partitions, self._registry).accept,
        }
        await self._presence.listen(methods, self._appends.end_turn, self._disks.directory_ids)

    # -- events -------------------------------------------------------------------------------------------------------------

    def _committed(self, hosted: Hosted) -> None:
        hosted.log.high_watermark = hosted.high_watermark
        self._readers.committed(hosted.key)

    def _starts_later(self, hosted: Hosted) -> None:
        self._leading.pulls.committed(hosted.key)
        if self._following is not None:
            self._following.starts_later(hosted)

    def synced(self, hosted: Hosted) -> None:
        if hosted.replica.synced_to(hosted.log.durable_offset):
            self._appends.committed(hosted)
        if self._following is not None:
            self._following.synced(hosted)

    def round_ended(self, seconds: float) -> None:
        self._meters.flush_time.observe(seconds)
        if self._following is not None:
            self._following.round_ended()

    def sync_stalled(self, scheduler: SyncScheduler, *, stalled: bool) -> None:
        """While it hangs, its partitions take no more appends, and others are to lead them."""
        (self._meters.stalled.add if stalled else self._meters.stalled.discard)(scheduler.disk)
        log.error("sync hangs" if stalled else "sync returned", extra=fields(path=scheduler.disk))
        if self._stalls is not None:
            (self._stalls.begun if stalled else self._stalls.ended)(scheduler)

    def retired(self, scheduler: SyncScheduler, error: Exception) -> None:
        """Rule: never retried. Its partitions go offline, and the cluster is told which directories are left."""
        log.critical("log directory retired", extra=fields(path=scheduler.disk, reason=error))
        self._meters.offline.add(scheduler.disk)
        assert self._residents is not None
        disk = self._disks.of(scheduler)
        self._residents.retire(disk)
        # The process stays, even without any directory: after a failed fsync the page cache may hold what the disk does not, and
        # a restarted process would recover from the page cache. The mark keeps it from doing so.
        for mark in (partial(disk.directory.mark_retired, str(error)), self._presence.doubt_survival):
            self._marks.append(disk.files.submit(mark))
            self._marks[-1].add_done_callback(partial(_marked, disk.path))
        self._tasks.append(self._loop.create_task(self._tell_directories(), name="log directories changed"))

    async def _tell_directories(self) -> None:
        await self._presence.tell_directories(self._disks.directory_ids)

    # -- stop ---------------------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Clean: what was acknowledged is on disk, and the next start reads nothing again."""
        self._state = "stopping"
        await hand_over(self._config.node_id, self._presence, self._follower, self._config.hand_over_s)
        self._appends.stop()
        if self._moves is not None:
            await self._moves.close()
        if self._following is not None:
            await self._following.close()
        for disk in self._disks.usable:
            await disk.sync.drain()
        self._readers.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._chores is not None:
            await self._chores.stop()
        if self._shortening is not None:
            await self._shortening.close()
        if self._marks:
            await asyncio.wait(self._marks, timeout=MARK_S_MAX)
        if self._placements is not None:
            await self._placements.close()
        if self._withdrawals is not None:
            await self._withdrawals.close()
        await self._leading.close()
        await self._presence.hang_up()
        await self._follower.close()
        if self._residents is not None:
            await self._residents.close()
            await self._close_logs(self._residents)
        self._appends.close()
        self._checks.close()
        for disk in self._disks.all:
            disk.close()
        self._lookups.close()
        await self._presence.leave()
        # Heartbeats until the end: who falls silent while its logs are closed is taken for dead.
        await self._controller.close()
        self._state = "stopped"

    async def _forget_deleted(self) -> None:
        if self._checkpoints is not None:
            await self._checkpoints.write_high_watermarks()

    async def _close_logs(self, residents: Residents) -> None:
        """A directory is marked clean only if every log in it was opened, and closed cleanly."""
        assert self._checkpoints is not None
        await self._checkpoints.write_high_watermarks()
        for disk in self._disks.usable:
            await disk.sync.drain()  # of what upkeep and retention asked for meanwhile
            logs = [hosted.log for hosted, home in residents.open_logs() if home is disk]
            try:
                await self._close_on(disk, logs)
                await self._checkpoints.write_recovery_points()
                if self._loaded and not disk.unopened():
                    await disk.files.submit(disk.directory.mark_clean)
            except OSError as error:
                log.error("log directory not closed cleanly", extra=fields(path=disk.path, reason=error))

    async def _close_on(self, disk: Disk, logs: list[Log]) -> None:
        """Many share a round, but no more than may be open until it is over. Raises OSError."""
        together = max(1, min(CLOSED_PER_ROUND, self._world.open_files.capacity // 16))
        for first in range(0, len(logs), together):
            closing = logs[first : first + together]
            found = await asyncio.gather(*[disk.logs.submit(one.last_targets) for one in closing])
            targets = [one for one in found if one is not None]
            if targets:
                await disk.files.submit(partial(run_round, targets, self._world.fs, disk.path))
            for one, of_one in zip(closing, found, strict=True):
                if of_one is not None:
                    one.mark_synced(of_one)


def _marked(path: str, done: "asyncio.Future[None]") -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        log.error("log directory could not be marked as retired", extra=fields(path=path, reason=error))
