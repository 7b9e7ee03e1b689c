"""A Parquet table that appends whole batches, once each, through crashes at any step.

A batch is written into a staging folder, moved into place under names that no other writer uses, and committed by one entry of
the log. What no entry names is a leftover; the next writer removes it after it has claimed the table.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from services.pipeline.errors import PipelineError
from services.pipeline.lake import commit_log
from services.pipeline.lake.commit_log import DataFile, Entry, State
from services.pipeline.lake.schemas import merged
from services.pipeline.lake.table import DELTA_LOG, read_parquet
from services.pipeline.spark.files import Files

STAGING = "_penstock/staging"
_DATE = "date="


class ParquetTable:
    """The only writer of one table. `stream` is the id of the streaming query that owns it.

    Raises PipelineError if the table belongs to another stream, or lacks files that its log names.
    """

    def __init__(self, spark: SparkSession, path: str, stream: str, partition_columns: Sequence[str]) -> None:
        self._spark = spark
        self.path = path
        self._partition_columns = partition_columns
        self._files = Files(spark, path)
        if self._files.exists(DELTA_LOG):
            raise PipelineError(f"{path} is a Delta table; the job wants to write Parquet: give it another path")
        self._refuse_other(commit_log.read_state(self._files), stream)
        self._state = commit_log.claim(self._files, stream)
        self._writer = self._state.number
        self._clean()

    @property
    def last_batch(self) -> int:
        """-1: none has been committed."""
        return self._state.batch

    def merged_schema(self, new: StructType) -> StructType:
        """The table's schema when rows of `new` have been added."""
        return new if self._state.schema is None else merged(self.path, self._schema(), new)

    def append(self, rows: DataFrame, batch: int, facts: Mapping[str, Any]) -> None:
        """Commits the rows as one batch. They have the columns of `merged_schema`."""
        staged = self.stage(rows, f"b{batch:012}")
        added = self.move_into_place(staged)
        schema = json.dumps(rows.schema.jsonValue())
        self.commit(Entry("batch", add=added, schema=None if schema == self._state.schema else schema, batch=batch, facts=facts))

    def stage(self, rows: DataFrame, label: str) -> dict[str, str]:
        """Writes the rows where no reader looks. Returns the place that each staged file will have in the table."""
        folder = f"{STAGING}/{label}"
        self._files.delete(folder)
        rows.write.partitionBy(*self._partition_columns).parquet(self._files.full(folder))
        staged = [status.path for status in self._files.below(folder) if status.path.endswith(".parquet")]
        places = {}
        for number, path in enumerate(staged):
            inside = path.removeprefix(f"{folder}/").rpartition("/")[0]
            name = f"{label}-w{self._writer:06}-{number:05}.parquet"
            places[path] = f"{inside}/{name}" if inside else name
        return places

    def move_into_place(self, staged: Mapping[str, str]) -> tuple[DataFile, ...]:
        """Readers of the plain folder see these files now, `read_table` only after the commit."""
        sizes = {status.path: status.size_bytes for status in self._files.below(STAGING)}
        for path, place in staged.items():
            self._files.move(path, place)
        self._files.delete(STAGING)
        return tuple(DataFile(place, sizes[path]) for path, place in staged.items())

    def commit(self, entry: Entry) -> None:
        """The moment at which the entry counts. Raises PipelineError if another process writes the table."""
        committed = commit_log.append(self._files, self._state, entry)
        if committed is None:
            raise PipelineError(
                f"another process has begun to write {self.path}; this one stops, and committed nothing of its batch"
            )
        self._state = committed

    def remove_files(self, paths: Sequence[str]) -> None:
        """Deletes files that no entry needs any more."""
        for path in paths:
            self._files.delete(path)

    def compact(self, min_files: int, target_file_bytes: int) -> int:
        """Rewrites small files of each folder that has at least `min_files` of them. Returns the number of files replaced."""
        replaced = 0
        for small in self._small_files(target_file_bytes):
            if len(small) < min_files:
                continue
            size = sum(self._state.files[path] for path in small)
            rows = read_parquet(self._spark, self._files, self._state, small).coalesce(max(1, round(size / target_file_bytes)))
            order = [name for name in ("partition", "offset") if name in rows.columns]
            staged = self.stage(rows.sortWithinPartitions(*order), f"c{self._state.number + 1:012}")
            added = self.move_into_place(staged)
            self.commit(Entry("compaction", add=added, remove=tuple(small)))
            self.remove_files(small)
            replaced += len(small)
        return replaced

    def expire(self, before: str) -> int:
        """Drops whole dates before that day, `YYYY-MM-DD`. Returns the number of files dropped."""
        expired = [path for path in self._state.files if (date := _date_of(path)) is not None and date < before]
        if expired:
            self.commit(Entry("retention", remove=tuple(expired), facts={"expired_before": before}))
            self.remove_files(expired)
        return len(expired)

    def _small_files(self, target_file_bytes: int) -> list[list[str]]:
        by_folder: dict[str, list[str]] = {}
        for path, size in self._state.files.items():
            if size < target_file_bytes // 2:
                by_folder.setdefault(path.rpartition("/")[0], []).append(path)
        return list(by_folder.values())

    def _schema(self) -> StructType:
        assert self._state.schema is not None
        return StructType.fromJson(json.loads(self._state.schema))

    def _refuse_other(self, state: State, stream: str) -> None:
        if state.stream not in (None, stream):
            raise PipelineError(
                f"{self.path} belongs to the stream {state.stream}, and this checkpoint to {stream}: "
                "give the job its own checkpoint again, or another path"
            )
        if state.number < 0 and (found := self._files.below("")):
            raise PipelineError(
                f"{self.path} holds files that no job of the pipeline has committed, e.g. {found[0].path}: "
                "give the job an empty path, or remove what a half-written table has left"
            )

    def _clean(self) -> None:
        """Removes what a crash has left, and makes sure that all committed files are there."""
        self._files.delete(STAGING)
        present = {status.path for status in self._files.below("") if not status.path.startswith(("_penstock/", "."))}
        missing = sorted(self._state.files.keys() - present)
        if missing:
            raise PipelineError(
                f"{self.path} is half a table: its log names {missing[0]}, which is gone"
                + (f", as are {len(missing) - 1} other files" if len(missing) > 1 else "")
            )
        self.remove_files(sorted(path for path in present - self._state.files.keys() if path.endswith(".parquet")))


def _date_of(path: str) -> str | None:
    for part in path.split("/"):
        if part.startswith(_DATE):
            return part.removeprefix(_DATE)
    return None
