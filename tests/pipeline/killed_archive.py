"""An archive job whose driver is killed at one step after another, and what readers see after each death."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.lake.table import read_table
from tests.pipeline.driver_process import run_to_the_end, run_until_killed, run_while_executors_are_killed
from tests.pipeline.jobs_in_process import job_file
from tests.pipeline.topics import DAY_MS, FIRST_DAY_MS, Record, make_topic, produce

RECORDS, BATCH = 240, 20
BROKEN_EVERY = 10
"""Each batch has values that do not parse, so each has dead letters."""
SECOND_DAY_MS = FIRST_DAY_MS + 30 * DAY_MS
LATE = Record(0, b"late", b'{"n": 7}', SECOND_DAY_MS)


def records() -> list[Record]:
    """Of two partitions and two dates."""
    return [
        Record(
            number % 2,
            b"key-%d" % number,
            b"broken %d" % number if number % BROKEN_EVERY == 0 else b'{"n": %d}' % number,
            (FIRST_DAY_MS, SECOND_DAY_MS)[number // 2 % 2] + number,
        )
        for number in range(RECORDS)
    ]


class KilledArchive:
    """The job `a` of a topic that it makes, and its audit `check`, in one job file."""

    def __init__(
        self,
        spark: SparkSession,
        bootstrap: str,
        topic: str,
        directory: Path,
        table_format: str,
        *,
        spark_table: str = "",
        batch: int = BATCH,
    ) -> None:
        """`spark_table`: the table `[spark]` of the job file, as text. `batch`: offsets of a batch."""
        self._spark = spark
        self._bootstrap = bootstrap
        self._topic = topic
        self._format = table_format
        self._spark_table = spark_table
        self._batch = batch
        self._file = directory / "jobs.toml"
        self._committed = 0
        self.directory = directory
        self.table = directory / "a"
        make_topic(bootstrap, topic)
        produce(bootstrap, topic, records())
        self.configure("")

    def configure(self, options: str) -> None:
        """More keys of the archive."""
        archive = (
            f'[jobs.a]\nkind = "archive"\ntopics = ["{self._topic}"]\nformat = "{self._format}"\n'
            f"max_offsets_per_trigger = {self._batch}\ncompaction.min_files = 4\nkeep_removed_minutes = 0\n"
            f'schema = {{ format = "json", ddl = "n INT" }}\n{options}\n'
        )
        audit = (
            f'[jobs.check]\nkind = "audit"\narchive = "a"\ntopics = ["{self._topic}"]\n'
            f'bucket_offsets = 100\nreport = "{self.directory}/report"\n'
        )
        self._file.write_text(job_file(self._bootstrap, self.directory, self._spark_table + archive + audit), encoding="utf-8")

    def die_at(self, steps: Iterable[str]) -> None:
        """After each death, readers see whole batches, each record once, and nothing that they saw before is gone."""
        for step in steps:
            run_until_killed(self._file, step, "a")
            rows = offsets_by_partition(self._spark, self.table)
            assert all(offsets == list(range(len(offsets))) for offsets in rows.values()), step
            count = sum(map(len, rows.values()))
            assert count >= self._committed, step
            assert count % self._batch == 0, step
            self._committed = count

    def drop_first_day_and_die_at(self, steps: Iterable[str]) -> None:
        """The table is whole before. After each death, the first date is there as a whole, or not at all."""
        second_day = datetime.fromtimestamp(SECOND_DAY_MS / 1000, UTC)
        self.configure(f"retention_days = {(datetime.now(UTC) - second_day).days + 2}")
        produce(self._bootstrap, self._topic, [LATE])
        for step in steps:
            run_until_killed(self._file, step, "a")
            rows = read_table(self._spark, str(self.table)).groupBy("date").count().orderBy("date").collect()
            counts = [row["count"] for row in rows]
            assert counts in ([RECORDS // 2, RECORDS // 2 + 1], [RECORDS // 2 + 1]), step

    def end(self) -> None:
        """Runs both jobs to their end: the audit agrees."""
        run_to_the_end(self._file)

    def end_while_executors_are_killed(self, steps: Sequence[str]) -> None:
        """Runs the archive to its end, with one driver for all of the steps."""
        run_while_executors_are_killed(self._file, steps, "a")

    def values(self) -> list[tuple[bytes, int | None]]:
        """The value of each row, and what was parsed from it."""
        rows = read_table(self._spark, str(self.table)).select("value", "parsed.n").collect()
        return sorted((bytes(row.value), row.n) for row in rows)

    def dead_letters(self) -> list[bytes]:
        rows = read_table(self._spark, f"{self.table}_dead_letters").select("value").collect()
        return sorted(bytes(row.value) for row in rows)


def expected_values(wanted: Iterable[Record]) -> list[tuple[bytes, int | None]]:
    values = [record.value or b"" for record in wanted]
    return sorted((value, int(value[6:-1]) if value.startswith(b"{") else None) for value in values)


def broken_values(wanted: Iterable[Record]) -> list[bytes]:
    return sorted(value for record in wanted if (value := record.value or b"").startswith(b"broken"))


def offsets_by_partition(spark: SparkSession, path: Path) -> dict[int, list[int]]:
    """Offsets in order, duplicates included; none before the first batch."""
    try:
        rows = read_table(spark, str(path)).select("partition", "offset").orderBy("offset").collect()
    except PipelineError:
        return {}
    found: dict[int, list[int]] = {}
    for row in rows:
        found.setdefault(row.partition, []).append(row.offset)
    return found
