"""A stopped Kafka broker's log directories: whether they can be taken over, and the names that change then."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from libs.commitlog.files.durable_files import replace_file
from libs.commitlog.files.filesystem import FileSystem, OpenFile
from libs.commitlog.inspection.locks import lock_holder
from libs.commitlog.model.errors import DirectoryDamaged, DirectoryLocked
from libs.commitlog.partition_log.directory import STRAY_SUFFIX, find_properties, stopped_cleanly
from services.controller.core.migration.to_kafka import BROKER_EPOCH
from services.controller.migration.metadata_log import DIRECTORY
from services.controller.migration.server_properties import is_controller_alone, log_dirs_of, read_server_properties
from services.controller.recovery.store_contents import RecoveryRefused

CLEAN_STOP = ".kafka_cleanshutdown"
BOOTSTRAP = "bootstrap.checkpoint"
SET_ASIDE = {
    DIRECTORY: f"{DIRECTORY}.{1:032x}{STRAY_SUFFIX}",  # as Kafka and Penstock name a stray: neither looks into it
    BOOTSTRAP: f"{BOOTSTRAP}.of-kafka",
}
"""What holds Kafka's own metadata in a log directory, and its name while Penstock has the directory."""


class KafkaNode(NamedTuple):
    """A broker or controller that was stopped. `log_dirs`: () if it is a controller alone. `metadata_dir`: where its
    `__cluster_metadata-0` is, "" if it was no controller. `properties`: those of its `server.properties`, None if only its log
    directories were given. `locks`: no process can start in its directories while the node is there."""

    node_id: int
    cluster_id: str
    log_dirs: tuple[str, ...]
    metadata_dir: str
    properties: Mapping[str, str] | None
    locks: tuple[OpenFile, ...]


def kafka_node(fs: FileSystem, source: str) -> KafkaNode:
    """The node at `source`: LOG_DIR,LOG_DIR, or its server.properties. Raises RecoveryRefused, OSError."""
    properties = read_server_properties(fs, os.path.abspath(source)) if os.path.isfile(source) else None
    log_dirs, metadata_dir = _directories(source, properties)
    paths = list(dict.fromkeys([*log_dirs, *([metadata_dir] if metadata_dir else [])]))
    owners = {_owner(fs, path) for path in paths}
    if len(owners) > 1:
        raise RecoveryRefused(f"{source}: its log directories are of several brokers or clusters: {sorted(owners)}")
    locks = [lock for path in paths for lock in take_locks(fs, path)]
    for path in log_dirs:
        refuse_unclean(fs, path)
        aside = f"{path}/{SET_ASIDE[DIRECTORY]}"
        if fs.exists(f"{path}/{DIRECTORY}") and fs.exists(aside):
            raise RecoveryRefused(f"{aside} is what was set aside before: move it away, if nobody misses it")
    node_id, cluster_id = owners.pop()
    places = [metadata_dir] if metadata_dir else log_dirs
    holder = next((path for path in places if fs.exists(f"{path}/{DIRECTORY}")), "")
    return KafkaNode(node_id, cluster_id, tuple(log_dirs), holder, properties, tuple(locks))


def _directories(source: str, properties: Mapping[str, str] | None) -> tuple[list[str], str]:
    """The log directories of a broker, [] of a controller alone, and the metadata.log.dir if `properties` come to one."""
    if properties is None:
        listed, metadata_dir = source, ""
    else:
        listed, metadata_dir = log_dirs_of(properties), properties.get("metadata.log.dir", "")
    log_dirs = [os.path.abspath(entry.strip()) for entry in listed.split(",") if entry.strip()]
    if properties is not None and is_controller_alone(properties):
        log_dirs, metadata_dir = [], metadata_dir or next(iter(log_dirs), "")
    if not log_dirs and not metadata_dir:
        raise RecoveryRefused(f"{source} names no directory: give LOG_DIR,LOG_DIR of a stopped broker, or its server.properties")
    for path in [*log_dirs, *([metadata_dir] if metadata_dir else [])]:
        if not os.path.isdir(path):
            raise RecoveryRefused(f"{path} is no directory: give LOG_DIR,LOG_DIR of a stopped broker, or its server.properties")
    return log_dirs, os.path.abspath(metadata_dir) if metadata_dir else ""


def _owner(fs: FileSystem, path: str) -> tuple[int, str]:
    try:
        properties = find_properties(fs, path)
    except DirectoryDamaged as error:
        raise RecoveryRefused(str(error)) from error
    if not properties:
        raise RecoveryRefused(f"{path} has no meta.properties: no Kafka has formatted it")
    node_id, cluster_id = properties.get("node.id", ""), properties.get("cluster.id", "")
    if properties.get("version") != "1" or not node_id.isdigit() or not cluster_id or "directory.id" not in properties:
        raise RecoveryRefused(f"{path}/meta.properties is not that of a broker under KRaft of Kafka 4.0 to 4.2: {properties}")
    return int(node_id), cluster_id


def take_locks(fs: FileSystem, path: str) -> list[OpenFile]:
    """The lock of a log directory, which nobody else gets while it is open. Raises RecoveryRefused if a process uses it."""
    if (pid := lock_holder(path)) is not None:
        raise RecoveryRefused(f"{path} is given twice" if pid == os.getpid() else f"process {pid} uses {path}: stop it first")
    try:
        return [OpenFile(fs, fs.lock(f"{path}/.lock"))] if fs.exists(f"{path}/.lock") else []
    except DirectoryLocked as error:
        raise RecoveryRefused(f"a process uses {path}: stop it first") from error


def refuse_unclean(fs: FileSystem, path: str) -> None:
    """Raises RecoveryRefused if the last process with the log directory did not stop cleanly."""
    if not stopped_cleanly(fs, path):
        raise RecoveryRefused(
            f"{path} has no {CLEAN_STOP}: who used it last was killed. Start that again, wait until it is ready, "
            "and stop it: Kafka with kafka-server-stop.sh, Penstock with `make down`"
        )


def set_aside(fs: FileSystem, nodes: Sequence[KafkaNode]) -> list[str]:
    """Renames what holds Kafka's own metadata in log directories. Returns the new paths. Raises OSError. What is renamed
    already stays so: an interrupted call can be repeated."""
    renamed: list[str] = []
    for path in [path for node in nodes for path in node.log_dirs]:
        for name, new_name in SET_ASIDE.items():
            if fs.exists(f"{path}/{name}"):
                fs.rename(f"{path}/{name}", f"{path}/{new_name}")
                renamed.append(f"{path}/{new_name}")
        fs.fsync_directory(path)
    return renamed


def mark_stopped(fs: FileSystem, path: str) -> None:
    """Marks a clean stop in the broker epoch of the registration that Kafka gets. Raises OSError."""
    replace_file(fs, f"{path}/{CLEAN_STOP}", json.dumps({"version": 0, "brokerEpoch": BROKER_EPOCH}).encode())


def refuse_mixture(nodes: Sequence[KafkaNode]) -> None:
    """Raises RecoveryRefused unless the nodes are different brokers of one cluster, with ids that Penstock can have."""
    ids = [node.node_id for node in nodes]
    if doubles := sorted({node_id for node_id in ids if ids.count(node_id) > 1}):
        raise RecoveryRefused(f"several of these are broker {doubles[0]}: give each broker once")
    if any(node.node_id == 0 and node.log_dirs for node in nodes):
        raise RecoveryRefused("one of these is broker 0; Penstock's ids begin with 1: bring it over by MirrorMaker 2")
    if len(clusters := {node.cluster_id for node in nodes}) > 1:
        raise RecoveryRefused(f"these belong to several clusters: {', '.join(sorted(clusters))}")
