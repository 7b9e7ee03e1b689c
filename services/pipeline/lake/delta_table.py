"""A Delta table that appends whole batches, once each.

Delta commits a batch in one step, together with the id of its stream and its number (`txnAppId`, `txnVersion`). A batch that it
has already is left out.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from services.pipeline.errors import PipelineError
from services.pipeline.lake.schemas import merged
from services.pipeline.lake.table import DELTA_LOG, committed_batch, delta_snapshot, table_format
from services.pipeline.spark.files import Files

STREAM = "penstock.stream"
"""Table property: the id of the streaming query that owns the table."""
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_TXN = ("spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion")
_SMALL_BELOW = "spark.databricks.delta.optimize.minFileSize"
_MAX_FILE_BYTES = "spark.databricks.delta.optimize.maxFileSize"


class DeltaLakeTable:
    """One table, and the stream that owns it. Raises PipelineError if the table belongs to another stream."""

    def __init__(self, spark: SparkSession, path: str, stream: str, partition_columns: Sequence[str]) -> None:
        self._spark = spark.newSession()  # jobs run beside each other, and Delta takes some settings from its session alone
        self.path = path
        self._stream = stream
        self._partition_columns = partition_columns
        found = table_format(spark, path)
        if found == "parquet":
            raise PipelineError(f"{path} is a Parquet table; the job wants to write Delta: give it another path")
        files = Files(spark, path)
        self._location = files.folder
        """The path as a URI: Delta takes a relative path for a name of the catalog."""
        if found is None and files.exists(DELTA_LOG):
            raise PipelineError(
                f"{path} is half a table: its {DELTA_LOG} has no entry; remove what a crash has left, or give another path"
            )
        if found is None and (stray := files.below("")):
            raise PipelineError(
                f"{path} holds files that no job of the pipeline has committed, e.g. {stray[0].path}: give the job an empty path"
            )
        if found is not None:
            self._refuse_other()

    @property
    def last_batch(self) -> int:
        """The transaction version that Delta keeps for the stream; -1: none has been committed."""
        return committed_batch(self._spark, self.path, self._stream)

    def merged_schema(self, new: StructType) -> StructType:
        """The table's schema when rows of `new` have been added."""
        if table_format(self._spark, self.path) is None:
            return new
        return merged(self.path, self._spark.read.format("delta").load(self._location).schema, new)

    def append(self, rows: DataFrame, batch: int, facts: Mapping[str, Any]) -> None:
        """Commits the rows as one batch. They have the columns of `merged_schema`."""
        self.create(rows.schema)
        writer = rows.write.format("delta").mode("append").option("mergeSchema", "true")
        writer = writer.option("txnAppId", self._stream).option("txnVersion", batch)
        writer.option("userMetadata", _metadata("batch", batch, facts)).save(self._location)

    def merge(self, changes: DataFrame, batch: int, facts: Mapping[str, Any]) -> None:
        """Brings the table to the latest record of each key: `changes` has one row a key, and a tombstone's value is null."""
        self.create(changes.schema)
        if self.last_batch >= batch:
            return
        settings = {_USER_METADATA: _metadata("batch", batch, facts), _TXN[0]: self._stream, _TXN[1]: str(batch)}
        with configured(changes.sparkSession, settings):
            table = DeltaTable.forPath(changes.sparkSession, self._location).alias("old")
            merging = table.merge(changes.alias("new"), "old.key = new.key AND old.topic = new.topic").withSchemaEvolution()
            merging = merging.whenMatchedDelete("new.value IS NULL").whenMatchedUpdateAll("new.value IS NOT NULL")
            merging.whenNotMatchedInsertAll("new.value IS NOT NULL").execute()

    def create(self, schema: StructType) -> None:
        """Makes an empty table that this stream owns, if there is none."""
        if table_format(self._spark, self.path) is not None:
            return
        builder = DeltaTable.createIfNotExists(self._spark).location(self._location).addColumns(schema)
        builder = builder.property(STREAM, self._stream)
        if self._partition_columns:
            builder = builder.partitionedBy(*self._partition_columns)
        builder.execute()

    def compact(self, min_files: int, target_file_bytes: int) -> int:
        """Rewrites small files of each partition that has at least `min_files` of them. Returns the number of files replaced."""
        if table_format(self._spark, self.path) is None:
            return 0
        small_below = target_file_bytes // 2
        chosen = [values for values, count in self._small_files(small_below) if count >= min_files]
        settings = {
            _USER_METADATA: _metadata("compaction", None, {}),
            _MAX_FILE_BYTES: str(target_file_bytes),
            _SMALL_BELOW: str(small_below),
        }
        replaced = 0
        for values in chosen:
            with configured(self._spark, settings):
                optimize = DeltaTable.forPath(self._spark, self._location).optimize().where(_is_partition(values))
                replaced += int(optimize.executeCompaction().first().metrics.numFilesRemoved)
        return replaced

    def _small_files(self, below_bytes: int) -> list[tuple[Mapping[str, str | None], int]]:
        """The values of each partition that has files smaller than that, and their number."""
        snapshot = delta_snapshot(self._spark, self._location)
        files = DataFrame(snapshot.allFiles().toDF(), self._spark).where(F.col("size") < below_bytes)
        counts = files.groupBy(F.map_entries("partitionValues").alias("values")).count().collect()
        return [({entry.key: entry.value for entry in row["values"]}, row["count"]) for row in counts]

    def expire(self, before: str) -> int:
        """Drops whole dates before that day, `YYYY-MM-DD`. Returns the number of rows dropped."""
        if table_format(self._spark, self.path) is None:
            return 0
        oldest = self._spark.read.format("delta").load(self._location).selectExpr("CAST(min(date) AS STRING) AS date").first()
        if oldest is None or oldest.date is None or oldest.date >= before:
            return 0
        with configured(self._spark, {_USER_METADATA: _metadata("retention", None, {"expired_before": before})}):
            deleted = self._spark.sql(f"DELETE FROM delta.`{self._location}` WHERE date < DATE '{before}'").first()
        return int(deleted[0]) if deleted else 0

    def remove_leftovers(self) -> None:
        """Nothing to do: files that no commit of Delta names are no readers' concern, and `VACUUM` removes them."""

    def delete_removed(self, keep_s: float) -> int:
        """Nothing to do: Delta keeps what compaction and retention removed until somebody runs `VACUUM`."""
        return 0

    def _refuse_other(self) -> None:
        properties = self._spark.sql(f"SHOW TBLPROPERTIES delta.`{self._location}`").where(f"key = '{STREAM}'").first()
        owner = properties.value if properties else None
        if owner != self._stream:
            raise PipelineError(
                f"{self.path} belongs to {f'the stream {owner}' if owner else 'no stream of the pipeline'}, "
                f"and this checkpoint to {self._stream}: give the job its own checkpoint again, or another path"
            )


@contextmanager
def configured(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings of the session that Delta takes no other way, for the time of one command."""
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in settings:
            spark.conf.unset(key)


def _is_partition(values: Mapping[str, str | None]) -> str:
    """The condition for rows of that partition, as SQL."""
    texts = {name: (value or "").replace("\\", "\\\\").replace("'", "\\'") for name, value in values.items()}
    conditions = [f"`{name}` IS NULL" if value is None else f"`{name}` = '{texts[name]}'" for name, value in values.items()]
    return " AND ".join(conditions) or "true"


def _metadata(kind: str, batch: int | None, facts: Mapping[str, Any]) -> str:
    return json.dumps({"kind": kind, "batch": batch, **facts})
