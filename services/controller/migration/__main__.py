"""The command line `python -m services.controller.migration nodes|from-kafka|set-aside|to-kafka`, for the targets of `make`."""

import argparse
import io
import json
import os
import secrets
import sys
import time
from collections.abc import Sequence

from libs.cluster.codec import RecordError
from libs.cluster.features import FEATURE_LEVEL
from libs.cluster.scram_credentials import contents_of, users_of
from libs.cluster.store import StoreUnavailable
from libs.commitlog.files.filesystem import OsFileSystem
from libs.pem_files import Unusable
from libs.runtime.ending import run_program
from services.controller.administration.scram_credentials import SECRET_BYTES
from services.controller.core.migration.errors import CannotAdopt
from services.controller.core.migration.kraft_records import encode
from services.controller.core.migration.to_kafka import CannotGiveBack, given_back
from services.controller.core.recovery.rebuilt_metadata import CannotRebuild
from services.controller.migration.adoption import adoption_of
from services.controller.migration.bootstrap_file import add_records, check_unused
from services.controller.migration.kafka_directories import kafka_node, mark_stopped, refuse_unclean, set_aside, take_locks
from services.controller.recovery.__main__ import on_etcd
from services.controller.recovery.sources import saved_in
from services.controller.recovery.store_contents import RecoveryRefused, fill_store

REFUSALS = (CannotAdopt, CannotGiveBack, CannotRebuild, RecoveryRefused, RecordError, StoreUnavailable, Unusable, OSError)


def show_nodes(sources: Sequence[str]) -> None:
    """Prints the log directories of each broker by its id, for a launcher."""
    nodes = [kafka_node(OsFileSystem(), source) for source in sources]
    print(json.dumps({node.node_id: list(node.log_dirs) for node in nodes if node.log_dirs}))


def rename(sources: Sequence[str]) -> None:
    """Sets Kafka's own metadata aside, once a metadata store is filled."""
    fs = OsFileSystem()
    show_renamed(set_aside(fs, [kafka_node(fs, source) for source in sources]))


def show_renamed(paths: Sequence[str]) -> None:
    for path in paths:
        print(f"  Kafka's own metadata are now {path}")


def adopt(etcd: str | None, sources: Sequence[str], *, keep_names: bool) -> None:
    """Without `etcd`, it only tells what it would do. The nodes, and with them their locks, are there until all is done."""
    fs = OsFileSystem()
    nodes = [kafka_node(fs, source) for source in sources]
    adoption = adoption_of(fs, nodes, feature_level=FEATURE_LEVEL, now_ms=int(time.time() * 1000))
    if etcd is not None:
        users = contents_of(adoption.users, secrets.token_urlsafe(SECRET_BYTES).encode())
        on_etcd(etcd, lambda store: fill_store(store, {**adoption.rebuilt.values, **users}))
    renamed = set_aside(fs, nodes) if etcd is not None and not keep_names else []
    brokers = ", ".join(str(node.node_id) for node in nodes if node.log_dirs)
    print(f"{'took' if etcd is not None else 'would take'} over cluster {adoption.cluster_id} of Kafka, brokers {brokers}")
    print(f"  topics: {adoption.rebuilt.topics()}, partitions: {adoption.rebuilt.partitions()}; no record is copied or changed")
    show_renamed(renamed)
    for note in adoption.notes:
        print(f"  note: {note}")


def give_back(backup: str, metadata_dirs: Sequence[str], log_dirs: Sequence[str], *, with_credentials: bool) -> None:
    """Has the Kafka whose controllers begin with `metadata_dirs` serve the logs in `log_dirs`. Files with credentials are for
    their owner only."""
    fs = OsFileSystem()
    saved = saved_in(backup)
    locks = [lock for path in [*log_dirs, *metadata_dirs] for lock in take_locks(fs, path)]
    for path in log_dirs:
        refuse_unclean(fs, path)
    for path in metadata_dirs:
        check_unused(fs, path, saved.image.cluster_id)
    for_kafka = given_back(saved.image, users_of(saved.items) if with_credentials else None)
    values = [encode(record) for record in for_kafka.records]
    mask = os.umask(0o077) if with_credentials else None
    for path in metadata_dirs:
        add_records(fs, path, values, int(time.time() * 1000))
    if mask is not None:
        os.umask(mask)
    for path in log_dirs:
        mark_stopped(fs, path)
    del locks  # Kafka may start
    partitions = sum(topic.partitions for topic in saved.image.topics.values())
    print(f"gave cluster {saved.image.cluster_id} to Kafka")
    print(f"  topics: {len(saved.image.topics)}, partitions: {partitions}; no record is copied or changed")
    for note in for_kafka.notes:
        print(f"  note: {note}")


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m services.controller.migration", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    source = "LOG_DIR,LOG_DIR of a stopped broker, or its server.properties"
    listing = commands.add_parser("nodes", help="print the log directories of stopped Kafka brokers as JSON")
    listing.add_argument("sources", nargs="+", help=source)
    adopting = commands.add_parser(
        "from-kafka", help="fill a metadata store from stopped Kafka brokers, whose directories Penstock then serves"
    )
    target = adopting.add_mutually_exclusive_group(required=True)
    target.add_argument("--etcd", help="host:port of each member of an etcd that holds no cluster, with commas between them")
    target.add_argument("--dry-run", action="store_true", help="only tell what would be done")
    adopting.add_argument("sources", nargs="+", help=source)
    adopting.add_argument("--keep-names", action="store_true", help="leave Kafka's own metadata as they are for `set-aside`")
    aside = commands.add_parser("set-aside", help="rename Kafka's own metadata, as from-kafka does at its end; may be repeated")
    aside.add_argument("sources", nargs="+", help=source)
    giving = commands.add_parser(
        "to-kafka", help="have a new Kafka begin with the metadata of a stopped cluster, and with its logs"
    )
    giving.add_argument("--backup", required=True, help="the metadata, saved after all storage nodes were stopped")
    giving.add_argument("--metadata-dir", required=True, action="append", help="the formatted metadata.log.dir of a controller")
    giving.add_argument("--with-credentials", action="store_true", help="with users' SCRAM credentials, if the backup has them")
    giving.add_argument("log_dirs", nargs="+", help="the log directories of all storage nodes, one by one")
    return parser.parse_args(arguments)


def absolute(paths: Sequence[str]) -> list[str]:
    return [os.path.abspath(path) for path in paths]


def main(arguments: list[str]) -> int:
    given = parse(arguments)
    try:
        match given.command:
            case "nodes":
                show_nodes(given.sources)
            case "from-kafka":
                adopt(given.etcd, given.sources, keep_names=given.keep_names)
            case "set-aside":
                rename(given.sources)
            case "to-kafka":
                give_back(
                    given.backup,
                    absolute(given.metadata_dir),
                    absolute(given.log_dirs),
                    with_credentials=given.with_credentials,
                )
    except REFUSALS as reason:
        print(f"{given.command}: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    if isinstance(sys.stdout, io.TextIOWrapper):  # a locale may lack a character of a path
        sys.stdout.reconfigure(errors="backslashreplace")
    run_program(lambda: main(sys.argv[1:]))
