"""Table jobs: a changelog topic into a Delta table with the latest record of each key. Each batch is one merge."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from services.pipeline.job_file.changelog_table import TableJob
from services.pipeline.jobs.archive import PARSED, append_dead_letters, refuse_gap, type_of_schema
from services.pipeline.jobs.losses import LossCheck
from services.pipeline.jobs.running import RunningStream, Surroundings
from services.pipeline.jobs.topic_streams import Commit, start_topic_stream
from services.pipeline.lake.delta_table import DeltaLakeTable
from services.pipeline.observing.progress import StreamObserver
from services.pipeline.spark.checkpoint import Checkpoint
from services.pipeline.spark.offset_ranges import as_json
from services.pipeline.transforms.latest import latest_per_key, without_key
from services.pipeline.transforms.parsing import PARSE_ERROR, dead_letters, with_parsed
from services.pipeline.transforms.records import PARTITION_COLUMNS


def start_table(job: TableJob, surroundings: Surroundings) -> RunningStream:
    def commit_into(checkpoint: Checkpoint, losses: LossCheck, observer: StreamObserver) -> Commit:
        return TableBatches(surroundings.spark, job, checkpoint, losses, observer).commit

    return start_topic_stream(job, surroundings, commit_into)


class TableBatches:
    """Merges the batches of one changelog. A batch that comes again after a crash is left out if it was committed."""

    def __init__(
        self, spark: SparkSession, job: TableJob, checkpoint: Checkpoint, losses: LossCheck, observer: StreamObserver
    ) -> None:
        self._spark = spark
        self._job = job
        self._checkpoint = checkpoint
        self._losses = losses
        self._observer = observer
        self._parsed_type = None if job.schema is None else type_of_schema(spark, job.schema, job.name)
        self._tables: tuple[DeltaLakeTable, DeltaLakeTable] | None = None

    def commit(self, rows: DataFrame, batch: int) -> None:
        table, dead = self._open()
        refuse_gap(table, batch, self._checkpoint.path)
        if table.last_batch >= batch:
            return
        wanted = self._checkpoint.ranges(batch)
        facts = {"offsets": as_json(wanted), **self._losses.lost(wanted)}
        whole = self._parsed(rows, table).persist()
        try:
            self._observer.add_dead_letters(append_dead_letters(dead, self._letters(whole), batch, facts), batch)
            table.merge(latest_per_key(whole.drop(PARSE_ERROR)), batch, facts)
        finally:
            whole.unpersist()

    def _letters(self, whole: DataFrame) -> DataFrame:
        keyless = without_key(whole)
        return keyless.unionByName(dead_letters(whole.where("key IS NOT NULL"))) if PARSE_ERROR in whole.columns else keyless

    def _parsed(self, rows: DataFrame, table: DeltaLakeTable) -> DataFrame:
        if self._job.schema is None or self._parsed_type is None:
            return rows
        wide = table.merged_schema(StructType([*rows.schema.fields, StructField(PARSED, self._parsed_type, True)]))
        return with_parsed(rows, self._job.schema, wide[PARSED].dataType)

    def _open(self) -> tuple[DeltaLakeTable, DeltaLakeTable]:
        if self._tables is None:
            stream = self._checkpoint.stream()
            dead = DeltaLakeTable(self._spark, self._job.dead_letters_path, stream, PARTITION_COLUMNS)
            self._tables = DeltaLakeTable(self._spark, self._job.path, stream, ()), dead
        return self._tables
