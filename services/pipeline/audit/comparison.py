"""The comparison: slices of both sides first, then only what differs down to its offsets, then the reasons of gaps."""

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from services.pipeline.audit.drill import Drill
from services.pipeline.audit.findings import Finding, Kind, gap, joined
from services.pipeline.audit.log_facts import LogSurvey
from services.pipeline.audit.settings import AuditSettings
from services.pipeline.audit.sides import LakeSide, LogSide
from services.pipeline.audit.slices import Bucket, Partition, Scope, Slice, differing_buckets
from services.pipeline.errors import PipelineError
from services.pipeline.spark.cluster import ClusterSettings, Topics
from services.pipeline.spark.kafka_source import source_options
from services.pipeline.spark.raw_records import is_timestamp_overflow
from services.pipeline.transforms.checksums import slice_checksums

DAY_S = 86_400
SLICES_MAX = 1_000_000
DRILLS_MAX = 3


@dataclass(frozen=True)
class AuditResult:
    lake_name: str
    settings: AuditSettings
    log: list[Slice]
    lake: list[Slice]
    scopes: Mapping[Partition, Scope]
    differing: set[Bucket]
    findings: list[Finding]
    started_s: float
    seconds: float
    slicing_s: float
    """Seconds in which the checksums of both sides were made."""

    @property
    def unexplained(self) -> list[Finding]:
        return [finding for finding in self.findings if not finding.is_explained]


def compare(spark: SparkSession, cluster: ClusterSettings, lake: LakeSide, settings: AuditSettings) -> AuditResult:
    """Raises PipelineError if the log or the lake cannot be read, or has more slices than a driver should hold.

    The lake's rows and checkpoint are older than the log's ends, which are asked here: what the lake has, the log must have.
    """
    started_s, started = time.time(), time.monotonic()
    survey = LogSurvey(spark, cluster, settings.topics, read_uncommitted=settings.read_uncommitted)
    facts = survey.facts()
    options = source_options(cluster, Topics(tuple(facts.compacted)), read_uncommitted=settings.read_uncommitted)
    log, lake = LogSide(spark, options, security=cluster.security), lake.of(settings.topics)
    lake_slices = _slices(lake.within(facts.scopes), settings, "the lake")
    reached = _reached(lake, lake_slices)
    scopes = _compared(facts.scopes, _began(lake, lake_slices), reached)
    log, log_slices = _log_slices(log, scopes, settings)
    slicing_s = time.monotonic() - started
    expired = _expired(log_slices, set(lake_slices), lake)
    differing = differing_buckets(
        set(log_slices).difference(expired), (each for each in lake_slices if not _is_expired(each, lake))
    )
    findings = _bounds(lake, facts.scopes, scopes, reached)
    findings += [
        Finding(Kind.LAKE_RETENTION, each.topic, each.partition, each.first, each.last, each.records) for each in expired
    ]
    findings += _drilled(
        Drill(log, lake, settings, facts, survey.leader, cluster.security), survey, scopes, log_slices, differing
    )
    return AuditResult(
        lake_name=lake.name,
        settings=settings,
        log=log_slices,
        lake=lake_slices,
        scopes=scopes,
        differing=differing,
        findings=joined(findings),
        started_s=started_s,
        seconds=time.monotonic() - started,
        slicing_s=slicing_s,
    )


def _drilled(
    drill: Drill, survey: LogSurvey, scopes: Mapping[Partition, Scope], log_slices: list[Slice], differing: set[Bucket]
) -> list[Finding]:
    """The log's retention may remove records during an audit: then the drill begins anew, from the new log starts."""
    starts = {partition: scope.start for partition, scope in scopes.items()}
    for _ in range(DRILLS_MAX):
        cut = {partition: replace(scope, start=min(starts[partition], scope.end)) for partition, scope in scopes.items()}
        findings = drill.findings(cut, log_slices, differing)
        starts = survey.starts(scopes)
        if all(each.is_explained or each.first >= starts[Partition(each.topic, each.partition)] for each in findings):
            moved = [(partition, scope) for partition, scope in cut.items() if scope.start > scopes[partition].start]
            return findings + [
                gap(Kind.LOG_RETENTION, *partition, scopes[partition].start, scope.start - 1) for partition, scope in moved
            ]
    raise PipelineError(f"the log's retention overtook the audit {DRILLS_MAX} times; audit fewer topics at a time")


def _slices(records: DataFrame, settings: AuditSettings, side: str) -> list[Slice]:
    table = slice_checksums(records, settings.bucket_offsets, settings.slice_s).limit(SLICES_MAX + 1).toArrow()
    if table.num_rows > SLICES_MAX:
        raise PipelineError(f"{side} has more than {SLICES_MAX} slices; raise bucket_offsets or slice_time")
    return [Slice(*row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]


def _log_slices(log: LogSide, scopes: Mapping[Partition, Scope], settings: AuditSettings) -> tuple[LogSide, list[Slice]]:
    """The slices, and the log side that could read them."""
    try:
        return log, _slices(log.within(scopes), settings, "the log")
    except Py4JJavaError as error:
        if not is_timestamp_overflow(error):
            raise
        raw = replace(log, is_raw=True)
        return raw, _slices(raw.within(scopes), settings, "the log")


def _reached(lake: LakeSide, slices: Iterable[Slice]) -> dict[Partition, int]:
    """The offset after the last that the lake has, by its rows and by its checkpoint."""
    reached = dict(lake.reached)
    for each in slices:
        partition = Partition(each.topic, each.partition)
        reached[partition] = max(reached.get(partition, 0), each.last + 1)
    return reached


def _began(lake: LakeSide, slices: Iterable[Slice]) -> dict[Partition, int]:
    """The first offset that the lake is to have, by its checkpoint and by its rows."""
    began = dict(lake.began)
    for each in slices:
        partition = Partition(each.topic, each.partition)
        began[partition] = min(began.get(partition, 0), each.first)
    return began


def _compared(
    whole: Mapping[Partition, Scope], began: Mapping[Partition, int], reached: Mapping[Partition, int]
) -> dict[Partition, Scope]:
    """What both sides are to have of each partition of the log."""
    scopes = {}
    for partition, scope in whole.items():
        start = min(scope.end, max(scope.start, began.get(partition, 0)))
        scopes[partition] = Scope(start, max(start, min(scope.end, reached.get(partition, start))))
    return scopes


def _expired(log_slices: Iterable[Slice], lake_slices: Collection[Slice], lake: LakeSide) -> list[Slice]:
    """Slices that the lake's retention dropped. Records without a time lie at the date of their batch, which the log cannot tell:
    they may have been dropped if the lake has another slice of them, or none."""
    if lake.retained_from is None:
        return []
    return [each for each in log_slices if _is_expired(each, lake) or (each.start_s is None and each not in lake_slices)]


def _is_expired(each: Slice, lake: LakeSide) -> bool:
    if lake.retained_from is None or each.start_s is None:
        return False
    return each.start_s < (lake.retained_from - date(1970, 1, 1)).days * DAY_S


def _bounds(
    lake: LakeSide, whole: Mapping[Partition, Scope], scopes: Mapping[Partition, Scope], reached: Mapping[Partition, int]
) -> list[Finding]:
    """What only one side can have: below the log's start, beyond its end, before the archive began, not archived yet or never."""
    findings = []
    beyond: Counter[Partition] = Counter()
    for row in lake.outside(whole).collect():
        kind = Kind.LOG_RETENTION if row["is_below"] else Kind.BEYOND_LOG_END
        findings.append(Finding(kind, row["topic"], row["partition"], row["first"], row["last"], row["records"]))
        beyond[Partition(row["topic"], row["partition"])] += not row["is_below"]
    for partition, scope in whole.items():
        if scope.start < scopes[partition].start:
            findings.append(gap(Kind.BEFORE_ARCHIVE, *partition, scope.start, scopes[partition].start - 1))
        if scopes[partition].end < scope.end:
            kind = Kind.NOT_YET if partition in reached else Kind.NEVER_ARCHIVED
            findings.append(gap(kind, *partition, scopes[partition].end, scope.end - 1))
    for partition, end in reached.items():
        log_end = whole[partition].end if partition in whole else lake.began.get(partition, 0)
        if end > log_end and not beyond[partition]:
            findings.append(gap(Kind.BEYOND_LOG_END, *partition, log_end, end - 1))
    return findings
