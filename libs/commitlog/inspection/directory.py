"""The content of a log directory, or of a single partition's directory, and its contradictions."""

from collections.abc import Callable
from dataclasses import field

from libs.commitlog.checkpoints.offset_checkpoint import parse_offsets
from libs.commitlog.files.file_names import LOG, offsets_of
from libs.commitlog.inspection.findings import Findings
from libs.commitlog.inspection.identity import read_properties
from libs.commitlog.inspection.locks import lock_holder
from libs.commitlog.inspection.partition import REFUSED, InspectedPartition, PartitionReader
from libs.commitlog.inspection.reading import ReadOnlyFiles, list_names, read_whole
from libs.commitlog.inspection.verifying import verify_partition
from libs.commitlog.model.errors import DirectoryDamaged
from libs.commitlog.opening.segment_list import find_missing
from libs.commitlog.partition_log.directory import (
    DELETED_SUFFIX,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    STRAY_SUFFIX,
)
from libs.lean_dataclass import dataclass

CLEANER_OFFSETS = "cleaner-offset-checkpoint"
CHECKPOINTS = (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_START_OFFSETS, CLEANER_OFFSETS)
_ASIDE = (DELETED_SUFFIX, STRAY_SUFFIX, "-future")

Examine = Callable[[str, bool], InspectedPartition]


@dataclass(slots=True)
class InspectedDirectory:
    """A directory that was inspected. `is_log_directory` False: `path` is one partition's, and its parent was only asked for the
    process that uses it."""

    path: str
    is_log_directory: bool
    holder: int | None = None
    properties: dict[str, str] = field(default_factory=dict)
    stopped_cleanly: bool = False
    retired: str | None = None
    partitions: list[InspectedPartition] = field(default_factory=list)
    set_aside: list[str] = field(default_factory=list)
    checkpoint_entries: dict[str, int] = field(default_factory=dict)


def what_is(files: ReadOnlyFiles, path: str) -> str | None:
    """The kind of a directory: `partition`, `log directory`, or None. Raises OSError."""
    names = files.list_directory(path)
    if "partition.metadata" in names or offsets_of(names, LOG):
        return "partition"
    if "meta.properties" in names or any(_is_partition_name(name) for name in names):
        return "log directory"
    return None


def look(files: ReadOnlyFiles, path: str, findings: Findings, *, is_running: bool | None = None) -> InspectedDirectory:
    """An overview that reads few batches. `is_running`: whether a node serves the directory. Otherwise the directory's lock
    tells."""

    def examine(at: str, running: bool) -> InspectedPartition:
        return PartitionReader(files, at, findings, is_running=running if is_running is None else is_running).look()

    return _inspect(files, path, findings, examine)


def verify(files: ReadOnlyFiles, path: str, findings: Findings, *, records: bool) -> InspectedDirectory:
    """A check that reads every byte. `records`: it opens every batch too."""
    return _inspect(
        files,
        path,
        findings,
        lambda at, running: verify_partition(files, at, findings, is_running=running, records=records),
    )


def _inspect(files: ReadOnlyFiles, path: str, findings: Findings, examine: Examine) -> InspectedDirectory:
    if what_is(files, path) == "partition":
        parent, _, name = path.rpartition("/")
        directory = InspectedDirectory(path, False, lock_holder(parent))
        quiet = Findings()
        checkpoints = {kind: _read_checkpoint(files, f"{parent}/{kind}", quiet) for kind in CHECKPOINTS}
        directory.partitions = [examine(path, directory.holder is not None)]
        _check_against_checkpoints(parent, name, directory.partitions[0], checkpoints, findings)
        return directory
    directory = InspectedDirectory(path, True, lock_holder(path))
    names = list_names(files, path, findings)
    directory.properties = read_properties(files, path, findings)
    directory.stopped_cleanly = ".kafka_cleanshutdown" in names
    if ".retired" in names:
        directory.retired = (read_whole(files, f"{path}/.retired", findings) or b"").decode(errors="replace").strip()
        findings.problem(f"{path}/.retired", None, f"no node uses this directory until its disk was checked: {directory.retired}")
    directory.set_aside = [name for name in names if name.endswith(_ASIDE)]
    checkpoints = {kind: _read_checkpoint(files, f"{path}/{kind}", findings) for kind in CHECKPOINTS}
    directory.checkpoint_entries = {kind: len(entries) for kind, entries in checkpoints.items() if kind in names}
    for name in names:
        if _is_partition_name(name) and _is_directory(files, f"{path}/{name}"):
            directory.partitions.append(examine(f"{path}/{name}", directory.holder is not None))
            _check_against_checkpoints(path, name, directory.partitions[-1], checkpoints, findings)
    partition_names = {partition.name for partition in directory.partitions}
    for kind, entries in checkpoints.items():
        strangers = [name for name in entries if name not in partition_names]
        if strangers and directory.holder is None:
            findings.note(
                f"{path}/{kind}", None, f"has {len(strangers)} entries of partitions that are not here: {strangers[0]} …"
            )
    return directory


def _read_checkpoint(files: ReadOnlyFiles, path: str, findings: Findings) -> dict[str, int]:
    """The offsets of a checkpoint, by the partition's directory name."""
    content = read_whole(files, path, findings)
    if content is None:
        return {}
    try:
        return {f"{topic}-{partition}": offset for (topic, partition), offset in parse_offsets(content, path).items()}
    except DirectoryDamaged as damage:
        findings.problem(path, None, f"is ignored by the next start: {str(damage).removeprefix(f'{path}: ')}")
        return {}


def _check_against_checkpoints(
    path: str, name: str, partition: InspectedPartition, checkpoints: dict[str, dict[str, int]], findings: Findings
) -> None:
    partition.checkpoints = {kind: entries[name] for kind, entries in checkpoints.items() if name in entries}
    if not partition.segments:
        return
    for kind, offset in partition.checkpoints.items():
        if not 0 <= offset <= partition.end_offset:
            message = f"{name}: {offset}, but the log ends at {partition.end_offset}"
            findings.problem(f"{path}/{kind}", None, message)
    start = partition.checkpoints.get(LOG_START_OFFSETS, 0)
    if not partition.is_running:
        _find_missing(partition, start, findings)
    if partition.segments[0].next_offset <= start and len(partition.segments) > 1 and not partition.is_running:
        message = f"lies before the log's start ({start}): a round of retention, or the next start, removes it"
        findings.note(partition.segments[0].path, None, message)


def _find_missing(partition: InspectedPartition, log_start_offset: int, findings: Findings) -> None:
    """Reports segments that the newest resume point lists and that are missing."""
    point = partition.resume_point
    if point is None or point.segment is None:
        return
    sizes = {segment.base_offset: segment.size for segment in partition.segments}
    missing = find_missing(
        point.before,
        point.segment.base_offset,
        sizes,
        log_start_offset=log_start_offset,
        swaps=partition.gaps.swaps,
    )
    for segment in missing:
        findings.problem(point.path, None, f"{segment}: {REFUSED}")


def is_partition_path(files: ReadOnlyFiles, path: str) -> bool:
    """Whether a path is, or was, a partition's directory: its name has that form, and its parent is a log directory."""
    parent, _, name = path.rpartition("/")
    return _is_partition_name(name) and what_is(files, parent) == "log directory"


def _is_partition_name(name: str) -> bool:
    topic, dash, index = name.rpartition("-")
    return bool(dash and topic and index.isascii() and index.isdigit())


def _is_directory(files: ReadOnlyFiles, path: str) -> bool:
    try:
        files.list_directory(path)
    except NotADirectoryError:
        return False
    except OSError:
        return True  # its examination reports what is wrong
    return True
