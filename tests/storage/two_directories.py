"""A node with two log directories, and replicas that move between them."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from libs.rpc.contracts.storage import (
    ALTER_LOG_DIRS,
    DESCRIBE_LOG_DIRS,
    AlterLogDirs,
    AlterLogDirsReply,
    DescribeLogDirs,
    LogDirsReply,
)
from libs.rpc.messages.schema import unpack
from libs.wire.record_batches.batches import iter_batches
from libs.wire.record_batches.records import iter_records
from services.storage.disks.disks import Disk
from services.storage.moving.moves import Moves
from tests.storage.cluster import WAIT_S, StorageCluster, batch, fetched
from tests.storage.naming_controller import NamingController
from tests.support.polling import until


@pytest.fixture
async def controller(cluster: StorageCluster, short_dir: Path) -> AsyncIterator[NamingController]:
    elected = await NamingController(cluster).elect(short_dir)
    yield elected
    await elected.close()


@pytest.fixture
async def both(cluster: StorageCluster, controller: NamingController) -> StorageCluster:
    await with_two_directories(cluster)
    return cluster


async def with_two_directories(cluster: StorageCluster) -> list[str]:
    await cluster.stop()
    root = cluster.config.data_dir
    cluster.config = replace(cluster.config, log_dirs=(f"{root}/one", f"{root}/two"))
    await cluster.start()
    assert cluster.node is not None
    return [disk.directory_id for disk in cluster.node.opened.disks.all]


def disks(cluster: StorageCluster) -> tuple[Disk, ...]:
    assert cluster.node is not None
    return cluster.node.opened.disks.all


def home(cluster: StorageCluster, topic: bytes, index: int = 0) -> Disk:
    assert cluster.node is not None
    opened = cluster.node.opened.open_logs.get((topic, index))
    assert opened is not None
    return opened[1]


def other(cluster: StorageCluster, topic: bytes, index: int = 0) -> Disk:
    here = home(cluster, topic, index)
    return next(disk for disk in disks(cluster) if disk is not here)


async def move(cluster: StorageCluster, topic: bytes, path: str, index: int = 0) -> int:
    assert cluster.client is not None
    reply = await cluster.client.call(ALTER_LOG_DIRS, AlterLogDirs(((path, topic, index),)), timeout_s=WAIT_S)
    return unpack(AlterLogDirsReply, reply.body).errors[0]


async def described(cluster: StorageCluster) -> dict[str, list[tuple[str, int, bool]]]:
    """By directory: what lies in it, how far it lags, and whether it is a future log."""
    assert cluster.client is not None
    reply = await cluster.client.call(DESCRIBE_LOG_DIRS, DescribeLogDirs(None), timeout_s=WAIT_S)
    directories = unpack(LogDirsReply, reply.body).directories
    return {
        directory.path: [(f"{log.topic}-{log.partition}", log.lag, log.is_future) for log in directory.logs]
        for directory in directories
    }


async def stored(cluster: StorageCluster, topic: bytes, offset: int = 0) -> list[bytes]:
    """The values of all committed records from `offset` on."""
    found: list[bytes] = []
    while True:
        reply = await cluster.fetching(topic, offset, inline=True)
        assert fetched(reply)[0].error == 0
        end = offset
        for one in iter_batches(reply.payload):
            found += [record.value or b"" for record in iter_records(one.view) if record.offset >= offset]
            end = one.header.base_offset + one.header.last_offset_delta + 1
        if end == offset:
            return found
        offset = end


def values(number: int, count: int = 1) -> bytes:
    return batch(*[b"%d" % (number + at) for at in range(count)])


def numbers(*ranges: range) -> list[bytes]:
    return [b"%d" % number for one in ranges for number in one]


def moves(cluster: StorageCluster) -> Moves:
    assert cluster.node is not None
    return cluster.node.opened.moves


def names(disk: Disk, topic: str = "t") -> list[str]:
    return sorted(path.name for path in Path(disk.path).iterdir() if path.name.startswith(f"{topic}-"))


def give_back(path: str) -> None:
    """Takes a directory back into use, as an operator does after checking its disk."""
    Path(path, ".retired").unlink()


async def arrived(cluster: StorageCluster, topic: bytes, disk: Disk) -> None:
    await until(lambda: home(cluster, topic) is disk)
