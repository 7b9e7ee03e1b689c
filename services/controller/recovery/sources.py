"""What a command is given: data directories of storage nodes, files that `collect` made, and backups."""

import os
from collections.abc import Sequence

from libs.cluster.codec import RecordError, decode
from libs.cluster.saved_metadata import FORMAT, SavedMetadata, parse_file
from libs.commitlog.files.durable_files import read_file
from libs.commitlog.files.filesystem import OsFileSystem
from services.controller.core.recovery.node_holdings import NodeHoldings, Source
from services.controller.recovery.disk_reading import DiskReading
from services.controller.recovery.store_contents import RecoveryRefused


def node_at(path: str) -> NodeHoldings:
    """The holdings of a node: `path` is DATA_DIR, DATA_DIR=LOG_DIR,LOG_DIR, or a file that `collect` made."""
    data_dir, _, given = path.partition("=")
    if os.path.isfile(data_dir):
        try:
            return decode(NodeHoldings, read_file(OsFileSystem(), os.path.abspath(path)) or b"")
        except RecordError as error:
            raise RecoveryRefused(f"{path} is neither a backup nor a file that `collect` made: {error}") from None
    log_dirs = [entry.strip() for entry in given.split(",") if entry.strip()] or [f"{data_dir}/logs"]
    return DiskReading(OsFileSystem()).read(os.path.abspath(data_dir), list(map(os.path.abspath, log_dirs)))


def is_backup(path: str) -> bool:
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return FORMAT.encode() in file.readline()


def refuse_doubles(nodes: Sequence[NodeHoldings]) -> None:
    ids = [node.node_id for node in nodes]
    if doubles := sorted({node_id for node_id in ids if ids.count(node_id) > 1}):
        raise RecoveryRefused(f"several of these are node {doubles[0]}: one of them is a copy of the other")


def saved_images(nodes: Sequence[NodeHoldings]) -> tuple[list[Source], list[str]]:
    """The nodes' copies of the cluster image, and what is wrong with those that cannot be used."""
    sources, notes = [], []
    for node in nodes:
        try:
            if node.saved_image:
                sources.append(Source(f"the copy of node {node.node_id}", parse_file(node.saved_image.encode())))
        except RecordError as error:
            notes.append(f"node {node.node_id}: its copy of the cluster image cannot be used: {error}")
    return sources, notes


def saved_in(path: str) -> SavedMetadata:
    """Raises RecoveryRefused."""
    try:
        content = read_file(OsFileSystem(), os.path.abspath(path))
        if content is None:
            raise RecoveryRefused(f"{path} does not exist")
        return parse_file(content)
    except (OSError, RecordError) as error:
        raise RecoveryRefused(f"{path} cannot be used: {error}") from error
