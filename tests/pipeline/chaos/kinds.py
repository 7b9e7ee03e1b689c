"""The kinds of jobs that are killed. Each knows how to make its input, its job file, and what must come out."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

from libs.wire.record_batches.records import Record
from tests.pipeline.chaos.job_runs import Kill
from tests.pipeline.sink.topics import PlacedRecord, fill_topic, read_topic
from tests.pipeline.topics import make_topic

PARTITIONS = 3
ROWS = 600
FIRST_MS = 1_795_000_000_000


@dataclass(frozen=True)
class Environment:
    bootstrap: str
    directory: Path
    name: str
    """Of this run; topics get names from it."""
    master: str = "local[2,4]"
    batches: int = 3
    """Micro-batches, or chunks, that the rows are dealt out to."""
    spark_config: Mapping[str, str] = field(default_factory=dict)
    """More settings of Spark."""


@dataclass(frozen=True)
class Prepared:
    """`check` raises AssertionError unless the output equals the input exactly."""

    job_file: Path
    check: Callable[[], None]


@dataclass(frozen=True)
class Kind:
    prepare: Callable[[Environment], Prepared]
    kills: Sequence[Kill]


TASK_STEPS = ("before InitProducerId", "after InitProducerId", "after produce", "before commit", "after commit")
DRIVER_STEPS = ("before the epoch", "before tasks", "after tasks")
SINK_KILLS = (
    *(Kill("task", step) for step in TASK_STEPS),
    *(Kill("driver", step, 1) for step in DRIVER_STEPS),
    *(Kill("driver", step, 1) for step in TASK_STEPS),
)
"""The second time that a driver reaches `before the epoch`, Spark has committed the first batch to its checkpoint."""
CHAIN = (
    *(Kill("task", step) for step in TASK_STEPS),
    *(Kill("driver", step, 1) for step in (*DRIVER_STEPS, "after produce", "after commit")),
)
"""Ten kills, one after another, of one job with one checkpoint."""
CHAIN_MASTER, CHAIN_BATCHES = "local[2,8]", 8
"""A task may die five times; each driver gets to a batch that it can die in."""
SPARK_CONFIG = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.task.maxFailures": "8",
}


def records(count: int = ROWS) -> list[Record]:
    return [
        Record(f"key-{n % 50}".encode(), b"%d" % n, FIRST_MS + n, (("traceparent", b"00-%032x-%016x-01" % (n, n)),) * (n % 2))
        for n in range(count)
    ]


def job_file(around: Environment, jobs: str) -> Path:
    file = around.directory / "jobs.toml"
    config = "\n".join(f'"{key}" = "{value}"' for key, value in {**SPARK_CONFIG, **around.spark_config}.items())
    file.write_text(
        f"""
[cluster]
bootstrap_servers = "{around.bootstrap}"
[spark]
master = "{around.master}"
[spark.config]
{config}
[lake]
path = "{around.directory}/lake"
{jobs}
""",
        encoding="utf-8",
    )
    return file


def prepare_transform(around: Environment) -> Prepared:
    source, target = f"{around.name}-in", f"{around.name}-out"
    rows = records()
    make_topic(around.bootstrap, source, PARTITIONS)
    make_topic(around.bootstrap, target, PARTITIONS)
    fill_topic(around.bootstrap, source, rows)
    file = job_file(
        around,
        f"""
[jobs.copy]
kind = "transform"
query = "SELECT key, concat('<', CAST(value AS STRING), '>') AS value, headers, timestamp FROM records"
topic = "{target}"
max_offsets_per_trigger = {ROWS // around.batches}
[jobs.copy.inputs.records]
topics = ["{source}"]
""",
    )
    expected = [row._replace(value=b"<%b>" % row.value) for row in rows if row.value is not None]
    return Prepared(file, lambda: check_rows(around, target, expected))


def prepare_replay(around: Environment) -> Prepared:
    """The lake's table is one that the driver of the test writes, with the archive's columns."""
    from tests.pipeline.chaos.lake_table import write_table

    target = f"{around.name}-out"
    rows = records()
    make_topic(around.bootstrap, target, PARTITIONS)
    table = around.directory / "lake" / "records"
    write_table(table, [(f"{around.name}-in", *place, row) for place, row in zip(places(rows), rows, strict=True)])
    file = job_file(
        around,
        f"""
[jobs.again]
kind = "replay"
table = "{table}"
topic = "{target}"
chunk_rows = {ROWS // around.batches}
partition = "as it was"
slice.where = "CAST(CAST(value AS STRING) AS INT) >= 30"
""",
    )
    return Prepared(file, lambda: check_rows(around, target, rows[30:]))


def places(rows: Sequence[Record]) -> Iterator[tuple[int, int]]:
    """The partition and offset of each, as in a topic: all rows of a key are in one partition."""
    ends = [0] * PARTITIONS
    for row in rows:
        partition = crc32(row.key or b"") % PARTITIONS
        yield partition, ends[partition]
        ends[partition] += 1


def check_rows(around: Environment, topic: str, expected: Sequence[Record]) -> None:
    """The same rows once each, and the rows of a key in their order."""
    read = read_topic(around.bootstrap, topic)
    assert sorted(map(_content, read)) == sorted(map(_content, expected))
    assert _by_key(read) == _by_key(expected)


def _content(record: Record | PlacedRecord) -> tuple[object, ...]:
    return record.key or b"", record.value or b"", record.timestamp, record.headers


def _by_key(rows: Sequence[Record | PlacedRecord]) -> dict[bytes | None, list[bytes | None]]:
    ordered: dict[bytes | None, list[bytes | None]] = {}
    for row in rows:
        ordered.setdefault(row.key, []).append(row.value)
    return ordered


KINDS: Mapping[str, Kind] = {
    "transform": Kind(prepare_transform, SINK_KILLS),
    "replay": Kind(prepare_replay, SINK_KILLS),
}
