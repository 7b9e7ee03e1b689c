"""The command line `python -m services.controller.recovery backup|restore`, which `make backup` and `make restore` call."""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from libs.cluster.codec import RecordError
from libs.cluster.etcd.etcd_store import EtcdStore
from libs.cluster.saved_metadata import SavedMetadata, parse_file
from libs.cluster.store import MetadataStore, StoreUnavailable
from libs.commitlog.files.durable_files import read_file, replace_file
from libs.commitlog.files.filesystem import OsFileSystem
from services.controller.core.recovery.restored_metadata import restored
from services.controller.recovery.store_contents import RecoveryRefused, fill_store, read_store

T = TypeVar("T")


def backup(etcd: str, path: str) -> None:
    content = on_etcd(etcd, lambda store: read_store(store, int(time.time() * 1000)))
    replace_file(OsFileSystem(), os.path.abspath(path), content)
    print(f"saved the metadata of {summary(parse_file(content))} in {path}")


def restore(etcd: str, path: str) -> None:
    saved = saved_in(path)
    on_etcd(etcd, lambda store: fill_store(store, restored(saved)))
    print(f"restored the metadata of {summary(saved)}, saved at {_local_time(saved.saved_ms)}")


def saved_in(path: str) -> SavedMetadata:
    """Raises RecoveryRefused."""
    try:
        content = read_file(OsFileSystem(), os.path.abspath(path))
        if content is None:
            raise RecoveryRefused(f"{path} does not exist")
        return parse_file(content)
    except (OSError, RecordError) as error:
        raise RecoveryRefused(f"{path} cannot be used: {error}") from error


def summary(saved: SavedMetadata) -> str:
    image = saved.image
    partitions = sum(topic.partitions for topic in image.topics.values())
    return f"cluster {image.cluster_id}: {len(image.topics)} topics with {partitions} partitions"


def on_etcd(etcd: str, work: Callable[[MetadataStore], Awaitable[T]]) -> T:
    """Runs `work` on the store at `etcd`, which is "host:port", or several with commas between them."""

    async def run() -> T:
        store = EtcdStore(etcd.split(","))
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())


def _local_time(wall_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall_ms / 1000))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m services.controller.recovery", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, words in (
        ("backup", "save the metadata of a store in FILE"),
        ("restore", "write the metadata of FILE into a store that holds no cluster, while no process of Penstock runs"),
    ):
        command = commands.add_parser(name, help=words)
        command.add_argument("--etcd", required=True, help="host:port of each member, with commas between them")
        command.add_argument("file")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    given = parse(arguments)
    try:
        match given.command:
            case "backup":
                backup(given.etcd, given.file)
            case "restore":
                restore(given.etcd, given.file)
    except (RecoveryRefused, RecordError, StoreUnavailable, OSError) as reason:
        print(f"{given.command}: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
