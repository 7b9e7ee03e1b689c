"""Losses of a partition that somebody could accept: found by names and sizes, else by every byte."""

from libs.commitlog.files.file_names import LOG, RESUME, offsets_of
from libs.commitlog.inspection.directory import look, verify
from libs.commitlog.inspection.findings import Findings, Severity
from libs.commitlog.inspection.partition import REFUSED
from libs.commitlog.inspection.reading import ReadOnlyFiles, list_names
from libs.commitlog.partition_log.directory import HIGH_WATERMARKS, LOG_START_OFFSETS


def has_loss(files: ReadOnlyFiles, path: str) -> bool:
    """True also of a directory that is gone, or has no segments: nobody can tell what was in it."""
    names = list_names(files, path, Findings()) if files.exists(path) else []
    if not offsets_of(names, LOG):
        return True
    quick = Findings()
    look(files, path, quick, is_running=False)
    if any(REFUSED in finding.message for finding in quick.entries):
        return True
    findings = Findings()
    [partition] = verify(files, path, findings, records=False).partitions
    if any(finding.severity is Severity.PROBLEM and finding.path.endswith((LOG, RESUME)) for finding in findings.entries):
        return True
    start = partition.checkpoints.get(LOG_START_OFFSETS, 0)
    synced_to = max([*offsets_of(names, RESUME), partition.checkpoints.get(HIGH_WATERMARKS, 0)])
    return max(partition.end_offset, start) < synced_to
