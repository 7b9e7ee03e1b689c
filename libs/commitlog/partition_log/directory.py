"""One entry of `log.dirs`: its identity, its lock, its checkpoints and its partitions, in Kafka's layout. One process holds it.

The mark of a clean stop is read once, at opening, and removed from the disk at once: a crash while logs are loaded is an unclean
stop too (KAFKA-10471).
"""

import base64
import contextlib
import errno
import json
import logging
from collections.abc import Callable
from typing import NamedTuple

from crc32c import crc32c

from libs.commitlog.checkpoints.offset_checkpoint import (
    FORMER_VERSIONS,
    KAFKAS,
    Entries,
    Entry,
    Name,
    format_entries,
    parse_entries,
)
from libs.commitlog.files.durable_files import make_directory, read_file, replace_file, write_all
from libs.commitlog.files.file_names import LOG, offsets_of
from libs.commitlog.files.filesystem import FileSystem, OpenFile
from libs.commitlog.files.reserved_file import ReservedFile
from libs.commitlog.files.sync import syncing
from libs.commitlog.model.errors import NO_ROOM, DirectoryDamaged, DirectoryOwnerMismatch, DirectoryRetired

log = logging.getLogger("log")

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"
_META, _LOCK, _CLEAN, _RETIRED = "meta.properties", ".lock", ".kafka_cleanshutdown", ".retired"
_STAMP = "volume-stamp"
_PARTITION_METADATA = "partition.metadata"
_UNREADABLE = (errno.EIO, errno.EISDIR, errno.EINVAL, errno.ENXIO)
"""Errors of a single file, which are no reason to give up the directory."""
DELETED_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
FUTURE_SUFFIX = "-future"
MOVES = "moves"
"""The file in a partition's directory that counts its moves between log directories.

When two directories hold the same partition, the one with the greater number is the partition, and the other is its former place.
A partition that is made anew, where the directory that held it is gone, begins with a number that no former copy has.
"""
_NAME_MAX = 255


class PartitionDirectory(NamedTuple):
    topic: str
    partition: int
    topic_id: bytes  # 16
    path: str


class LogDirectory:
    """A log directory. `LogDirectory.open` opens it; `close` lets the next process open it."""

    def __init__(self, fs: FileSystem, path: str, lock: OpenFile, directory_id: bytes, was_clean: bool) -> None:
        self._fs, self.path, self._lock = fs, path, lock
        self.directory_id = directory_id
        """The id, 16 bytes. It stays with the files, so that a replaced disk is noticed."""
        self.was_clean = was_clean
        self._log_starts = ReservedFile(fs, f"{path}/{LOG_START_OFFSETS}")
        self._log_starts.keep()
        self._on_disk: dict[str, Entries] = {}
        """The content of checkpoints, as far as it is known."""

    @classmethod
    def open(cls, path: str, fs: FileSystem, *, new_id: bytes, node_id: int, cluster_id: str = "") -> "LogDirectory":
        """Opens and locks the directory. `new_id` becomes its id if it has none yet. Raises DirectoryLocked, DirectoryRetired,
        DirectoryOwnerMismatch, DirectoryDamaged, OSError."""
        make_directory(fs, path)
        reason = read_file(fs, f"{path}/{_RETIRED}")
        if reason is not None:
            raise DirectoryRetired(
                f"{path} was retired ({reason.decode(errors='replace').strip()}): check its disk, then remove {path}/{_RETIRED}"
            )
        lock = OpenFile(fs, fs.lock(f"{path}/{_LOCK}"))
        properties = _parse_properties(read_file(fs, f"{path}/{_META}"), f"{path}/{_META}")
        for owner, expected in (("cluster", cluster_id), ("node", str(node_id))):
            recorded = properties.get(f"{owner}.id")
            if expected and recorded and recorded != expected:
                raise DirectoryOwnerMismatch(path, owner, recorded, expected)
        directory_id = _decode_id(properties["directory.id"], path) if "directory.id" in properties else new_id
        required = {"cluster.id": cluster_id, "directory.id": encode_id(directory_id), "node.id": str(node_id), "version": "1"}
        if any(properties.get(name) != value for name, value in required.items() if value):
            merged = {**properties, **{name: value for name, value in required.items() if value}}
            content = "".join(f"{name}={value}\n" for name, value in sorted(merged.items()))
            replace_file(fs, f"{path}/{_META}", content.encode())
        was_clean = fs.exists(f"{path}/{_CLEAN}")
        if was_clean:
            fs.unlink(f"{path}/{_CLEAN}")
        # Renames of the last process before it was killed become durable too. Otherwise a file could be gone now and come back
        # later.
        fs.fsync_directory(path)
        return cls(fs, path, lock, directory_id, was_clean)

    def mark_clean(self) -> None:
        """Marks a clean stop, as its last step: every log here was closed and synced."""
        replace_file(self._fs, f"{self.path}/{_CLEAN}", json.dumps({"version": 0, "brokerEpoch": -1}).encode())

    def mark_retired(self, reason: str) -> None:
        """Marks the directory as retired, so that no process uses it until an operator removes the mark. Raises OSError.

        After a failed sync the page cache may hold bytes that the disk lacks, and a log that is opened again would trust them.
        The mark itself need not reach the disk: an event that empties the page cache ends that danger too.
        """
        path = f"{self.path}/{_RETIRED}"
        if self._fs.exists(path):
            return
        mark = OpenFile(self._fs, self._fs.open_append(path, create=True))
        write_all(self._fs, mark.fd, reason.encode() + b"\n")
        with contextlib.suppress(OSError):
            self._fs.fdatasync(mark.fd)
            self._fs.fsync_directory(self.path)

    def read_stamp(self) -> int:
        """The newest stamp that was written, or 0. It blocks. Raises OSError, DirectoryDamaged."""
        path = f"{self.path}/{_STAMP}"
        content = read_file(self._fs, path)
        try:
            return int(content) if content is not None else 0
        except ValueError as error:
            raise DirectoryDamaged(f"{path} does not hold a number: remove it") from error

    def write_stamp(self, stamp: int) -> None:
        """Writes a stamp, which is on the disk afterwards: after a crash, no older one is found. It blocks. Raises OSError."""
        replace_file(self._fs, f"{self.path}/{_STAMP}", b"%d\n" % stamp)

    def close(self) -> None:
        del self._lock

    # --- partitions

    def partition_path(self, topic: str, partition: int) -> str:
        return f"{self.path}/{topic}-{partition}"

    def create_partition(self, topic: str, partition: int, topic_id: bytes, moves: int = 0) -> str:
        """Makes the directory and its `partition.metadata`, both on disk when this returns. Returns the path."""
        path = self.partition_path(topic, partition)
        self._fs.make_directories(path)
        if moves:  # this comes first: with its metadata the partition counts as complete
            write_moves(self._fs, path, moves)
        self._write_metadata(path, topic_id)
        self._fs.fsync_directory(self.path)
        return path

    def _write_metadata(self, path: str, topic_id: bytes) -> None:
        content = f"version: 0\ntopic_id: {encode_id(topic_id)}\n".encode()
        # Kafka reads two lines. If a character of the id changed, the partition would count as a stray, and an empty one would be
        # made.
        replace_file(self._fs, f"{path}/{_PARTITION_METADATA}", content + b"crc32c: %d\n" % crc32c(content))

    def adopt_partition(self, topic: str, partition: int, topic_id: bytes, moves: int = 0) -> str:
        """Makes the directory of a partition, where segments may lie already that no scan attributed to it. As in Kafka, they
        belong to it where there is no `partition.metadata`. Raises DirectoryDamaged if that file exists and names another topic,
        and OSError."""
        path = self.partition_path(topic, partition)
        if self._fs.exists(path) and offsets_of(self._fs.list_directory(path), LOG):
            existing_id = self.read_topic_id(path)
            if existing_id is None:
                log.warning("%s has segments and no %s: taken for the partition of that name", path, _PARTITION_METADATA)
            elif existing_id != topic_id:
                raise DirectoryDamaged(f"{path} is of the topic with id {encode_id(existing_id)}, not {encode_id(topic_id)}")
        return self.create_partition(topic, partition, topic_id, moves)

    def list_partitions(self) -> list[PartitionDirectory]:
        """The partitions whose directory has a `partition.metadata`. A directory without it is an unfinished creation or a stray.
        It stays as it is until a partition of that name is wanted here."""
        return find_partitions(self._fs, self.path)

    def read_topic_id(self, path: str) -> bytes | None:
        return find_topic_id(self._fs, path)

    # --- what is to take a partition's place (see `libs/commitlog/partition_log/future_log.py`)

    def future_path(self, topic: str, partition: int, topic_id: bytes) -> str:
        return f"{self.path}/{topic}-{partition}.{topic_id.hex()}{FUTURE_SUFFIX}"

    def create_future(self, topic: str, partition: int, topic_id: bytes, moves: int) -> str:
        """Makes the empty directory of a future log, and removes an earlier attempt's. It is durable: a start knows by it that
        the partition's log lies in another directory. Returns the path. Raises OSError, SyncFailed."""
        path = self.future_path(topic, partition, topic_id)
        if self._fs.exists(path):
            self._fs.remove_tree(path)
        self._fs.make_directories(path)
        self._write_metadata(path, topic_id)
        write_moves(self._fs, path, moves)
        with syncing():
            self._fs.fsync_directory(self.path)
        return path

    def find_futures(self) -> list[str]:
        """The paths of future logs that an earlier process left. None of them is the only copy of a record."""
        return [f"{self.path}/{name}" for name in sorted(self._fs.list_directory(self.path)) if name.endswith(FUTURE_SUFFIX)]

    def partitions_to_come(self) -> set[tuple[bytes, int]]:
        """The partitions with a future log, each as (topic id, partition)."""
        names = [path.rpartition("/")[2].removesuffix(FUTURE_SUFFIX).rpartition(".") for path in self.find_futures()]
        candidates = [(topic_id, name.rpartition("-")[2]) for name, _, topic_id in names]
        return {
            (bytes.fromhex(topic_id), int(index)) for topic_id, index in candidates if _is_topic_id(topic_id) and index.isdigit()
        }

    def promote_future(self, topic: str, partition: int, topic_id: bytes) -> str:
        """Makes a future log the partition of that name, durably. Returns its path. Raises OSError: then it is unknown which of
        the two a start would find."""
        path = self.partition_path(topic, partition)
        self._fs.rename(self.future_path(topic, partition, topic_id), path)
        with syncing():
            self._fs.fsync_directory(self.path)
        return path

    # --- partitions that go

    def schedule_deletion(self, topic: str, partition: int, topic_id: bytes) -> str:
        """Renames a deleted partition, durably, so that a topic of the same name may come at once. Returns the new path. The
        caller removes it with `remove` when readers had time to finish."""
        path = self._path_aside(topic, partition, topic_id, DELETED_SUFFIX)
        if self._fs.exists(path):
            self._fs.remove_tree(path)
        self._rename_aside(topic, partition, path)
        return path

    def set_aside(self, topic: str, partition: int, topic_id: bytes) -> str:
        """Renames a stray partition, durably. As in Kafka, an operator must remove it: if metadata were lost, every partition
        would look like a stray. Returns the new path."""
        path, others = self._path_aside(topic, partition, topic_id, STRAY_SUFFIX), 0
        while self._fs.exists(path):  # an earlier stray that was not removed
            others += 1
            path = self._path_aside(topic, partition, topic_id, f"-{others}{STRAY_SUFFIX}")
        self._rename_aside(topic, partition, path)
        return path

    def _path_aside(self, topic: str, partition: int, topic_id: bytes, kind: str) -> str:
        suffix = f".{topic_id.hex()}{kind}"
        return f"{self.path}/{topic[: _NAME_MAX - len(suffix) - len(str(partition)) - 1]}-{partition}{suffix}"

    def _rename_aside(self, topic: str, partition: int, path: str) -> None:
        """Renames a partition's directory. Its log start and its cleaned offset are removed first, durably. A later log of that
        name may be of the same topic, and must not start where this one did, nor count as compacted.

        A log start of 0 may stay, and nothing is written then.
        """
        starts = self.read_checkpoint(LOG_START_OFFSETS)
        if starts.pop((topic, partition), Entry(0)).offset:
            self.write_checkpoint(LOG_START_OFFSETS, starts)
        self.drop_cleaned_offset(topic, partition)
        self._fs.rename(self.partition_path(topic, partition), path)
        self._fs.fsync_directory(self.path)

    def find_doubtful_entries(self) -> Callable[[Name, Entry], bool]:
        """A function that says whether an entry of a checkpoint may be that of a log which was set aside, or is about to be
        removed: one of the same topic, or of any if the entry does not say."""
        names = [name for name in self._fs.list_directory(self.path) if name.endswith((DELETED_SUFFIX, STRAY_SUFFIX))]
        aside = {(name.rpartition(".")[0], name.rpartition(".")[2].partition("-")[0]) for name in names}
        aside_of_any = {name for name, _ in aside}

        def is_doubtful(name: Name, entry: Entry) -> bool:
            paths = [self._path_aside(*name, bytes(16), kind) for kind in (DELETED_SUFFIX, STRAY_SUFFIX)]
            stems = [path.rpartition("/")[2].rpartition(".")[0] for path in paths]
            if entry.topic_id in (KAFKAS, FORMER_VERSIONS):
                return any(stem in aside_of_any for stem in stems)
            return any((stem, entry.topic_id.hex()) in aside for stem in stems)

        return is_doubtful

    def scheduled_deletions(self) -> list[str]:
        """The paths that an earlier process renamed for deletion and did not remove."""
        return [f"{self.path}/{name}" for name in self._fs.list_directory(self.path) if name.endswith(DELETED_SUFFIX)]

    def remove_files(self, path: str) -> None:
        """Removes the files of a partition that is set aside. Its directory stays, and tells that entries of checkpoints are
        old. A full disk then has room for checkpoints without them."""
        if not self._fs.exists(path):
            return
        for name in self._fs.list_directory(path):
            with contextlib.suppress(IsADirectoryError):
                self._fs.unlink(f"{path}/{name}")
        self._log_starts.keep()

    def remove(self, path: str) -> None:
        if self._fs.exists(path):
            self._fs.remove_tree(path)
            self._log_starts.keep()

    # --- checkpoints

    def read_checkpoint(self, name: str) -> dict[Name, Entry]:
        """The entries of a checkpoint, by (topic, partition). A damaged file reads as empty, since it only saves work
        (KAFKA-1758, KAFKA-2012)."""
        return self.find_checkpoint(name) or {}

    def find_checkpoint(self, name: str) -> dict[Name, Entry] | None:
        """The entries of a checkpoint. None: it is missing or damaged, so a partition that it lacks may still have had an
        entry."""
        path = f"{self.path}/{name}"
        self._on_disk.pop(name, None)
        try:
            content = read_file(self._fs, path)
            if content is None:
                if name == CLEANED_OFFSETS:  # the same as an empty one
                    self._on_disk[name] = {}
                return None
            entries = parse_entries(content, path)
        except DirectoryDamaged as damage:
            log.warning("checkpoint ignored: %s", damage)
            return None
        self._on_disk[name] = dict(entries)
        return entries

    def write_checkpoint(self, name: str, entries: Entries) -> bool:
        """Writes a checkpoint, and says whether it has changed. It blocks on the disk; one thread at a time may call it. Log
        starts are written to a full disk too, since deletions wait for them. `entries` must stay as it is."""
        if self._on_disk.get(name) == entries:
            return False
        self._on_disk.pop(name, None)
        content = format_entries(entries)
        if name == LOG_START_OFFSETS:
            self._log_starts.replace(content)
        else:
            replace_file(self._fs, f"{self.path}/{name}", content)
        self._on_disk[name] = entries
        return True

    def drop_cleaned_offset(self, topic: str, partition: int) -> None:
        """Drops a cleaned offset, durably when this returns. It blocks. A full disk loses them all, since a deletion may wait for
        this: they save work, and no more. Raises OSError."""
        if CLEANED_OFFSETS not in self._on_disk:  # a change may have reached the file, and not the disk
            self._fs.fsync_directory(self.path)
        entries = self.read_checkpoint(CLEANED_OFFSETS)
        if entries.pop((topic, partition), None) is None:
            return
        try:
            self.write_checkpoint(CLEANED_OFFSETS, entries)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self._fs.unlink(f"{self.path}/{CLEANED_OFFSETS}")
            self._fs.fsync_directory(self.path)

    def reserve_space(self) -> None:
        """Reserves room again after a removal. It blocks."""
        self._log_starts.keep()


def find_partitions(fs: FileSystem, path: str) -> list[PartitionDirectory]:
    """The partitions of a log directory that have a `partition.metadata`. Nothing is changed. Raises OSError."""
    partitions = []
    for name in sorted(fs.list_directory(path)):
        topic, dash, index = name.rpartition("-")
        if not (dash and topic and index.isascii() and index.isdigit()):
            continue
        try:
            topic_id = find_topic_id(fs, f"{path}/{name}")
        except (DirectoryDamaged, NotADirectoryError) as damage:
            log.warning("not taken for a partition: %s", damage)
            continue
        if topic_id is not None:
            partitions.append(PartitionDirectory(topic, int(index), topic_id, f"{path}/{name}"))
    return partitions


def find_topic_id(fs: FileSystem, path: str) -> bytes | None:
    """The topic id in a partition's directory, None if it has none. Raises DirectoryDamaged, OSError."""
    file = f"{path}/{_PARTITION_METADATA}"
    try:
        content = read_file(fs, file)
    except OSError as error:
        if error.errno not in _UNREADABLE:
            raise
        raise DirectoryDamaged(f"{file} cannot be read: {error.strerror}") from error
    if content is None:
        return None
    fields, is_as_written = parse_metadata(content)
    if fields.get("version") != "0" or "topic_id" not in fields:
        raise DirectoryDamaged(f"{file} does not say which topic this is: {content[:100]!r}")
    if not is_as_written:
        raise DirectoryDamaged(f"{file} was changed, its checksum says: {content[:100]!r}")
    return _decode_id(fields["topic_id"], file)


def find_deleted(fs: FileSystem, path: str) -> set[tuple[bytes, int]]:
    """The deleted partitions of a log directory that nobody came to remove, each as (topic id, partition). Raises OSError."""
    found = set()
    for name in fs.list_directory(path):
        if name.endswith(DELETED_SUFFIX):
            rest, _, topic_id = name.removesuffix(DELETED_SUFFIX).rpartition(".")
            index = rest.rpartition("-")[2]
            if _is_topic_id(topic_id) and index.isdigit():
                found.add((bytes.fromhex(topic_id), int(index)))
    return found


def find_properties(fs: FileSystem, path: str) -> dict[str, str]:
    """The `meta.properties` of a log directory, {} if it has none yet. Raises DirectoryDamaged, OSError."""
    return _parse_properties(read_file(fs, f"{path}/{_META}"), f"{path}/{_META}")


def _is_topic_id(name: str) -> bool:
    return len(name) == 32 and not set(name) - set("0123456789abcdef")


def read_moves(fs: FileSystem, path: str) -> int:
    """The number of moves of a partition's directory. Raises OSError."""
    content = read_file(fs, f"{path}/{MOVES}") or b""
    return int(content) if content.strip().isdigit() else 0


def write_moves(fs: FileSystem, path: str, moves: int) -> None:
    """Writes the number of moves, durably when this returns. Raises OSError."""
    replace_file(fs, f"{path}/{MOVES}", b"%d\n" % moves)


def stopped_cleanly(fs: FileSystem, path: str) -> bool:
    """Whether the last process closed and synced every log there. Opening the directory takes the mark away."""
    return fs.exists(f"{path}/{_CLEAN}")


def find_directory_id(fs: FileSystem, path: str) -> bytes | None:
    """The directory's id, None if it has none yet. Nothing is changed. Raises DirectoryDamaged, OSError."""
    properties = _parse_properties(read_file(fs, f"{path}/{_META}"), f"{path}/{_META}")
    return _decode_id(properties["directory.id"], path) if "directory.id" in properties else None


def is_retired(fs: FileSystem, path: str) -> bool:
    return fs.exists(f"{path}/{_RETIRED}")


def parse_metadata(content: bytes) -> tuple[dict[str, str], bool]:
    """The content of a `partition.metadata`, and whether its checksum matches. Kafka's has no checksum, and is believed."""
    fields = dict(line.split(": ", 1) for line in content.decode(errors="replace").splitlines() if ": " in line)
    checksum = str(crc32c(content.partition(b"crc32c: ")[0]))
    return fields, fields.get("crc32c", checksum) == checksum


def encode_id(identity: bytes) -> str:
    """Kafka's text form of a uuid: base64url without padding."""
    return base64.urlsafe_b64encode(identity).rstrip(b"=").decode()


def _decode_id(text: str, path: str) -> bytes:
    try:
        identity = base64.urlsafe_b64decode(text + "==")
    except ValueError as error:
        raise DirectoryDamaged(f"{path}: {text!r} is not an id") from error
    if len(identity) != 16:
        raise DirectoryDamaged(f"{path}: {text!r} is not an id")
    return identity


def _parse_properties(content: bytes | None, path: str) -> dict[str, str]:
    if content is None:
        return {}
    lines = [line.strip() for line in content.decode(errors="replace").splitlines()]
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    if any(not equals for _, equals, _ in pairs):
        raise DirectoryDamaged(f"{path}: not a properties file")
    return {name.strip(): value.strip() for name, _, value in pairs}
