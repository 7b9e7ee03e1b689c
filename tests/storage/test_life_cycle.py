"""The life of a node: a stop undoes what was started, in the reverse order, however far the start had come."""

import asyncio
import errno
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from libs.commitlog.model.errors import DirectoryLocked
from libs.commitlog.partition_log.directory import LogDirectory
from libs.runtime.lifecycle import Stop, StopFailed, Stops
from services.storage.disks import disk_opening
from services.storage.moving.moves import Moves
from services.storage.reconcile.log_opening import LogOpening
from services.storage.registration import StorageRegistration
from tests.storage.cluster import StorageCluster, batch
from tests.storage.held_disk import HeldDisk
from tests.support.polling import until

DISK_THREADS = ("files-", "sync-", "image")
"""Names of threads that a node has for one job at a time. Those of pools end by themselves, later."""


@pytest.fixture
async def idle(tmp_path: Path, short_dir: Path, disk: HeldDisk) -> AsyncIterator[StorageCluster]:
    """A cluster whose node has led a topic, and was stopped."""
    cluster = StorageCluster(tmp_path, short_dir, disk)
    await cluster.start()
    topic = await cluster.topic("before")
    await cluster.append(topic, batch(b"x"))
    await cluster.stop()
    yield cluster
    await cluster.stop()
    await cluster.store.close()


def lock(cluster: StorageCluster, path: str) -> LogDirectory:
    """Raises DirectoryLocked while a node has it."""
    return LogDirectory.open(path, cluster.fs, new_id=b"n" * 16, node_id=cluster.config.node_id)


@dataclass(frozen=True, slots=True)
class Before:
    """What there was before a start."""

    tasks: "set[asyncio.Task[object]]" = field(default_factory=asyncio.all_tasks)
    threads: set[threading.Thread] = field(default_factory=lambda: set(threading.enumerate()))


async def nothing_is_left(cluster: StorageCluster, before: Before, *, clean: bool = True) -> None:
    """The node's tasks, threads, lock, address and member record are gone; its directory was closed cleanly, or was not."""
    await until(lambda: {thread for thread in threading.enumerate() if thread.name.startswith(DISK_THREADS)} <= before.threads)
    await until(lambda: asyncio.all_tasks() <= before.tasks | {asyncio.current_task()})
    directory = lock(cluster, cluster.config.directories[0])
    assert directory.was_clean is clean
    directory.close()
    assert await cluster.member() is None
    with pytest.raises(OSError, match=r"Connect|No such file|refused"):
        await asyncio.open_unix_connection(cluster.config.rpc_unix)


# -- the order ----------------------------------------------------------------------------------------------------------------


async def test_a_stop_hands_over_and_answers_before_it_closes_logs_and_leaves_last(
    idle: StorageCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []
    add = Stops.add

    def noted(stops: Stops, stop: Stop) -> None:
        def call() -> Awaitable[None] | None:
            called.append(getattr(stop, "__qualname__", ""))
            return stop()

        add(stops, call)

    monkeypatch.setattr(Stops, "add", noted)
    await idle.start()
    await idle.stop()
    order = [
        "OpenedNode._hand_over",
        "FetcherManager.end",  # or leaders would take it back into their ISRs
        "Appends.stop",  # what comes later would miss the last rounds
        "OpenedNode._sync_appends",
        "WaitingReaders.close",  # while they can still be answered
        "LeaderReplication.close",
        "StorageRegistration.stop_listening",
        "Reconciler.close",  # or it would open logs again
        "OpenedNode._close_logs",
        "Disk.close",
        "LogDirectory.close",
        "StorageRegistration.leave",  # or another one would be elected while this one still closes logs
        "Controllers.close",  # or the node would be taken for dead meanwhile
        "ImageFollower.close",
    ]
    assert [name for name in called if name in order] == order


# -- a start that fails, or is interrupted ------------------------------------------------------------------------------------


async def test_a_refused_start_frees_the_directories_that_it_had_opened(idle: StorageCluster, tmp_path: Path) -> None:
    first, second = idle.config.directories[0], str(tmp_path / "second")
    idle.config = replace(idle.config, log_dirs=(first, second))
    (tmp_path / "second").mkdir()
    held = lock(idle, second)
    before = Before()
    with pytest.raises(DirectoryLocked) as refusal:
        await idle.start()
    assert refusal.value.__traceback__ is not None  # it holds what the failed frames held, such as an open directory
    await idle.stop()
    await nothing_is_left(idle, before, clean=False)
    held.close()


async def test_a_start_without_an_address_for_rpc_leaves_nothing_behind(idle: StorageCluster) -> None:
    served = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    host, port = served.sockets[0].getsockname()
    before = Before()
    idle.config = replace(idle.config, rpc_tcp=f"{host}:{port}")
    with pytest.raises(OSError, match="in use") as refusal:
        await idle.start()
    assert refusal.value.errno == errno.EADDRINUSE
    await idle.stop()
    await nothing_is_left(idle, before)
    served.close()
    await served.wait_closed()


Hold = Callable[[pytest.MonkeyPatch, Callable[[], Awaitable[None]]], None]


def hold_method(owner: type, name: str) -> Hold:
    def hold(monkeypatch: pytest.MonkeyPatch, reached: Callable[[], Awaitable[None]]) -> None:
        async def held(*arguments: object, **named: object) -> None:
            await reached()

        monkeypatch.setattr(owner, name, held)

    return hold


def hold_scan(monkeypatch: pytest.MonkeyPatch, reached: Callable[[], Awaitable[None]]) -> None:
    async def held(*arguments: object) -> None:
        await reached()

    monkeypatch.setattr(disk_opening, "_refuse_copies", held)


STAGES: dict[str, tuple[Hold, bool]] = {
    "waiting for the metadata store": (hold_method(StorageRegistration, "first_image"), True),
    "opening log directories": (hold_scan, True),
    "opening logs": (hold_method(LogOpening, "open"), False),
    "registering": (hold_method(StorageRegistration, "register"), True),
}
"""By state: how to hold a start in it, and whether its directory is clean after a stop there."""


@pytest.mark.parametrize("state", STAGES)
async def test_a_stop_during_a_start_ends_the_start_and_leaves_nothing_behind(
    idle: StorageCluster, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    reached = asyncio.Event()

    async def wait() -> None:
        reached.set()
        await asyncio.Event().wait()

    hold, is_clean = STAGES[state]
    before = Before()
    with monkeypatch.context() as patched:
        hold(patched, wait)
        starting = asyncio.ensure_future(idle.start())
        await reached.wait()
        assert idle.node is not None
        assert idle.node.ready()[1].startswith(state)
        node = idle.node
        await idle.stop()
        await asyncio.wait([starting])
        assert starting.cancelled()
        assert node.ready() == (False, "stopped")
    await nothing_is_left(idle, before, clean=is_clean)
    assert (await idle.start()).ready() == (True, "")


async def test_a_start_that_its_caller_gives_up_is_stopped_like_any_other(
    idle: StorageCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the process does it: it cancels its main, then drains."""
    reached = asyncio.Event()

    async def held(*arguments: object) -> None:
        reached.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(StorageRegistration, "register", held)
    before = Before()
    starting = asyncio.ensure_future(idle.start())
    await reached.wait()
    starting.cancel()
    await asyncio.wait([starting])
    assert starting.cancelled()
    await idle.stop()
    await nothing_is_left(idle, before)


# -- a stop that is not the first, or fails -----------------------------------------------------------------------------------


async def test_a_node_that_was_never_started_can_be_stopped(idle: StorageCluster) -> None:
    node = await idle.start()
    never = type(node)(replace(idle.config, node_id=2), replace(node.environment))
    await never.stop()
    assert never.ready() == (False, "stopped")


async def test_a_second_stop_waits_for_the_first_and_stops_nothing_twice(idle: StorageCluster, disk: HeldDisk) -> None:
    node = await idle.start()
    assert idle.client is not None
    await idle.client.close()
    topic = await idle.topic("more")
    disk.hold()
    first = asyncio.ensure_future(node.stop())
    await until(lambda: node.ready() == (False, "stopping"))
    second = asyncio.ensure_future(node.stop())
    begun = disk.syncs_begun
    await until(lambda: disk.syncs_begun > begun or first.done())
    assert not first.done()
    assert not second.done()
    disk.release()
    await asyncio.gather(first, second)
    await node.stop()
    assert node.ready() == (False, "stopped")
    assert (await idle.start()).partitions.by_key[topic, 0].log.scanned_bytes == 0


async def test_a_part_that_fails_to_stop_keeps_no_other_from_it_and_its_directories_are_not_clean(
    idle: StorageCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(moves: Moves) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Moves, "close", fail)
    before = Before()
    await idle.start()
    with pytest.raises(StopFailed):
        await idle.stop()
    await nothing_is_left(idle, before, clean=False)
