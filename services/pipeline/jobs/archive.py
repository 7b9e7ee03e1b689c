"""Archive jobs: a stream of topics into a Parquet or Delta table, each batch as a whole, once."""

from datetime import UTC, datetime, timedelta

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from services.pipeline.errors import PipelineError
from services.pipeline.job_file.archive import ArchiveJob
from services.pipeline.jobs.losses import LossCheck
from services.pipeline.jobs.running import RunningStream, Surroundings
from services.pipeline.jobs.topic_streams import Commit, start_topic_stream
from services.pipeline.lake.writing import WrittenTable, open_table
from services.pipeline.observing.progress import StreamObserver
from services.pipeline.spark.checkpoint import Checkpoint
from services.pipeline.spark.offset_ranges import as_json
from services.pipeline.spark.value_schema import ValueSchema
from services.pipeline.transforms.parsing import PARSE_ERROR, dead_letters, parsed_type, with_parsed
from services.pipeline.transforms.records import PARTITION_COLUMNS

PARSED = "parsed"


def start_archive(job: ArchiveJob, surroundings: Surroundings) -> RunningStream:
    def commit_into(checkpoint: Checkpoint, losses: LossCheck, observer: StreamObserver) -> Commit:
        return ArchiveBatches(surroundings.spark, job, checkpoint, losses, observer).commit

    return start_topic_stream(
        job, surroundings, commit_into, starting_offsets=job.starting_offsets, read_uncommitted=job.read_uncommitted
    )


class ArchiveBatches:
    """Commits the batches of one archive. A batch that comes again after a crash is left out where it was committed."""

    def __init__(
        self, spark: SparkSession, job: ArchiveJob, checkpoint: Checkpoint, losses: LossCheck, observer: StreamObserver
    ) -> None:
        self._spark = spark
        self._job = job
        self._checkpoint = checkpoint
        self._losses = losses
        self._observer = observer
        self._parsed_type = None if job.schema is None else type_of_schema(spark, job.schema, job.name)
        self._tables: tuple[WrittenTable, WrittenTable | None] | None = None

    def commit(self, rows: DataFrame, batch: int) -> None:
        """First the dead letters, then the rows, then upkeep."""
        table, dead = self._open()
        refuse_gap(table, batch, self._checkpoint.path)
        if table.last_batch < batch:
            wanted = self._checkpoint.ranges(batch)
            facts = {"offsets": as_json(wanted), **self._losses.lost(wanted)}
            if self._job.schema is None:
                table.append(rows, batch, facts)
            else:
                self._append_parsed(rows, batch, facts, self._job.schema)
        self._keep_up(table, dead)

    def _append_parsed(self, rows: DataFrame, batch: int, facts: dict[str, object], schema: ValueSchema) -> None:
        assert self._parsed_type is not None
        table, dead = self._open()
        assert dead is not None
        wide = table.merged_schema(StructType([*rows.schema.fields, StructField(PARSED, self._parsed_type, True)]))
        parsed = with_parsed(rows, schema, wide[PARSED].dataType).persist()
        try:
            self._observer.add_dead_letters(append_dead_letters(dead, dead_letters(parsed), batch, facts), batch)
            table.append(parsed.drop(PARSE_ERROR).select(*wide.fieldNames()), batch, facts)
        finally:
            parsed.unpersist()

    def _keep_up(self, table: WrittenTable, dead: WrittenTable | None) -> None:
        compaction = self._job.compaction
        if compaction.min_files:
            table.compact(compaction.min_files, compaction.target_file_bytes)
        if self._job.retention_days is not None:
            before = (datetime.now(UTC) - timedelta(days=self._job.retention_days)).date().isoformat()
            table.expire(before)
            if dead is not None:
                dead.expire(before)

    def _open(self) -> tuple[WrittenTable, WrittenTable | None]:
        """The table, and that of dead letters if values are parsed. Opened with the first batch."""
        if self._tables is None:
            stream = self._checkpoint.stream()  # the query has none before its first batch
            table, dead = self._open_one(self._job.path, stream), None
            if self._job.schema is not None:
                dead = self._open_one(self._job.dead_letters_path, stream)
            self._tables = table, dead
        return self._tables

    def _open_one(self, path: str, stream: str) -> WrittenTable:
        return open_table(self._spark, path, self._job.format, stream, PARTITION_COLUMNS)


def append_dead_letters(dead: WrittenTable, letters: DataFrame, batch: int, facts: dict[str, object]) -> int:
    """How many there are. Nothing is committed where there are none."""
    count = int(letters.count())
    if dead.last_batch < batch and count:
        dead.append(letters, batch, facts)
    return count


def refuse_gap(table: WrittenTable, batch: int, checkpoint: str) -> None:
    """Raises PipelineError if the table lacks batches that the checkpoint has behind it."""
    if batch > table.last_batch + 1:
        raise PipelineError(
            f"{table.path} has the batches up to {table.last_batch}, and the checkpoint {checkpoint} goes on with batch {batch}: "
            "one of them was removed or put back; give the job a new checkpoint and a new path"
        )


def type_of_schema(spark: SparkSession, schema: ValueSchema, job: str) -> StructType:
    """Raises PipelineError with Spark's own reason if the schema is wrong."""
    try:
        return parsed_type(spark, schema)
    except PySparkException as error:
        raise PipelineError(f"{job}: the {schema.format} schema is wrong: {str(error).strip().splitlines()[0]}") from None
