"""Jobs of the kind `replay`: a slice of a table of the lake into a topic, exactly once."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from services.pipeline.job_file.job import Job, LakeSettings
from services.pipeline.job_file.reader import TableReader
from services.pipeline.job_file.sink_options import Target, read_target

CHUNK_ROWS = 100_000
TASKS_MAX = 100_000
FIRST_YEAR, LAST_YEAR = 1970, 9999


@dataclass(frozen=True)
class LakeSlice:
    """Which rows of a table: all conditions hold. Times are of records, `until` and `until_offset` are excluded."""

    topics: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    since_offset: int | None = None
    until_offset: int | None = None
    keys: tuple[str, ...] = ()
    where: str | None = None


@dataclass(frozen=True)
class RateLimit:
    """Per second; None: without a limit."""

    records: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class ReplayJob(Job):
    """`keeps_partitions`: a record goes to the partition that it came from, else to its key's."""

    table: str
    rows: LakeSlice
    target: Target
    keeps_partitions: bool
    chunk_rows: int
    tasks: int
    limit: RateLimit
    checkpoint: str


def read_replay_job(table: TableReader, name: str, lake: LakeSettings) -> ReplayJob:
    return ReplayJob(
        name=name,
        table=table.path("table"),
        rows=_read_slice(table.table("slice", {})),
        target=read_target(table, ("topic", "epoch", "sink.id")),
        keeps_partitions=table.choice("partition", ("of the key", "as it was"), "of the key") == "as it was",
        chunk_rows=table.integer("chunk_rows", CHUNK_ROWS, at_least=1),
        tasks=table.integer("tasks", 2, at_least=1, at_most=TASKS_MAX),
        limit=RateLimit(
            table.integer("records_per_second", None, at_least=1), table.integer("bytes_per_second", None, at_least=1)
        ),
        checkpoint=table.path("checkpoint", f"{lake.path}/_checkpoints/{name}"),
    )


def _read_slice(table: TableReader) -> LakeSlice:
    found = LakeSlice(
        topics=table.texts("topics", ()),
        since=_read_time(table, "since"),
        until=_read_time(table, "until"),
        since_offset=table.integer("since_offset", None),
        until_offset=table.integer("until_offset", None),
        keys=table.texts("keys", ()),
        where=table.text("where", None),
    )
    table.end()
    return found


def _read_time(table: TableReader, key: str) -> datetime | None:
    text = table.text(key, None)
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
        time = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
        if FIRST_YEAR <= time.astimezone(UTC).year <= LAST_YEAR:
            return time
    except (ValueError, OverflowError):
        pass
    raise table.refusal(key, text, f"a time such as '2026-11-27T09:00:00Z', from {FIRST_YEAR} to {LAST_YEAR} in UTC")


def slice_facts(rows: LakeSlice) -> Mapping[str, object]:
    """The slice as JSON has it."""
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in vars(rows).items()
        if value not in (None, ())
    }
