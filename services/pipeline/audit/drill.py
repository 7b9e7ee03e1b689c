"""The drill: in buckets that differ, the offsets that do; in buckets with gaps, the reasons."""

from dataclasses import dataclass

from pyspark.sql import DataFrame, Row

from libs.client.security import NO_SECURITY, Security
from services.pipeline.audit.findings import Finding, Kind, joined
from services.pipeline.audit.log_facts import LogFacts
from services.pipeline.audit.raw_log import Leader, explain_gaps
from services.pipeline.audit.settings import AuditSettings
from services.pipeline.audit.sides import LakeSide, LogSide, Scopes, around, in_buckets, removable
from services.pipeline.audit.slices import Bucket, Range, Slice, absent_offsets, touching_joined
from services.pipeline.errors import PipelineError
from services.pipeline.transforms.checksums import offset_differences, offset_gaps

GAPS_MAX = 2_000_000


@dataclass(frozen=True)
class Drill:
    log: LogSide
    lake: LakeSide
    settings: AuditSettings
    facts: LogFacts
    leader: Leader
    security: Security = NO_SECURITY

    def findings(self, scopes: Scopes, log_slices: list[Slice], differing: set[Bucket]) -> list[Finding]:
        return self._differences(scopes, differing) + self._gaps(scopes, log_slices, differing)

    def _differences(self, scopes: Scopes, differing: set[Bucket]) -> list[Finding]:
        findings = []
        plain = {bucket for bucket in differing if not self.facts.compacted[bucket.topic]}
        for buckets, is_compacted in ((plain, False), (differing - plain, True)):
            if buckets:
                findings += self._of_buckets(scopes, buckets, is_compacted)
        return joined(findings)

    def _of_buckets(self, scopes: Scopes, buckets: set[Bucket], is_compacted: bool) -> list[Finding]:
        log, lake = self._rows(self.log, scopes, buckets), self._rows(self.lake, scopes, buckets)
        removed = self._removable(scopes, log, buckets) if is_compacted else None
        runs = offset_differences(log, lake, self.settings.bucket_offsets, removed)
        most = self.settings.findings_max
        rows = runs.orderBy("topic", "partition", "first").limit(most + 1).collect()
        if len(rows) > most:
            first = f"{rows[0]['topic']}-{rows[0]['partition']} offset {rows[0]['first']}"
            raise PipelineError(f"more than {most} runs of offsets differ, the first at {first}; findings_max allows no more")
        return [_finding(row) for row in rows]

    def _rows(self, side: LogSide | LakeSide, scopes: Scopes, buckets: set[Bucket]) -> DataFrame:
        size = self.settings.bucket_offsets
        return self.lake.kept(in_buckets(side.within(around(buckets, size, scopes)), buckets, size))

    def _removable(self, scopes: Scopes, log: DataFrame, buckets: set[Bucket]) -> DataFrame:
        """Offsets that compaction may have removed from the log. The latest record of a key is on either side: in the lake, or in
        a bucket of the log that differs."""
        topics = {bucket.topic for bucket in buckets}
        lake = self.lake.within({partition: scope for partition, scope in scopes.items() if partition.topic in topics})
        both = lake.unionAll(log).select("topic", "partition", "offset", "key", "value")
        return both.withColumn("removable", removable(both)).where("removable").select("topic", "partition", "offset").distinct()

    def _gaps(self, scopes: Scopes, log_slices: list[Slice], differing: set[Bucket]) -> list[Finding]:
        """Buckets that are the same have their gaps in the lake, too, whose offsets alone are quick to read."""
        gaps, holed = absent_offsets(log_slices, scopes)
        from_log = holed if self.lake.retained_from is not None else holed & differing
        for side, buckets in ((self.log, from_log), (self.lake, holed - from_log)):
            if buckets:
                size = self.settings.bucket_offsets
                rows = in_buckets(side.within(around(buckets, size, scopes)), buckets, size)
                table = offset_gaps(rows, size).limit(GAPS_MAX + 1).toArrow()
                if table.num_rows > GAPS_MAX:
                    raise PipelineError(f"the log has more than {GAPS_MAX} gaps of offsets; audit fewer topics at a time")
                gaps += [Range(*row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]
        return explain_gaps(touching_joined(gaps), self.facts.compacted, self.leader, self.security)


def _finding(row: Row) -> Finding:
    fields = tuple(row["fields"])
    where = row["topic"], row["partition"], row["first"], row["last"], row["records"]
    return Finding(Kind(row["state"]), *where, fields, row["copies"] if row["state"] == Kind.DUPLICATED else 1)
