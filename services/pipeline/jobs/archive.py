"""Archive jobs: a stream of topics into a Parquet or Delta table, each batch as a whole, once."""

from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession

from services.pipeline.job_file.archive import ArchiveJob
from services.pipeline.jobs.lake_batches import Facts, LakeBatches
from services.pipeline.jobs.losses import LossCheck
from services.pipeline.jobs.running import Environment, RunningStream
from services.pipeline.jobs.topic_streams import Commit, start_topic_stream
from services.pipeline.lake.table import table_format
from services.pipeline.lake.writing import WrittenTable, open_table
from services.pipeline.observing.progress import StreamObserver
from services.pipeline.spark.checkpoint import Checkpoint
from services.pipeline.transforms.parsing import PARSE_ERROR, dead_letters
from services.pipeline.transforms.records import PARTITION_COLUMNS


def start_archive(job: ArchiveJob, environment: Environment) -> RunningStream:
    def commit_into(checkpoint: Checkpoint, losses: LossCheck, observer: StreamObserver) -> Commit:
        return ArchiveBatches(environment.spark, job, checkpoint, losses, observer).commit

    return start_topic_stream(
        job, environment, commit_into, starting_offsets=job.starting_offsets, read_uncommitted=job.read_uncommitted
    )


class ArchiveBatches(LakeBatches[WrittenTable]):
    def __init__(
        self, spark: SparkSession, job: ArchiveJob, checkpoint: Checkpoint, losses: LossCheck, observer: StreamObserver
    ) -> None:
        super().__init__(spark, job, checkpoint, losses, observer)
        self._job = job

    def open_tables(self, stream: str, *, with_dead_letters: bool) -> tuple[WrittenTable, WrittenTable | None]:
        table, letters = self._open_one(self._job.path, stream), self._job.dead_letters_path
        if with_dead_letters or self._job.schema is not None or table_format(self._spark, letters) is not None:
            return table, self._open_one(letters, stream)
        return table, None

    def write(self, rows: DataFrame, table: WrittenTable, dead: WrittenTable | None, batch: int, facts: Facts) -> None:
        parsed = self.parsed(rows, table)
        if dead is None or PARSE_ERROR not in parsed.columns:
            table.append(parsed, batch, facts)
            return
        parsed.persist()
        try:
            self.append_dead_letters(dead, dead_letters(parsed), batch, facts)
            table.append(parsed.drop(PARSE_ERROR), batch, facts)
        finally:
            parsed.unpersist()

    def keep_up(self, table: WrittenTable, dead: WrittenTable | None) -> None:
        compaction = self._job.compaction
        tables = (table,) if dead is None else (table, dead)
        if compaction.min_files:
            table.compact(compaction.min_files, compaction.target_file_bytes)
        if self._job.retention_days is not None:
            before = (datetime.now(UTC) - timedelta(days=self._job.retention_days)).date().isoformat()
            for each in tables:
                each.expire(before)
        for each in tables:
            each.delete_removed(self._job.keep_removed_minutes * 60)

    def _open_one(self, path: str, stream: str) -> WrittenTable:
        return open_table(self._spark, path, self._job.format, stream, PARTITION_COLUMNS)
