"""The report of an audit as plain data: what the JSON file holds, and what the page is drawn from."""

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

from services.pipeline.audit.comparison import AuditResult
from services.pipeline.audit.findings import Finding
from services.pipeline.audit.slices import Partition, Slice


def as_data(name: str, result: AuditResult) -> dict[str, Any]:
    """`name` is the job's. Offsets are inclusive, times in seconds since 1970."""
    unexplained = result.unexplained
    return {
        "job": name,
        "lake": result.lake_name,
        "started": _utc(result.started_s),
        "seconds": round(result.seconds, 1),
        "checksum_records_per_s": round(_records(result.log + result.lake) / result.slicing_s),
        "agrees": not unexplained,
        "bucket_offsets": result.settings.bucket_offsets,
        "slice_s": result.settings.slice_s,
        "totals": {
            "log": {"records": _records(result.log), "bytes": sum(each.bytes for each in result.log)},
            "lake": {"records": _records(result.lake), "bytes": sum(each.bytes for each in result.lake)},
            "buckets": len({each[:3] for each in result.log + result.lake}),
            "differing_buckets": len(result.differing),
        },
        "partitions": [_partition(partition, result) for partition in sorted(result.scopes)],
        "times": _times(result),
        "findings": [_finding(finding) for finding in result.findings],
    }


def as_json(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=1) + "\n"


def _partition(partition: Partition, result: AuditResult) -> dict[str, Any]:
    scope = result.scopes[partition]
    return {
        "topic": partition.topic,
        "partition": partition.number,
        "first": scope.start,
        "last": scope.end - 1,
        "log_records": _records(each for each in result.log if each[:2] == partition),
        "lake_records": _records(each for each in result.lake if each[:2] == partition),
    }


def _times(result: AuditResult) -> list[dict[str, Any]]:
    """Records of both sides by slice of time; without those whose timestamp Spark cannot hold."""
    sums: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for side, slices in enumerate((result.log, result.lake)):
        for each in slices:
            if each.start_s is not None:
                sums[each.start_s][side] += each.records
    return [{"start": _utc(start), "log": log, "lake": lake} for start, (log, lake) in sorted(sums.items())]


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind.value,
        "explained": finding.is_explained,
        "topic": finding.topic,
        "partition": finding.partition,
        "first": finding.first,
        "last": finding.last,
        "records": finding.records,
        "fields": list(finding.fields),
        "copies": finding.copies,
        "sentence": str(finding),
    }


def _records(slices: Iterable[Slice]) -> int:
    return sum(each.records for each in slices)


def _utc(seconds: float) -> str:
    """Python's own times end with the year 9999."""
    return f"{np.datetime64(int(seconds), 's')}Z"
