"""A log directory, or a single partition's: what is in it, and what of it contradicts the rest."""

from collections.abc import Callable
from dataclasses import dataclass, field

from libs.commitlog.directory import DELETED_SUFFIX, HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS, STRAY_SUFFIX
from libs.commitlog.errors import DirectoryDamaged
from libs.commitlog.file_names import LOG, offsets_of
from libs.commitlog.inspection.findings import Findings
from libs.commitlog.inspection.identity import read_properties
from libs.commitlog.inspection.locks import lock_holder
from libs.commitlog.inspection.partition import REFUSED, PartitionReader, PartitionSeen
from libs.commitlog.inspection.reading import ReadOnlyFiles, list_names, read_whole
from libs.commitlog.inspection.verifying import verify_partition
from libs.commitlog.offset_checkpoint import parse_offsets
from libs.commitlog.segment_list import find_missing

CLEANER_OFFSETS = "cleaner-offset-checkpoint"
CHECKPOINTS = (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_START_OFFSETS, CLEANER_OFFSETS)
_ASIDE = (DELETED_SUFFIX, STRAY_SUFFIX, "-future")

Examine = Callable[[str, bool], PartitionSeen]


@dataclass(slots=True)
class DirectorySeen:
    """`is_log_directory`: else `path` is one partition's, and what lies above it was only asked who runs."""

    path: str
    is_log_directory: bool
    holder: int | None = None
    properties: dict[str, str] = field(default_factory=dict)
    stopped_cleanly: bool = False
    retired: str | None = None
    partitions: list[PartitionSeen] = field(default_factory=list)
    set_aside: list[str] = field(default_factory=list)
    checkpoint_entries: dict[str, int] = field(default_factory=dict)


def what_is(files: ReadOnlyFiles, path: str) -> str | None:
    """`partition`, `log directory`, or None. Raises OSError."""
    names = files.list_directory(path)
    if "partition.metadata" in names or offsets_of(names, LOG):
        return "partition"
    if "meta.properties" in names or any(_is_partition_name(name) for name in names):
        return "log directory"
    return None


def look(files: ReadOnlyFiles, path: str, findings: Findings, *, is_running: bool | None = None) -> DirectorySeen:
    """An overview that reads few batches. `is_running`: whether a node serves what is here; else by the directory's lock."""

    def examine(at: str, running: bool) -> PartitionSeen:
        return PartitionReader(files, at, findings, is_running=running if is_running is None else is_running).look()

    return _see(files, path, findings, examine)


def verify(files: ReadOnlyFiles, path: str, findings: Findings, *, records: bool) -> DirectorySeen:
    """Reads every byte. `records`: opens every batch too."""
    return _see(
        *(files, path, findings),
        lambda at, running: verify_partition(files, at, findings, is_running=running, records=records),
    )


def _see(files: ReadOnlyFiles, path: str, findings: Findings, examine: Examine) -> DirectorySeen:
    if what_is(files, path) == "partition":
        parent, _, name = path.rpartition("/")
        seen = DirectorySeen(path, False, lock_holder(parent))
        quiet = Findings()
        checkpoints = {kind: _read_checkpoint(files, f"{parent}/{kind}", quiet) for kind in CHECKPOINTS}
        seen.partitions = [examine(path, seen.holder is not None)]
        _hold_against_checkpoints(parent, name, seen.partitions[0], checkpoints, findings)
        return seen
    seen = DirectorySeen(path, True, lock_holder(path))
    names = list_names(files, path, findings)
    seen.properties = read_properties(files, path, findings)
    seen.stopped_cleanly = ".kafka_cleanshutdown" in names
    if ".retired" in names:
        seen.retired = (read_whole(files, f"{path}/.retired", findings) or b"").decode(errors="replace").strip()
        findings.problem(f"{path}/.retired", None, f"no node uses this directory until its disk was checked: {seen.retired}")
    seen.set_aside = [name for name in names if name.endswith(_ASIDE)]
    checkpoints = {kind: _read_checkpoint(files, f"{path}/{kind}", findings) for kind in CHECKPOINTS}
    seen.checkpoint_entries = {kind: len(entries) for kind, entries in checkpoints.items() if kind in names}
    for name in names:
        if _is_partition_name(name) and _is_directory(files, f"{path}/{name}"):
            seen.partitions.append(examine(f"{path}/{name}", seen.holder is not None))
            _hold_against_checkpoints(path, name, seen.partitions[-1], checkpoints, findings)
    here = {partition.name for partition in seen.partitions}
    for kind, entries in checkpoints.items():
        strangers = [name for name in entries if name not in here]
        if strangers and seen.holder is None:
            findings.note(
                f"{path}/{kind}", None, f"has {len(strangers)} entries of partitions that are not here: {strangers[0]} …"
            )
    return seen


def _read_checkpoint(files: ReadOnlyFiles, path: str, findings: Findings) -> dict[str, int]:
    """Offsets by the partition's directory name."""
    content = read_whole(files, path, findings)
    if content is None:
        return {}
    try:
        return {f"{topic}-{partition}": offset for (topic, partition), offset in parse_offsets(content, path).items()}
    except DirectoryDamaged as damage:
        findings.problem(path, None, f"is ignored by the next start: {str(damage).removeprefix(f'{path}: ')}")
        return {}


def _hold_against_checkpoints(
    path: str, name: str, partition: PartitionSeen, checkpoints: dict[str, dict[str, int]], findings: Findings
) -> None:
    partition.checkpoints = {kind: entries[name] for kind, entries in checkpoints.items() if name in entries}
    if not partition.segments:
        return
    for kind, offset in partition.checkpoints.items():
        if not 0 <= offset <= partition.end_offset:
            words = f"{name}: {offset}, but the log ends at {partition.end_offset}"
            findings.problem(f"{path}/{kind}", None, words)
    start = partition.checkpoints.get(LOG_START_OFFSETS, 0)
    if not partition.is_running:
        _find_missing(partition, start, findings)
    if partition.segments[0].next_offset <= start and len(partition.segments) > 1 and not partition.is_running:
        words = f"lies before the log's start ({start}): a round of retention, or the next start, removes it"
        findings.note(partition.segments[0].path, None, words)


def _find_missing(partition: PartitionSeen, log_start_offset: int, findings: Findings) -> None:
    """What the newest resume point lists and is not there any more."""
    point = partition.resume_point
    if point is None or point.segment is None:
        return
    sizes = {segment.base_offset: segment.size for segment in partition.segments}
    missing = find_missing(
        *(point.before, point.segment.base_offset, sizes),
        log_start_offset=log_start_offset,
        swaps=partition.gaps.swaps,
    )
    for one in missing:
        findings.problem(point.path, None, f"{one}: {REFUSED}")


def is_partition_path(files: ReadOnlyFiles, path: str) -> bool:
    """Whether it is, or may have been, a partition's directory: its name is one's, and it lies in a log directory."""
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
        return True  # examining it says what is wrong
    return True
