"""Stories of one log directory: what its partitions owe, and the rounds that pay. The shell plays them on virtual time.

A step shows what the rounds did, then the states of each partition that owes something, then those of the rounds.
"""

import asyncio
import errno
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from libs.commitlog.files.filesystem import OsFileSystem
from services.storage.core import sync_states
from services.storage.partition.sync_scheduler import SyncScheduler
from services.storage.threads.offload import Offload
from tests.simulation.cluster.loop import VirtualLoop
from tests.support.stories import Command, check_story

STORIES = sorted((Path(__file__).parent / "sync_stories").glob("*.txt"))
HANG_S = 10.0
TURN_S = 0.0001


class Targets(SimpleNamespace):
    def without_writes(self) -> "Targets":
        return Targets(end=self.end, writes=(), removals=())


class FakeLog:
    """A log that is two numbers."""

    def __init__(self) -> None:
        self.log_end_offset = self.durable_offset = 0
        self.has_epoch = self.has_writes = self.is_faulty = self.lacks_descriptor = False
        self.active = SimpleNamespace(is_unsynced=False)

    def sync_targets(self, *, indexes: bool = False) -> Targets | None:
        if self.is_faulty:
            raise KeyError(0)
        if self.lacks_descriptor:
            raise OSError(errno.EMFILE, "no descriptor")
        indexes &= self.active.is_unsynced
        if self.durable_offset == self.log_end_offset and not (self.has_epoch or self.has_writes or indexes):
            return None
        self.active.is_unsynced &= not indexes
        return Targets(end=self.log_end_offset, writes=("resume point",) if self.has_writes else (), removals=())

    def mark_synced(self, targets: Targets) -> None:
        self.durable_offset, self.has_epoch = targets.end, False
        if targets.writes:
            self.has_writes = False


class FakePartition(SimpleNamespace):
    """Compared by identity, as a partition is."""

    __eq__, __hash__ = object.__eq__, object.__hash__


class ByHand(Offload):
    """Syncs end when the story says so."""

    def __init__(self, began: Callable[[], None]) -> None:
        self.began = began
        self.syncing: asyncio.Future[Any] | None = None

    def submit(self, work: Callable[[], Any]) -> "asyncio.Future[Any]":
        self.began()
        self.syncing = asyncio.get_running_loop().create_future()
        return self.syncing

    def close(self) -> None:
        pass


class Stage:
    """Plays commands on the scheduler of one directory, and tells its events."""

    def __init__(self) -> None:
        self.loop = VirtualLoop(Random(1))  # type: ignore[abstract]
        self.lines: list[str] = []
        self.partitions: dict[str, Any] = {}
        self.disk = ByHand(lambda: self._began(self.scheduler))
        self.other_disk = ByHand(lambda: self._began(self.elsewhere))
        self.open_files = SimpleNamespace(crowded=False)
        self.loop.run(self._open())

    async def _open(self) -> None:
        files: Any = self.open_files
        self.scheduler: SyncScheduler[Any] = SyncScheduler("disk", OsFileSystem(), self.disk, self, files, hang_s=HANG_S)
        self.elsewhere: SyncScheduler[Any] = SyncScheduler("other", OsFileSystem(), self.other_disk, self, files, hang_s=HANG_S)

    def run(self, commands: Sequence[Command]) -> list[str]:
        self.lines = []
        self.loop.run(self._play(commands))
        return [*self.lines, *self._states()]

    async def _play(self, commands: Sequence[Command]) -> None:
        for command in commands:
            getattr(self, f"_{command.verb}")(command)
            await asyncio.sleep(float(command.arguments.get("s", TURN_S)))
            assert self.scheduler.broken_invariant() == ""

    def _states(self) -> list[str]:
        states, owed = self.scheduler.states, []
        for name, partition in sorted(self.partitions.items()):
            if found := states.states_of(partition):
                owed.append(f"{name}: {', '.join(sorted(found))}")
        urgent = ", urgent" if states.urgent and (states.dirty or states.requested) else ""
        return [*owed, f"rounds: {states.round}{urgent}"]

    # -- events ---------------------------------------------------------------------------------------------------------------

    def _began(self, scheduler: SyncScheduler[Any]) -> None:
        taken = ", ".join(self._name(each) for each in scheduler.states.in_round)
        self.lines.append(f"a round{' elsewhere' if scheduler is self.elsewhere else ''} takes {taken}")

    def round_ended(self, synced: Sequence[Any], seconds: float) -> None:
        ends = ", ".join(f"{self._name(partition)} to {partition.log.durable_offset}" for partition in synced)
        self.lines.append(f"durable: {ends or 'nothing'}")

    def sync_stalled(self, scheduler: object, *, stalled: bool) -> None:
        self.lines.append("the sync hangs" if stalled else "the sync returned")

    def room_changed(self, scheduler: object) -> None:
        pass

    def retired(self, scheduler: object, error: Exception) -> None:
        self.lines.append("the directory is retired")

    def _name(self, partition: object) -> str:
        return next(name for name, each in self.partitions.items() if each is partition)

    # -- commands -------------------------------------------------------------------------------------------------------------

    def _partition(self, command: Command) -> Any:
        """Its topic is `synced`, unless it has a flush.ms."""
        name = command.arguments["p"]
        if name not in self.partitions:
            self.partitions[name] = FakePartition(
                log=FakeLog(), replica=SimpleNamespace(synced=True), config=None, sync=self.scheduler
            )
        return self.partitions[name]

    def _replicated(self, command: Command) -> None:
        partition = self._partition(command)
        partition.replica.synced = False
        partition.config = SimpleNamespace(flush_messages=command.number("flush_messages"), flush_ms=command.number("flush_ms"))

    def _append(self, command: Command) -> None:
        partition = self._partition(command)
        partition.log.log_end_offset += 1
        self.scheduler.appended(partition)

    def _epoch(self, command: Command) -> None:
        partition = self._partition(command)
        partition.log.has_epoch = True
        self.scheduler.request_round(partition)

    def _has(self, command: Command) -> None:
        """What the log has from now on: `indexes` or small `files` that are not written, a `fault`, or no `descriptor`."""
        log, what = self._partition(command).log, command.arguments["what"]
        log.active.is_unsynced |= what == "indexes"
        log.has_writes |= what == "files"
        log.is_faulty, log.lacks_descriptor = what == "fault", what == "no_descriptor"

    def _files(self, command: Command) -> None:
        self.open_files.crowded = command.arguments["scarce"] == "yes"

    def _urgent(self, command: Command) -> None:
        self.scheduler.mark_urgent()

    def _start(self, command: Command) -> None:
        self.scheduler.start_round()

    def _flush(self, command: Command) -> None:
        self.scheduler.flush_overdue()

    def _end(self, command: Command) -> None:
        """The sync returns. `error`: with that; `room=no`: it wrote no small files."""
        syncing, name = self.disk.syncing, command.arguments.get("error")
        assert syncing is not None
        self.disk.syncing = None
        if name is None:
            syncing.set_result(command.arguments.get("room") != "no")
        else:
            syncing.set_exception(OSError(getattr(errno, name), name))

    def _wait(self, command: Command) -> None:
        pass

    def _forget(self, command: Command) -> None:
        self.scheduler.forget(self._partition(command))

    def _move(self, command: Command) -> None:
        self._partition(command).sync = self.elsewhere

    def _fail(self, command: Command) -> None:
        self.scheduler.fail(OSError(errno.EIO, "a write failed"))


@pytest.fixture(autouse=True)
def small_rounds(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(sync_states, "REQUESTED_PER_ROUND", 2)
    caplog.set_level(logging.CRITICAL)


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path: Path) -> None:
    check_story(path, Stage().run)
