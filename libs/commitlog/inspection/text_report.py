"""Findings and contents for people: short lines, aligned columns, units."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from libs.commitlog.inspection.batches import Damage, InspectedBatch
from libs.commitlog.inspection.directory import CLEANER_OFFSETS, InspectedDirectory
from libs.commitlog.inspection.findings import Finding, Findings, Severity
from libs.commitlog.inspection.partition import InspectedPartition, InspectedSegment
from libs.commitlog.partition_log.directory import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS, encode_id
from libs.commitlog.producers.producer_state import NO_OFFSET
from libs.wire.record_batches.batch_layout import Codec
from libs.wire.record_batches.batches import BatchHeader
from libs.wire.record_batches.markers import read_marker

_PRODUCERS_MAX = 20
_UNITS = ("KB", "MB", "GB", "TB")


def overview(directory: InspectedDirectory, findings: Findings) -> Iterator[str]:
    """The output of `inspect`."""
    if directory.is_log_directory:
        yield from _directory(directory)
    for partition in directory.partitions:
        yield ""
        yield from _partition(partition, directory)
    if findings.entries:
        yield ""
        yield from finding_lines(findings, directory.path)
    if findings.problems:
        yield f"{_count(findings.problems, 'problem')} seen at a glance; `verify` looks everywhere"


def verdict(directory: InspectedDirectory, findings: Findings) -> Iterator[str]:
    """The output of `verify`."""
    for partition in directory.partitions:
        batches = sum(segment.batches or 0 for segment in partition.segments)
        counted = f"{_count(len(partition.segments), 'segment')}, {size(partition.size)}, {_count(batches, 'batch', 'batches')}"
        problems = [finding for finding in findings.entries if finding.severity is Severity.PROBLEM]
        has_problem = any(f"{finding.path}/".startswith(f"{partition.path}/") for finding in problems)
        offsets = f"offsets {partition.first_offset} to {partition.end_offset}"
        yield f"{'BAD ' if has_problem else 'ok  '} {partition.name}: {counted}, {offsets}"
    yield from finding_lines(findings, directory.path)
    running = (
        f" (in use by process {directory.holder}: what changed meanwhile may look wrong, then ask again)"
        if directory.holder
        else ""
    )
    if findings.problems:
        yield f"{_count(findings.problems, 'problem')}{running}"
    else:
        total = size(sum(partition.size for partition in directory.partitions))
        yield f"clean: {_count(len(directory.partitions), 'partition')}, {total}{running}"


def finding_lines(findings: Findings, root: str) -> Iterator[str]:
    """The findings as lines, problems first."""
    for finding in sorted(findings.entries, key=lambda finding: finding.severity is Severity.NOTE):
        yield finding_line(finding, root)
    for path, count in findings.left_out.items():
        yield f"  … and {count} more in {_short(path, root)}"


def finding_line(finding: Finding, root: str) -> str:
    at = f" at byte {finding.position}" if finding.position is not None else ""
    return f"{finding.severity.upper():7} {_short(finding.path, root)}{at}: {finding.message}"


def batch_lines(segment: InspectedSegment, region: InspectedBatch | Damage) -> str:
    if isinstance(region, Damage):
        return f"{region.position:>12}  DAMAGED  {region.end - region.position} bytes: {region.message}"
    header = region.header
    offsets = f"{header.base_offset}" + (f"–{header.last_offset}" if header.last_offset_delta else "")
    parts = [
        f"{region.position:>12}  {offsets:<21} {_count(header.record_count, 'record'):>12} {size(header.size):>9}",
        f"epoch {header.leader_epoch:<3} {moment(header.max_timestamp)}  {_codec(header):<6}",
    ]
    if header.producer_id >= 0:
        sequences = "" if header.base_sequence < 0 else f" sequence {header.base_sequence}–{header.last_sequence}"
        parts.append(f"producer {header.producer_id}/{header.producer_epoch}{sequences}")
    flags = (
        (header.is_transactional, "transactional"),
        (header.is_control, _control(region)),
        (header.is_log_append_time, "LogAppendTime"),
        (not region.crc_matches, "CRC WRONG"),
    )
    return " ".join([*parts, *(word for is_set, word in flags if is_set)]).rstrip()


def _control(batch: InspectedBatch) -> str:
    marker = read_marker(batch.content) if batch.crc_matches else None
    if marker is None:
        return "control"
    return f"{'abort' if marker.aborts else 'commit'} marker of coordinator epoch {marker.coordinator_epoch}"


def _codec(header: BatchHeader) -> str:
    return Codec(header.codec).name.lower() if header.codec <= Codec.ZSTD else f"codec {header.codec}?"


def _directory(directory: InspectedDirectory) -> Iterator[str]:
    yield f"log directory {directory.path}"
    properties = directory.properties
    yield f"  directory.id  {properties.get('directory.id', '?')}    node.id {properties.get('node.id', '?')}"
    yield f"  state         {_state(directory)}"
    for kind, entries in directory.checkpoint_entries.items():
        yield f"  checkpoint    {kind}: {_count(entries, 'entry', 'entries')}"
    for name in directory.set_aside:
        yield f"  set aside     {name}"
    total = size(sum(partition.size for partition in directory.partitions))
    yield f"  partitions    {len(directory.partitions)}, {total}"


def _state(directory: InspectedDirectory) -> str:
    if directory.holder is not None:
        return f"in use by process {directory.holder}"
    if directory.retired is not None:
        return "retired"
    if not directory.is_log_directory:
        return "not in use, as far as this machine tells"
    return "stopped cleanly" if directory.stopped_cleanly else "not in use, and not stopped cleanly: the next start recovers"


def _partition(partition: InspectedPartition, directory: InspectedDirectory) -> Iterator[str]:
    topic_id = encode_id(partition.topic_id) if partition.topic_id is not None else "unknown"
    yield f"{partition.name}    topic id {topic_id}    {size(partition.size)}"
    if not directory.is_log_directory:
        yield f"  state            {_state(directory)}"
    yield f"  offsets          {partition.checkpoints.get(LOG_START_OFFSETS, partition.first_offset)} to {partition.end_offset}"
    yield f"  durable          {_durable(partition)}"
    names = ((HIGH_WATERMARKS, "high watermark"), (RECOVERY_POINTS, "recovery point"), (CLEANER_OFFSETS, "cleaned to"))
    checkpoints = [f"{word} {partition.checkpoints[kind]}" for kind, word in names if kind in partition.checkpoints]
    if checkpoints:
        yield f"  checkpoints      {', '.join(checkpoints)}"
    if partition.epochs is not None and partition.epochs.entries():
        yield "  leader epochs    " + ", ".join(f"{epoch} from {start}" for epoch, start in partition.epochs.entries())
    if partition.open_transactions:
        count, first = len(partition.open_transactions), partition.open_transactions[0]
        yield f"  transactions     {count} open, the first since offset {first}: readers of committed records come no further"
    if partition.leftovers:
        files = _count(len(partition.leftovers), "file")
        yield f"  leftovers        {files} on the way in or out: {', '.join(partition.leftovers[:3])}"
    yield from _table(
        ("segment", "ends before", "size", "index", "timeindex", "greatest timestamp", "aborted", "damaged"),
        [_segment_row(segment) for segment in partition.segments],
    )
    if partition.producers:
        yield from _producers(partition)


def _durable(partition: InspectedPartition) -> str:
    point = partition.resume_point
    if point is None or point.segment is None:
        return "no resume point: a start after a crash reads whole segments"
    segment = point.segment
    behind = sum(other.size for other in partition.segments if other.base_offset >= segment.base_offset) - segment.size
    read_again = f"a start reads the {size(behind)} behind it" if behind > 0 else "nothing is behind it"
    return f"to {point.offset} for certain (resume point in {segment.base_offset:020d}.log at byte {segment.size}); {read_again}"


def _segment_row(segment: InspectedSegment) -> tuple[str, ...]:
    entries = ["missing" if count is None else str(count) for count in (segment.index_entries, segment.time_entries)]
    return (
        f"{segment.base_offset:020d}",
        str(segment.next_offset),
        size(segment.size),
        *entries,
        "–" if segment.greatest_timestamp < 0 else moment(segment.greatest_timestamp),
        str(segment.aborted_transactions) if segment.aborted_transactions else "",
        size(segment.damaged_bytes) if segment.damaged_bytes else "",
    )


def _producers(partition: InspectedPartition) -> Iterator[str]:
    by_age = sorted(partition.producers.items(), key=lambda item: item[1].last_timestamp, reverse=True)
    rows = []
    for producer_id, entry in by_age[:_PRODUCERS_MAX]:
        last = entry.batches[-1] if entry.batches else None
        is_open = entry.transaction_first_offset != NO_OFFSET
        rows.append(
            (
                str(producer_id),
                str(entry.epoch),
                str(last.last_sequence) if last is not None else "–",
                str(last.last_offset) if last is not None else "–",
                str(len(entry.batches)),
                moment(entry.last_timestamp),
                f"since offset {entry.transaction_first_offset}" if is_open else "",
            )
        )
    yield from _table(("producer", "epoch", "sequence", "last offset", "cached", "last write", "transaction"), rows)
    if len(by_age) > _PRODUCERS_MAX:
        yield f"  … and {len(by_age) - _PRODUCERS_MAX} older producers"


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table. Empty columns are left out."""
    columns = [i for i in range(len(titles)) if any(row[i] for row in rows)]
    widths = {i: max(len(titles[i]), *(len(row[i]) for row in rows)) for i in columns}
    for row in (titles, *rows):
        yield "  " + "  ".join(row[i].ljust(widths[i]) if i == 0 else row[i].rjust(widths[i]) for i in columns)


def size(count: int) -> str:
    if count < 1000:
        return f"{count} B"
    power = min(int(f"{count:.2e}".partition("e+")[2]) // 3, len(_UNITS))  # after rounding: 999,999 B are 1 MB
    return f"{count / 1000**power:.3g} {_UNITS[power - 1]}"


def moment(timestamp_ms: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.") + f"{timestamp_ms % 1000:03d}Z"
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"


def _short(path: str, root: str) -> str:
    return path.removeprefix(f"{root}/")


def _count(number: int, singular: str, plural: str = "") -> str:
    return f"{number} {singular}" if number == 1 else f"{number} {plural or singular + 's'}"
