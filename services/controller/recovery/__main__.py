"""The command line `python -m services.controller.recovery backup|restore|add-users|collect|rebuild`, which the targets of `make`
call."""

import argparse
import asyncio
import io
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from libs.cluster import keys
from libs.cluster.codec import RecordError, decode, encode
from libs.cluster.etcd.etcd_store import EtcdStore
from libs.cluster.features import FEATURE_LEVEL
from libs.cluster.saved_metadata import SavedMetadata, parse_file
from libs.cluster.store import MetadataStore, StoreUnavailable
from libs.pem_files import Unusable
from libs.runtime.ending import run_program
from libs.runtime.etcd_store import etcd_tls_of
from services.controller.core.recovery.node_holdings import NodeHoldings, Source
from services.controller.core.recovery.rebuilt_metadata import CannotRebuild, rebuild
from services.controller.core.recovery.restored_metadata import restored
from services.controller.recovery import users
from services.controller.recovery.backup_file import refuse_special, save
from services.controller.recovery.sources import is_backup, node_at, refuse_doubles, saved_images, saved_in
from services.controller.recovery.store_contents import RecoveryRefused, fill_store, read_store

T = TypeVar("T")

SECRET_MODE: Final = 0o600
ADD_SCRAM_FILE: Final = "users to begin with, a line for each as of `kafka-storage format --add-scram`"


def _now_ms() -> int:
    return int(time.time() * 1000)


def backup(etcd: str, path: str, *, with_credentials: bool) -> None:
    refuse_special(path)
    content = on_etcd(etcd, lambda store: read_store(store, _now_ms(), with_credentials=with_credentials))
    saved = parse_file(content)
    if with_credentials:
        save(path, content, SECRET_MODE)
    else:
        save(path, content)
    print(f"saved the metadata of {summary(saved)} in {path}")
    print(users.told(values_of(saved), users.SAVED, users.NONE if with_credentials else users.NOT_SAVED))


def restore(etcd: str, path: str, *, add_scram_file: str | None) -> None:
    saved = saved_in(path)
    values = users.with_users(restored(saved, now_ms=_now_ms()), (), add_scram_file)
    on_etcd(etcd, lambda store: fill_store(store, values))
    print(f"restored the metadata of {summary(saved)}, saved at {_local_time(saved.saved_ms)}")
    print(users.told(values, users.THERE, users.GONE))


def add_users(etcd: str, file: str) -> None:
    print(on_etcd(etcd, lambda store: users.add_users(store, file)))


def collect(node: str) -> None:
    """Prints what a node holds, for a rebuild on another host."""
    print(encode(node_at(node)).decode())


def rebuild_store(etcd: str | None, paths: Sequence[str], *, add_scram_file: str | None) -> None:
    """Without `etcd`, it only tells what it would write."""
    nodes: list[NodeHoldings] = []
    sources: list[Source] = []
    for path in paths:
        if is_backup(path):
            sources.append(Source(path, saved_in(path)))
        else:
            nodes.append(node_at(path))
    refuse_doubles(nodes)
    usable, notes = saved_images(nodes)
    rebuilt = rebuild(nodes, [*sources, *usable], feature_level=FEATURE_LEVEL, now_ms=_now_ms())
    values = users.with_users(rebuilt.values, sources, add_scram_file)
    if etcd is not None:
        on_etcd(etcd, lambda store: fill_store(store, values))
    base, cluster_id = rebuilt.base, decode(str, rebuilt.values[keys.CLUSTER_ID])
    read = ", ".join(str(node.node_id) for node in nodes)
    print(f"{'rebuilt' if etcd is not None else 'would rebuild'} the metadata of cluster {cluster_id} from storage nodes {read}")
    if base is not None:
        print(f"  base: {base.name}, saved at {_local_time(base.saved.saved_ms)}")
    print(f"  topics: {rebuilt.topics()}, partitions: {rebuilt.partitions()}")
    for note in [*notes, *rebuilt.notes]:
        print(f"  note: {note}")
    print(users.told(values, users.THERE, users.GONE))


def values_of(saved: SavedMetadata) -> dict[str, bytes]:
    return {item.key: item.value for item in saved.items}


def summary(saved: SavedMetadata) -> str:
    image = saved.image
    partitions = sum(topic.partitions for topic in image.topics.values())
    return f"cluster {image.cluster_id}: {len(image.topics)} topics with {partitions} partitions"


def on_etcd(etcd: str, work: Callable[[MetadataStore], Awaitable[T]]) -> T:
    """Runs `work` on the store at `etcd`, which is "host:port", or several with commas between them. The variables of a
    controller name the files of TLS."""

    async def run() -> T:
        store = EtcdStore(etcd.split(","), tls=etcd_tls_of(os.environ))
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
    collecting = commands.add_parser("collect", help="print what a storage node holds, for a rebuild on another host")
    collecting.add_argument("node", help="DATA_DIR, or DATA_DIR=LOG_DIR,LOG_DIR")
    rebuilding = commands.add_parser("rebuild", help="write the metadata anew from what storage nodes hold")
    target = rebuilding.add_mutually_exclusive_group(required=True)
    target.add_argument("--etcd", help="host:port of each member of an etcd that holds no cluster, with commas between them")
    target.add_argument("--dry-run", action="store_true", help="only tell what would be written")
    rebuilding.add_argument("--add-scram-file", help=ADD_SCRAM_FILE)
    rebuilding.add_argument("sources", nargs="+", help="DATA_DIR, DATA_DIR=LOG_DIR,LOG_DIR, a file of `collect`, or a backup")
    for name, words in (
        ("backup", "save the metadata of a store in FILE"),
        ("add-users", "give a cluster the users of FILE, a line for each, while no process of Penstock runs"),
        ("restore", "write the metadata of FILE into a store that holds no cluster, while no process of Penstock runs"),
    ):
        command = commands.add_parser(name, help=words)
        command.add_argument("--etcd", required=True, help="host:port of each member, with commas between them")
        command.add_argument("file")
        if name == "backup":
            command.add_argument(
                "--with-credentials", action="store_true", help="with users' SCRAM credentials, as a secret file"
            )
        elif name == "restore":
            command.add_argument("--add-scram-file", help=ADD_SCRAM_FILE)
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    given = parse(arguments)
    try:
        match given.command:
            case "backup":
                backup(given.etcd, given.file, with_credentials=given.with_credentials)
            case "restore":
                restore(given.etcd, given.file, add_scram_file=given.add_scram_file)
            case "add-users":
                add_users(given.etcd, given.file)
            case "collect":
                collect(given.node)
            case "rebuild":
                rebuild_store(given.etcd, given.sources, add_scram_file=given.add_scram_file)
    except (CannotRebuild, RecoveryRefused, RecordError, StoreUnavailable, Unusable, OSError) as reason:
        print(f"{given.command}: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    if isinstance(sys.stdout, io.TextIOWrapper):  # a locale may lack a character of a path
        sys.stdout.reconfigure(errors="backslashreplace")
    run_program(lambda: main(sys.argv[1:]))
