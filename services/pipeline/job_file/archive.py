"""Jobs of the kind `archive`: topics into a table of the lake, each record once."""

from dataclasses import dataclass
from typing import Literal

from services.pipeline.job_file.job import FORMATS, Format, Job, LakeSettings
from services.pipeline.job_file.reader import TableReader
from services.pipeline.job_file.streams import StreamSettings, read_stream_settings, read_topics
from services.pipeline.job_file.value_schema import read_value_schema
from services.pipeline.spark.cluster import Topics
from services.pipeline.spark.value_schema import ValueSchema

OnDataLoss = Literal["stop", "continue"]
RETENTION_DAYS_MAX = 36_500


@dataclass(frozen=True)
class Compaction:
    """Small files of a date are rewritten when there are `min_files` of them; 0: never. Small: below half of the target."""

    min_files: int = 16
    target_file_bytes: int = 128 << 20


@dataclass(frozen=True, kw_only=True)
class ArchiveJob(Job):
    topics: Topics
    path: str
    format: Format
    stream: StreamSettings
    starting_offsets: Literal["earliest", "latest"]
    read_uncommitted: bool
    on_data_loss: OnDataLoss
    schema: ValueSchema | None
    compaction: Compaction
    retention_days: int | None
    keep_removed_minutes: int
    """How long Parquet files stay on disk that compaction or retention removed from the table."""

    @property
    def dead_letters_path(self) -> str:
        return f"{self.path}_dead_letters"


def read_archive_job(table: TableReader, name: str, lake: LakeSettings) -> ArchiveJob:
    return ArchiveJob(
        name=name,
        topics=read_topics(table),
        path=table.path("path", f"{lake.path}/{name}"),
        format=table.choice("format", FORMATS, lake.format),
        stream=read_stream_settings(table, job=name, lake_path=lake.path),
        starting_offsets=table.choice("starting_offsets", ("earliest", "latest"), "earliest"),
        read_uncommitted=table.choice("isolation_level", ("read_committed", "read_uncommitted"), "read_committed")
        == "read_uncommitted",
        on_data_loss=table.choice("on_data_loss", ("stop", "continue"), "stop"),
        schema=read_value_schema(table),
        compaction=_read_compaction(table.table("compaction", {})),
        retention_days=table.integer("retention_days", None, at_least=1, at_most=RETENTION_DAYS_MAX),
        keep_removed_minutes=table.integer("keep_removed_minutes", 60),
    )


def _read_compaction(table: TableReader) -> Compaction:
    found = Compaction(
        table.integer("min_files", Compaction.min_files),
        table.integer("target_file_bytes", Compaction.target_file_bytes, at_least=1 << 10),
    )
    if found.min_files == 1:
        raise table.refusal("min_files", 1, "0 (never) or a whole number from 2")
    table.end()
    return found
