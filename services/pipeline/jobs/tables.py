"""Table jobs: a changelog topic into a Delta table with the latest record of each key. Each batch is one merge."""

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.job_file.changelog_table import TableJob
from services.pipeline.jobs.lake_batches import Facts, LakeBatches, Offsets
from services.pipeline.jobs.losses import LossCheck
from services.pipeline.jobs.running import Environment, RunningStream
from services.pipeline.jobs.topic_streams import Commit, start_topic_stream
from services.pipeline.lake.delta_table import DeltaLakeTable
from services.pipeline.observing.progress import StreamObserver
from services.pipeline.spark.checkpoint import Checkpoint
from services.pipeline.spark.offset_ranges import Partition, grown
from services.pipeline.transforms.latest import latest_per_key, without_key
from services.pipeline.transforms.parsing import PARSE_ERROR, dead_letters
from services.pipeline.transforms.records import PARTITION_COLUMNS


def start_table(job: TableJob, environment: Environment) -> RunningStream:
    def commit_into(checkpoint: Checkpoint, losses: LossCheck, observer: StreamObserver) -> Commit:
        return TableBatches(environment.spark, job, checkpoint, losses, observer).commit

    return start_topic_stream(job, environment, commit_into)


class TableBatches(LakeBatches[DeltaLakeTable]):
    def __init__(
        self, spark: SparkSession, job: TableJob, checkpoint: Checkpoint, losses: LossCheck, observer: StreamObserver
    ) -> None:
        super().__init__(spark, job, checkpoint, losses, observer)
        self._job = job

    def open_tables(self, stream: str, *, with_dead_letters: bool) -> tuple[DeltaLakeTable, DeltaLakeTable | None]:
        dead = DeltaLakeTable(self._spark, self._job.dead_letters_path, stream, PARTITION_COLUMNS)
        return DeltaLakeTable(self._spark, self._job.path, stream, ()), dead

    def refuse_offsets(self, before: Mapping[Partition, int], wanted: Offsets) -> None:
        for topic, count in grown(before, wanted):
            raise PipelineError(
                f"jobs.{self._job.name}: {topic} has grown to {count} partitions: records of one key may now lie in two of them, "
                "in an order that nobody knows; copy the topic into a new one, and give the job a new checkpoint and a new path"
            )

    def write(self, rows: DataFrame, table: DeltaLakeTable, dead: DeltaLakeTable | None, batch: int, facts: Facts) -> None:
        assert dead is not None
        parsed = self.parsed(rows, table).persist()
        try:
            self.append_dead_letters(dead, _letters(parsed), batch, facts)
            table.merge(latest_per_key(parsed.drop(PARSE_ERROR)), batch, facts)
        finally:
            parsed.unpersist()


def _letters(rows: DataFrame) -> DataFrame:
    keyless = without_key(rows)
    return keyless.unionByName(dead_letters(rows.where("key IS NOT NULL"))) if PARSE_ERROR in rows.columns else keyless
