"""Answers from a file on a disk that hangs: what shares their connection goes by."""

import asyncio
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.rpc.client.rpc_client import RpcClient
from libs.rpc.files import disk_readers
from libs.rpc.messages.errors import KAFKA_STORAGE_ERROR, RpcError
from libs.rpc.server.rpc_server import Call, RpcServer
from libs.rpc.transport import socket_stream
from tests.rpc.conftest import Network
from tests.support.polling import until

SIZE = 600_000


class Disks:
    """Two files, each of which stands for a disk by its inode. Nothing is in the page cache until a thread has read it."""

    def __init__(self, directory: Path) -> None:
        self.paths = {name: directory / name for name in ("hanging", "sound")}
        for path in self.paths.values():
            path.write_bytes(os.urandom(SIZE))
        self.works_again = threading.Event()
        self.failure: OSError | None = None
        self.begun = 0
        self._cached: set[tuple[int, int]] = set()

    def is_cached(self, fd: int, position: int, length: int) -> bool:
        return (self.disk_of(fd), position) in self._cached

    def warm(self, fd: int, position: int, length: int) -> None:
        disk = self.disk_of(fd)
        if disk == os.stat(self.paths["hanging"]).st_ino:
            self.begun += 1
            self.works_again.wait(60)
            if self.failure is not None:
                raise self.failure
        self._cached.add((disk, position))

    def disk_of(self, fd: int) -> int:
        return os.fstat(fd).st_ino

    def accept(self, call: Call) -> None:
        name = str(call.body[0])
        with open(self.paths[name], encoding="utf-8") as file:
            call.reply_in_any_order([name], [(file.fileno(), 0, SIZE // 2), (file.fileno(), SIZE // 2, SIZE // 2)])


@pytest.fixture
def disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disks]:
    made = Disks(tmp_path)
    monkeypatch.setattr(socket_stream, "is_cached", made.is_cached)
    monkeypatch.setattr(disk_readers, "warm", made.warm)
    monkeypatch.setattr(disk_readers, "disk_of", made.disk_of)
    yield made
    made.works_again.set()


async def connected(network: Network, address: str, disks: Disks) -> tuple[RpcServer, RpcClient]:
    def echo(call: Call) -> None:
        call.reply(call.body)

    server, at = await network.serve(address, {"read": disks.accept, "echo": echo})
    return server, await network.client(at)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_answers_from_other_disks_and_from_memory_go_by(network: Network, address: str, disks: Disks) -> None:
    _, client = await connected(network, address, disks)
    held = client.call("read", ["hanging"], timeout_s=60)
    for number in range(3):
        assert (await client.call("read", ["sound"], timeout_s=60)).payload == disks.paths["sound"].read_bytes()
        assert (await client.call("echo", [number], timeout_s=60)).body == [number]
    assert not held.done()
    disks.works_again.set()
    response = await held
    assert response.body == ["hanging"]
    assert response.payload == disks.paths["hanging"].read_bytes()


async def test_a_call_that_is_cancelled_gives_its_files_back_though_the_disk_hangs(
    network: Network, address: str, disks: Disks
) -> None:
    _, client = await connected(network, address, disks)
    begun = [client.call("read", ["hanging"], timeout_s=60) for _ in range(disk_readers.THREADS_A_DISK)]
    await until(lambda: disks.begun == len(begun))
    before = descriptors()
    waiting = [client.call("read", ["hanging"], timeout_s=60) for _ in range(20)]
    await until(lambda: descriptors() == before + 2 * len(waiting))
    for future in (*waiting, begun[0]):
        future.cancel()
    await until(lambda: descriptors() == before)
    disks.works_again.set()
    assert [(await future).body for future in begun[1:]] == [["hanging"]] * len(begun[1:])
    assert disks.begun >= len(begun)


async def test_a_connection_that_ends_gives_its_files_back(network: Network, address: str, disks: Disks) -> None:
    server, client = await connected(network, address, disks)
    before = descriptors()
    futures = [client.call("read", ["hanging"], timeout_s=60) for _ in range(disk_readers.THREADS_A_DISK + 5)]
    await until(lambda: disks.begun == disk_readers.THREADS_A_DISK and descriptors() == before + 2 * len(futures))
    await client.close()
    await until(lambda: server.connections == 0)
    await asyncio.gather(*futures, return_exceptions=True)
    await until(lambda: descriptors() <= before - 2 + 2 * disk_readers.THREADS_A_DISK)
    disks.works_again.set()  # the leak check of the fixture looks
    await until(lambda: descriptors() <= before - 2)


async def test_a_disk_that_cannot_read_fails_the_call_and_not_the_connection(
    network: Network, address: str, disks: Disks
) -> None:
    _, client = await connected(network, address, disks)
    connection = client.connection
    disks.failure = OSError(errno.EIO, "a bad sector")
    disks.works_again.set()
    with pytest.raises(RpcError) as failed:
        await client.call("read", ["hanging"], timeout_s=60)
    assert failed.value.code == KAFKA_STORAGE_ERROR
    assert (await client.call("read", ["sound"], timeout_s=60)).body == ["sound"]
    assert client.connection is connection
