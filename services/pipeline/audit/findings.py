"""What an audit finds: runs of offsets of one partition, each with its kind."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum


class Kind(StrEnum):
    """The value is the kind's name in the JSON report."""

    MISSING = "missing"
    UNEXPECTED = "unexpected"
    DUPLICATED = "duplicated"
    DIFFERENT = "different"
    UNREAD = "unread"
    UNEXPLAINED_GAP = "unexplained gap"
    BEYOND_LOG_END = "beyond the log's end"
    NEVER_ARCHIVED = "never archived"
    CONTROL = "control records"
    ABORTED = "aborted records"
    COMPACTED = "compaction"
    LOG_RETENTION = "log retention"
    LAKE_RETENTION = "lake retention"
    BEFORE_ARCHIVE = "before the archive"
    NOT_YET = "not archived yet"


EXPLAINED = frozenset(
    {
        Kind.CONTROL,
        Kind.ABORTED,
        Kind.COMPACTED,
        Kind.LOG_RETENTION,
        Kind.LAKE_RETENTION,
        Kind.BEFORE_ARCHIVE,
        Kind.NOT_YET,
    }
)
_SENTENCES = {
    Kind.MISSING: "the log has them, the lake lacks them",
    Kind.UNEXPECTED: "the lake has them, the log lacks them",
    Kind.DUPLICATED: "the lake has each {copies} times",
    Kind.DIFFERENT: "the lake has another {fields}",
    Kind.UNREAD: "the log holds records there that its reader did not return",
    Kind.UNEXPLAINED_GAP: "the log has no records there, and nothing explains why",
    Kind.BEYOND_LOG_END: "the lake has them, but the log ends before them",
    Kind.NEVER_ARCHIVED: "the lake has no record of the partition, and no checkpoint says that an archive reads it",
    Kind.CONTROL: "control records of transactions",
    Kind.ABORTED: "records of aborted transactions",
    Kind.COMPACTED: "the log's compaction removed them",
    Kind.LOG_RETENTION: "the log's retention removed them",
    Kind.LAKE_RETENTION: "the lake's retention removed them",
    Kind.BEFORE_ARCHIVE: "the archive began behind them",
    Kind.NOT_YET: "the archive has not reached them yet",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """A run of offsets, `first` to `last` inclusive. `records` counts those that are there: a run may step over gaps."""

    kind: Kind
    topic: str
    partition: int
    first: int
    last: int
    records: int
    fields: tuple[str, ...] = ()
    copies: int = 1

    @property
    def is_explained(self) -> bool:
        return self.kind in EXPLAINED

    def __str__(self) -> str:
        where = f"offset {self.first}" if self.first == self.last else f"offsets {self.first} to {self.last}"
        what = _SENTENCES[self.kind].format(copies=self.copies, fields=", ".join(self.fields).replace("_", " "))
        count = f"{self.records} record{'' if self.records == 1 else 's'}"
        return f"{self.topic}-{self.partition} {where} ({count}): {self.kind}: {what}"


def gap(kind: Kind, topic: str, partition: int, first: int, last: int) -> Finding:
    """A finding about all offsets of a run."""
    return Finding(kind, topic, partition, first, last, last - first + 1)


def joined(findings: Iterable[Finding]) -> list[Finding]:
    """In the order of offsets. Runs of the same kind that touch are one."""
    runs: list[Finding] = []
    for finding in sorted(findings, key=lambda each: (each.topic, each.partition, each.first, each.last)):
        last = runs[-1] if runs else None
        if (
            last is not None
            and replace(last, first=0, last=0, records=0) == replace(finding, first=0, last=0, records=0)
            and (finding.first == last.last + 1)
        ):
            runs[-1] = replace(last, last=finding.last, records=last.records + finding.records)
        else:
            runs.append(finding)
    return runs
