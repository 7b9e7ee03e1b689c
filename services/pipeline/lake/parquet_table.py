"""A Parquet table that appends whole batches, once each, through crashes at any step.

A batch is written into a staging folder, moved into place, and committed by one entry of the log. The names of the folder and of
the files hold the number of the writer's claim, so no other writer uses them. What no entry names is a leftover; a later writer
removes it.
"""

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from services.pipeline.errors import PipelineError
from services.pipeline.lake import commit_log
from services.pipeline.lake.commit_log import DataFile, Entry
from services.pipeline.lake.schemas import merged
from services.pipeline.lake.table import DELTA_LOG, read_parquet
from services.pipeline.spark.files import Files

STAGING = "_penstock/staging"
_DATE = "date="
_MARK = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "true"}
"""Spark then writes `_SUCCESS` when all files of a write are there."""
_OTHER_LOG = re.compile(rf"/({commit_log.LOG}|{DELTA_LOG})/")
_WRITER = re.compile(r"-w(\d+)-\d+\.parquet$")


class ParquetTable:
    """The only writer of one table. `stream` is the id of the streaming query that owns it.

    Raises PipelineError if the table belongs to another stream, lacks files that its log names, or has another table inside.
    """

    def __init__(self, spark: SparkSession, path: str, stream: str, partition_columns: Sequence[str]) -> None:
        self._spark = spark
        self.path = path
        self._partition_columns = partition_columns
        self._files = Files(spark, path)
        if self._files.exists(DELTA_LOG):
            raise PipelineError(f"{path} is a Delta table; the job wants to write Parquet: give it another path")
        self._refuse_files_of_nobody()
        self._state = commit_log.claim(self._files, stream)
        self._writer = self._state.number
        self._staging = f"{STAGING}/w{self._writer:06}"
        self._refuse_half_a_table()

    @property
    def last_batch(self) -> int:
        """-1: none has been committed."""
        return self._state.batch

    def merged_schema(self, new: StructType) -> StructType:
        """The table's schema when rows of `new` have been added."""
        return new if self._state.schema is None else merged(self.path, self._schema(), new)

    def append(self, rows: DataFrame, batch: int, facts: Mapping[str, Any]) -> None:
        """Commits the rows as one batch. Columns that only the table has are null in them."""
        schema = json.dumps(self.merged_schema(rows.schema).jsonValue())
        staged = self.stage(rows, f"b{batch:012}")
        added = self.move_into_place(staged)
        self.commit(Entry("batch", add=added, schema=None if schema == self._state.schema else schema, batch=batch, facts=facts))

    def stage(self, rows: DataFrame, label: str) -> dict[str, str]:
        """Writes the rows where no reader looks. Returns the place that each staged file will have in the table."""
        folder = f"{self._staging}/{label}"
        self._files.delete(folder)
        rows.write.options(**_MARK).partitionBy(*self._partition_columns).parquet(self._files.full(folder))
        if not self._files.exists(f"{folder}/_SUCCESS"):
            raise self._other_writer()
        staged = [status.path for status in self._files.below(folder) if status.path.endswith(".parquet")]
        places = {}
        for number, path in enumerate(staged):
            inside = path.removeprefix(f"{folder}/").rpartition("/")[0]
            name = f"{label}-w{self._writer:06}-{number:05}.parquet"
            places[path] = f"{inside}/{name}" if inside else name
        return places

    def move_into_place(self, staged: Mapping[str, str]) -> tuple[DataFile, ...]:
        """Readers of the plain folder see these files now, `read_table` only after the commit."""
        sizes = {status.path: status.size_bytes for status in self._files.below(self._staging)}
        if not staged.keys() <= sizes.keys():
            raise self._other_writer()
        for path, place in staged.items():
            self._files.move(path, place)
        self._files.delete(self._staging)
        return tuple(DataFile(place, sizes[path]) for path, place in staged.items())

    def commit(self, entry: Entry) -> None:
        """The moment at which the entry counts. Raises PipelineError if another process writes the table."""
        committed = commit_log.append(self._files, self._state, replace(entry, time_s=time.time()))
        if committed is None:
            raise self._other_writer()
        self._state = committed

    def remove_leftovers(self) -> None:
        """Removes what earlier writers have staged, or moved into place, and did not commit."""
        older = [name for name in self._files.names(STAGING) if -1 < _writer_of_staging(name) < self._writer]
        known = self._state.files.keys() | self._state.removed.keys()
        left = [path for path in sorted(self._present().keys() - known) if -1 < _writer_of(path) < self._writer]
        self.remove_files([*(f"{STAGING}/{name}" for name in older), *left])

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
            replaced += len(small)
        return replaced

    def expire(self, before: str) -> int:
        """Drops whole dates before that day, `YYYY-MM-DD`. Returns the number of files dropped."""
        expired = [path for path in self._state.files if (date := _date_of(path)) is not None and _is_before(date, before)]
        if expired:
            self.commit(Entry("retention", remove=tuple(expired), facts={"expired_before": before}))
        return len(expired)

    def delete_removed(self, keep_s: float) -> int:
        """Deletes files that compaction or retention removed that long ago; readers may have needed them. Returns how many."""
        before_s = time.time() - keep_s
        due = tuple(path for path, removed_s in self._state.removed.items() if removed_s <= before_s)
        if due:
            self.remove_files(due)
            self.commit(Entry("cleanup", deleted=due))
        return len(due)

    def _small_files(self, target_file_bytes: int) -> list[list[str]]:
        by_folder: dict[str, list[str]] = {}
        for path, size in self._state.files.items():
            if size < target_file_bytes // 2:
                by_folder.setdefault(path.rpartition("/")[0], []).append(path)
        return list(by_folder.values())

    def _schema(self) -> StructType:
        assert self._state.schema is not None
        return StructType.fromJson(json.loads(self._state.schema))

    def _refuse_files_of_nobody(self) -> None:
        """A crash during the very first claim leaves a folder without entries, which is as good as none."""
        if commit_log.read_state(self._files).number < 0 and (found := sorted(self._present())):
            raise PipelineError(
                f"{self.path} holds files that no job of the pipeline has committed, e.g. {found[0]}: "
                "give the job an empty path, or remove what a half-written table has left"
            )

    def _refuse_half_a_table(self) -> None:
        present = self._present()
        if inner := next((path for path in sorted(present) if _OTHER_LOG.search(path)), None):
            raise PipelineError(f"{self.path} has another table inside, with {inner}: move that one away")
        if damage := commit_log.damage(self._state, present):
            if commit_log.read_state(self._files).number != self._state.number:
                raise self._other_writer()  # it may have removed them
            raise PipelineError(f"{self.path} {damage}")

    def _present(self) -> dict[str, int]:
        """The sizes of all files but our own, by path."""
        return {each.path: each.size_bytes for each in self._files.below("") if not each.path.startswith(("_penstock/", "."))}

    def _other_writer(self) -> PipelineError:
        return PipelineError(
            f"another process has begun to write {self.path}; this one stops, and committed nothing of its batch"
        )


def _writer_of(path: str) -> int:
    """The claim of the writer that made a data file; -1: no job of the pipeline made it."""
    found = _WRITER.search(path)
    return int(found[1]) if found else -1


def _writer_of_staging(name: str) -> int:
    """The claim of the writer of that folder; -1: no job of the pipeline made it."""
    number = name.removeprefix("w")
    return int(number) if number.isdecimal() else -1


def _is_before(date: str, other: str) -> bool:
    """`other`: of a year with four digits. Spark writes a sign before other years."""
    return date.startswith("-") or (not date.startswith("+") and date < other)


def _date_of(path: str) -> str | None:
    for part in path.split("/"):
        if part.startswith(_DATE):
            return part.removeprefix(_DATE)
    return None
