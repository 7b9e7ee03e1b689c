"""The scheduler with very many partitions at once, and the time after which a round counts as hanging."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, cast

import pytest

from libs.commitlog.files.filesystem import OsFileSystem
from libs.commitlog.files.open_files import OpenFiles
from services.storage.partition.sync_scheduler import SyncScheduler
from services.storage.threads.offload import Offload, ThreadOffload
from tests.simulation.cluster.loop import VirtualLoop


class DurableLog:
    def sync_targets(self) -> None:
        return None


class Durable:
    """A partition that is owed a round and needs none."""

    def __init__(self, sync: SyncScheduler[Any]) -> None:
        self.log = DurableLog()
        self.sync = sync


async def test_rounds_that_find_nothing_to_do_go_on_to_the_last_that_is_owed() -> None:
    events: Any = None
    scheduler: SyncScheduler[Any] = SyncScheduler("disk", OsFileSystem(), ThreadOffload("sync"), events, OpenFiles(), hang_s=10.0)
    partitions: list[Any] = [Durable(scheduler) for _ in range(50_000)]
    for partition in partitions:
        scheduler.request_round(partition)
    scheduler.start_round()
    await scheduler.drain()  # at once: nothing is left
    scheduler.close()


class ByHand(Offload):
    """Work ends when the test says so."""

    def __init__(self) -> None:
        self.under_way: list[asyncio.Future[Any]] = []

    def submit(self, work: Callable[[], Any]) -> "asyncio.Future[Any]":
        self.under_way.append(asyncio.get_running_loop().create_future())
        return self.under_way[-1]

    def close(self) -> None:
        pass


class Told:
    """The events that matter here, with their moments."""

    def __init__(self) -> None:
        self.stalled: list[tuple[float, bool]] = []

    def round_ended(self, synced: object, seconds: float) -> None:
        pass

    def sync_stalled(self, scheduler: object, *, stalled: bool) -> None:
        self.stalled.append((asyncio.get_running_loop().time(), stalled))

    def room_changed(self, scheduler: object) -> None:
        pass


class Dirty:
    """A partition that every round finds something to do for."""

    class _Active:
        is_unsynced = False

    class _Targets:
        writes = ()
        removals = ()

    class _Log:
        def __init__(self) -> None:
            self.active = Dirty._Active()

        def sync_targets(self) -> object:
            return Dirty._Targets()

        def mark_synced(self, targets: object) -> None:
            pass

    def __init__(self, sync: SyncScheduler[Any]) -> None:
        self.log = self._Log()
        self.sync = sync


def test_each_round_has_its_own_time_before_it_counts_as_hanging() -> None:
    """From where it began, neither earlier nor later."""
    loop = VirtualLoop(Random(1))  # type: ignore[abstract]

    async def rounds() -> list[tuple[float, bool]]:
        events: Any = Told()
        disk, began = ByHand(), loop.time()
        scheduler: SyncScheduler[Any] = SyncScheduler("disk", OsFileSystem(), disk, events, OpenFiles(), hang_s=10.0)
        partition: Any = Dirty(scheduler)
        for lasts_s in (6.0, 6.0, 25.0, 1.0, 12.0):
            scheduler.request_round(partition)
            scheduler.start_round()
            await asyncio.sleep(lasts_s)
            disk.under_way.pop().set_result(True)
            await asyncio.sleep(1.0)
        scheduler.close()
        return [(round(at - began, 1), stalled) for at, stalled in events.stalled]

    assert loop.run(rounds()) == [(24.0, True), (39.0, False), (52.0, True), (54.0, False)]


class Broken(Dirty):
    class _Log(Dirty._Log):
        def __init__(self) -> None:
            super().__init__()
            self.is_broken = True

        def sync_targets(self) -> object:
            if self.is_broken:
                raise KeyError(0)
            return super().sync_targets()

    log: _Log


def test_a_log_that_cannot_tell_what_it_owes_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    loop = VirtualLoop(Random(1))  # type: ignore[abstract]

    async def rounds() -> list[int]:
        """The number of syncs under way after each step."""
        events: Any = Told()
        disk = ByHand()
        scheduler: SyncScheduler[Any] = SyncScheduler("disk", OsFileSystem(), disk, events, OpenFiles(), hang_s=10.0)
        broken, sound = Broken(scheduler), Dirty(scheduler)
        begun = []
        for partitions in ([broken, sound], [broken], [sound]):
            for partition in partitions:
                scheduler.request_round(cast("Any", partition))
            scheduler.start_round()
            begun.append(len(disk.under_way))
            for sync in disk.under_way:
                sync.set_result(True)
            disk.under_way.clear()
            await asyncio.sleep(1.0)  # it is tried again meanwhile
        await scheduler.drain()  # and keeps no node from stopping
        broken.log.is_broken = False
        await asyncio.sleep(1.0)
        begun.append(len(disk.under_way))
        scheduler.close()
        return begun

    assert loop.run(rounds()) == [1, 0, 1, 1]
    assert [(record.message, record.exc_info is not None) for record in caplog.records] == [
        ("partition left out of sync rounds", True)
    ]
