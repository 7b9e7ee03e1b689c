"""What archive and table jobs have in common: batches of topics that are committed into tables of the lake."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from services.pipeline.errors import PipelineError, first_line
from services.pipeline.jobs.losses import LossCheck
from services.pipeline.lake.schemas import widened
from services.pipeline.lake.table import committed_batch, facts_of_commits
from services.pipeline.lake.writing import WrittenTable
from services.pipeline.observing.progress import StreamObserver
from services.pipeline.spark.checkpoint import Checkpoint
from services.pipeline.spark.offset_ranges import OffsetRange, Partition, as_json
from services.pipeline.spark.value_schema import ValueSchema
from services.pipeline.transforms.parsing import PARSE_ERROR, parsed_type, with_parsed

PARSED = "parsed"
Offsets = Mapping[Partition, OffsetRange]
Facts = Mapping[str, Any]
Table = TypeVar("Table", bound=WrittenTable)


class LakeJob(Protocol):
    """What the dataclasses of such jobs have in common."""

    @property
    def name(self) -> str: ...
    @property
    def schema(self) -> ValueSchema | None: ...


class LakeBatches(ABC, Generic[Table]):
    """Commits the batches of one job. A batch that comes again after a crash is left out where it was committed."""

    def __init__(
        self, spark: SparkSession, job: LakeJob, checkpoint: Checkpoint, losses: LossCheck, observer: StreamObserver
    ) -> None:
        self._spark = spark
        self._name = job.name
        self._schema = job.schema
        self._parsed_type = None if job.schema is None else type_of_schema(spark, job.schema, job.name)
        self._checkpoint = checkpoint
        self._losses = losses
        self._observer = observer
        self._tables: tuple[Table, Table | None] | None = None

    @abstractmethod
    def open_tables(self, stream: str, *, with_dead_letters: bool) -> tuple[Table, Table | None]:
        """The table of that stream, and that of dead letters if the job may have some, has some, or is to get some."""

    @abstractmethod
    def write(self, rows: DataFrame, table: Table, dead: Table | None, batch: int, facts: Facts) -> None:
        """Commits first the dead letters, then the rows."""

    def refuse_offsets(self, before: Mapping[Partition, int], wanted: Offsets) -> None:
        """Raises PipelineError if the job cannot take these offsets after those of the batch before."""

    def keep_up(self, table: Table, dead: Table | None) -> None:
        """What is done after each batch."""

    def commit(self, rows: DataFrame, batch: int) -> None:
        table, dead = self._open(batch, with_dead_letters=PARSE_ERROR in rows.columns)
        wanted = self._checkpoint.ranges(batch)
        if table.last_batch >= batch:
            self._refuse_another_batch(table, batch, as_json(wanted))
            self._observer.left_out(batch)
        else:
            self._losses.refuse_made_anew(self._checkpoint, {topic for topic, _ in wanted})
            self.refuse_offsets(self._checkpoint.ends(batch - 1), wanted)
            self.write(rows, table, dead, batch, {"offsets": as_json(wanted), **self._losses.lost(wanted)})
        self.keep_up(table, dead)

    def parsed(self, rows: DataFrame, table: Table) -> DataFrame:
        """The rows in the table's columns; also `parse_error` if values are parsed, or if the rows have it already."""
        plain = rows.drop(PARSE_ERROR).schema
        if self._schema is None or self._parsed_type is None:
            return widened(rows, table.merged_schema(plain))
        wide = table.merged_schema(StructType([*plain.fields, StructField(PARSED, self._parsed_type, True)]))
        return with_parsed(rows, self._schema, wide[PARSED].dataType)

    def append_dead_letters(self, dead: Table, letters: DataFrame, batch: int, facts: Facts) -> None:
        """Nothing is committed where there are none."""
        count = int(letters.count())
        if dead.last_batch < batch and count:
            dead.append(letters, batch, facts)
            print(f"{self._name}: batch {batch} has {count} dead letters, see {dead.path}", flush=True)
        self._observer.add_dead_letters(count, batch)

    def _refuse_another_batch(self, table: Table, batch: int, wanted: Mapping[str, Any]) -> None:
        """Raises PipelineError if the table has a batch of that number with other offsets: leaving it out would lose records."""
        committed = [facts["offsets"] for facts in facts_of_commits(self._spark, table.path) if facts.get("batch") == batch]
        if committed and committed[-1] != wanted:
            raise PipelineError(
                f"{table.path} has a batch {batch} with other offsets than the checkpoint {self._checkpoint.path}: "
                "an older checkpoint was put back; put back the one that belongs to the table, "
                "or give the job a new checkpoint and a new path"
            )

    def _open(self, batch: int, *, with_dead_letters: bool) -> tuple[Table, Table | None]:
        """With the first batch, since the query has no id before. Leftovers stay where a batch is missing: they may be it."""
        known = self._tables
        if known is not None and with_dead_letters and known[1] is None:
            known = None
        tables = known or self.open_tables(self._checkpoint.stream(), with_dead_letters=with_dead_letters)
        refuse_gap(tables[0].path, tables[0].last_batch, batch, self._checkpoint.path)
        if known is None:
            for each in tables:
                if each is not None:
                    each.remove_leftovers()
            self._tables = tables
        return tables


def refuse_lost_batches(spark: SparkSession, path: str, checkpoint: Checkpoint) -> None:
    """Raises PipelineError if the table of the checkpoint's stream is gone, or lacks batches. It sees so before a batch comes."""
    committed = checkpoint.committed_batch()
    if committed >= 0:
        refuse_gap(path, committed_batch(spark, path, checkpoint.stream()), committed + 1, checkpoint.path)


def refuse_gap(table: str, last: int, batch: int, checkpoint: str) -> None:
    """Raises PipelineError if the table at that path, with batches up to `last`, lacks some that the checkpoint has behind it."""
    if batch > last + 1:
        raise PipelineError(
            f"{table} has the batches up to {last}, and the checkpoint {checkpoint} goes on with batch {batch}: "
            "one of them was removed or put back; give the job a new checkpoint and a new path"
        )


def type_of_schema(spark: SparkSession, schema: ValueSchema, job: str) -> StructType:
    """Raises PipelineError with Spark's own reason if the schema is wrong."""
    try:
        return parsed_type(spark, schema)
    except PySparkException as error:
        key = "ddl" if schema.format == "json" else "file"
        raise PipelineError(f"jobs.{job}.schema.{key}: the {schema.format} schema is wrong: {first_line(error)}") from None
