"""What was seen, for people: short lines, aligned columns, units."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from libs.commitlog.directory import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS, encode_id
from libs.commitlog.inspection.batches import Damage, SeenBatch
from libs.commitlog.inspection.directory import CLEANER_OFFSETS, DirectorySeen
from libs.commitlog.inspection.findings import Finding, Findings, Severity
from libs.commitlog.inspection.partition import PartitionSeen, SegmentSeen
from libs.commitlog.producers import NO_OFFSET
from libs.wire.batch_layout import Codec
from libs.wire.batches import BatchHeader
from libs.wire.markers import read_marker

_PRODUCERS_MAX = 20
_UNITS = ("KB", "MB", "GB", "TB")


def overview(seen: DirectorySeen, findings: Findings) -> Iterator[str]:
    """Of `inspect`."""
    if seen.is_log_directory:
        yield from _directory(seen)
    for partition in seen.partitions:
        yield ""
        yield from _partition(partition, seen)
    if findings.found:
        yield ""
        yield from told(findings, seen.path)
    if findings.problems:
        yield f"{_count(findings.problems, 'problem')} seen at a glance; `verify` looks everywhere"


def verdict(seen: DirectorySeen, findings: Findings) -> Iterator[str]:
    """Of `verify`."""
    for partition in seen.partitions:
        batches = sum(segment.batches or 0 for segment in partition.segments)
        counted = f"{_count(len(partition.segments), 'segment')}, {size(partition.size)}, {_count(batches, 'batch', 'batches')}"
        problems = [finding for finding in findings.found if finding.severity is Severity.PROBLEM]
        wrong = any(f"{finding.path}/".startswith(f"{partition.path}/") for finding in problems)
        offsets = f"offsets {partition.first_offset} to {partition.end_offset}"
        yield f"{'BAD ' if wrong else 'ok  '} {partition.name}: {counted}, {offsets}"
    yield from told(findings, seen.path)
    running = f" (in use by process {seen.holder}: what changed meanwhile may look wrong, then ask again)" if seen.holder else ""
    if findings.problems:
        yield f"{_count(findings.problems, 'problem')}{running}"
    else:
        yield f"clean: {_count(len(seen.partitions), 'partition')}, {size(sum(one.size for one in seen.partitions))}{running}"


def told(findings: Findings, root: str) -> Iterator[str]:
    """Problems first."""
    for finding in sorted(findings.found, key=lambda one: one.severity is Severity.NOTE):
        yield tell(finding, root)
    for path, count in findings.left_out.items():
        yield f"  … and {count} more in {_short(path, root)}"


def tell(finding: Finding, root: str) -> str:
    at = f" at byte {finding.position}" if finding.position is not None else ""
    return f"{finding.severity.upper():7} {_short(finding.path, root)}{at}: {finding.words}"


def batch_lines(segment: SegmentSeen, one: SeenBatch | Damage) -> str:
    if isinstance(one, Damage):
        return f"{one.position:>12}  DAMAGED  {one.end - one.position} bytes: {one.words}"
    header = one.header
    offsets = f"{header.base_offset}" + (f"–{header.last_offset}" if header.last_offset_delta else "")
    parts = [
        f"{one.position:>12}  {offsets:<21} {_count(header.record_count, 'record'):>12} {size(header.size):>9}",
        f"epoch {header.leader_epoch:<3} {moment(header.max_timestamp)}  {_codec(header):<6}",
    ]
    if header.producer_id >= 0:
        sequences = "" if header.base_sequence < 0 else f" sequence {header.base_sequence}–{header.last_sequence}"
        parts.append(f"producer {header.producer_id}/{header.producer_epoch}{sequences}")
    flags = (
        (header.is_transactional, "transactional"),
        (header.is_control, _control(one)),
        (header.is_log_append_time, "LogAppendTime"),
        (not one.crc_matches, "CRC WRONG"),
    )
    return " ".join([*parts, *(word for is_set, word in flags if is_set)]).rstrip()


def _control(batch: SeenBatch) -> str:
    marker = read_marker(batch.content) if batch.crc_matches else None
    if marker is None:
        return "control"
    return f"{'abort' if marker.aborts else 'commit'} marker of coordinator epoch {marker.coordinator_epoch}"


def _codec(header: BatchHeader) -> str:
    return Codec(header.codec).name.lower() if header.codec <= Codec.ZSTD else f"codec {header.codec}?"


def _directory(seen: DirectorySeen) -> Iterator[str]:
    yield f"log directory {seen.path}"
    properties = seen.properties
    yield f"  directory.id  {properties.get('directory.id', '?')}    node.id {properties.get('node.id', '?')}"
    yield f"  state         {_state(seen)}"
    for kind, entries in seen.checkpoint_entries.items():
        yield f"  checkpoint    {kind}: {_count(entries, 'entry', 'entries')}"
    for name in seen.set_aside:
        yield f"  set aside     {name}"
    total = size(sum(partition.size for partition in seen.partitions))
    yield f"  partitions    {len(seen.partitions)}, {total}"


def _state(seen: DirectorySeen) -> str:
    if seen.holder is not None:
        return f"in use by process {seen.holder}"
    if seen.retired is not None:
        return "retired"
    if not seen.is_log_directory:
        return "not in use, as far as this machine tells"
    return "stopped cleanly" if seen.stopped_cleanly else "not in use, and not stopped cleanly: the next start recovers"


def _partition(seen: PartitionSeen, directory: DirectorySeen) -> Iterator[str]:
    topic_id = encode_id(seen.topic_id) if seen.topic_id is not None else "unknown"
    yield f"{seen.name}    topic id {topic_id}    {size(seen.size)}"
    if not directory.is_log_directory:
        yield f"  state            {_state(directory)}"
    yield f"  offsets          {seen.checkpoints.get(LOG_START_OFFSETS, seen.first_offset)} to {seen.end_offset}"
    yield f"  durable          {_durable(seen)}"
    names = ((HIGH_WATERMARKS, "high watermark"), (RECOVERY_POINTS, "recovery point"), (CLEANER_OFFSETS, "cleaned to"))
    known = [f"{word} {seen.checkpoints[kind]}" for kind, word in names if kind in seen.checkpoints]
    if known:
        yield f"  checkpoints      {', '.join(known)}"
    if seen.epochs is not None and seen.epochs.entries():
        yield "  leader epochs    " + ", ".join(f"{epoch} from {start}" for epoch, start in seen.epochs.entries())
    if seen.open_transactions:
        count, first = len(seen.open_transactions), seen.open_transactions[0]
        yield f"  transactions     {count} open, the first since offset {first}: readers of committed records come no further"
    if seen.leftovers:
        yield f"  leftovers        {_count(len(seen.leftovers), 'file')} on the way in or out: {', '.join(seen.leftovers[:3])}"
    yield from _table(
        ("segment", "ends before", "size", "index", "timeindex", "greatest timestamp", "aborted", "damaged"),
        [_segment_row(segment) for segment in seen.segments],
    )
    if seen.producers:
        yield from _producers(seen)


def _durable(seen: PartitionSeen) -> str:
    point = seen.resume_point
    if point is None or point.segment is None:
        return "no resume point: a start after a crash reads whole segments"
    segment = point.segment
    behind = sum(one.size for one in seen.segments if one.base_offset >= segment.base_offset) - segment.size
    read_again = f"a start reads the {size(behind)} behind it" if behind > 0 else "nothing is behind it"
    return f"to {point.offset} for certain (resume point in {segment.base_offset:020d}.log at byte {segment.size}); {read_again}"


def _segment_row(segment: SegmentSeen) -> tuple[str, ...]:
    entries = ["missing" if count is None else str(count) for count in (segment.index_entries, segment.time_entries)]
    return (
        *(f"{segment.base_offset:020d}", str(segment.next_offset), size(segment.size), *entries),
        "–" if segment.greatest_timestamp < 0 else moment(segment.greatest_timestamp),
        str(segment.aborted_transactions) if segment.aborted_transactions else "",
        size(segment.damaged_bytes) if segment.damaged_bytes else "",
    )


def _producers(seen: PartitionSeen) -> Iterator[str]:
    by_age = sorted(seen.producers.items(), key=lambda item: item[1].last_timestamp, reverse=True)
    rows = []
    for producer_id, entry in by_age[:_PRODUCERS_MAX]:
        last = entry.batches[-1] if entry.batches else None
        is_open = entry.transaction_first_offset != NO_OFFSET
        rows.append((
            *(str(producer_id), str(entry.epoch)),
            *((str(last.last_sequence), str(last.last_offset)) if last is not None else ("–", "–")),
            *(str(len(entry.batches)), moment(entry.last_timestamp)),
            f"since offset {entry.transaction_first_offset}" if is_open else "",
        ))  # fmt: skip
    yield from _table(("producer", "epoch", "sequence", "last offset", "cached", "last write", "transaction"), rows)
    if len(by_age) > _PRODUCERS_MAX:
        yield f"  … and {len(by_age) - _PRODUCERS_MAX} older producers"


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns in which nothing stands are left out."""
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


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one}" if number == 1 else f"{number} {many or one + 's'}"
