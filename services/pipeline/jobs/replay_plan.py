"""The plan of a replay: which offsets of which partitions each chunk has. It is written once, and later runs follow it."""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from services.pipeline.errors import PipelineError
from services.pipeline.job_file.replay import LakeSlice, ReplayJob, slice_facts
from services.pipeline.jobs.failures import refused_by_spark
from services.pipeline.spark.files import Files

FILE = "replay.json"
PLACE = ("topic", "partition")


@dataclass(frozen=True)
class OffsetRange:
    """Offsets of one partition, both ends included, and how many rows of the slice lie there."""

    topic: str
    partition: int
    first: int
    last: int
    rows: int


@dataclass(frozen=True)
class ReplayPlan:
    """`chunks`: each is an epoch of the sink. `tasks`: of each chunk."""

    plan_id: str
    tasks: int
    chunks: tuple[tuple[OffsetRange, ...], ...]


def plan_of(job: ReplayJob, files: Files, rows: DataFrame) -> ReplayPlan:
    """The plan in the checkpoint, or a new one.

    Raises PipelineError for the checkpoint of another replay, a damaged plan, and a slice that fails on a row, say by a cast.
    """
    facts = _facts(job)
    if not files.exists(FILE):
        with refused_by_spark(where_key(job.name)):
            chunks_of_rows = _chunks(job, rows)
        first = {"job": facts, "plan_id": str(uuid.uuid4()), "tasks": job.tasks, "chunks": chunks_of_rows}
        files.create(FILE, json.dumps(first))
    try:
        found = json.loads(files.read(FILE))
        planned: Mapping[str, Any] = dict(found["job"])
        chunks = tuple(tuple(OffsetRange(*part) for part in chunk) for chunk in found["chunks"])
        plan = ReplayPlan(str(found["plan_id"]), int(found["tasks"]), chunks)
    except (ValueError, TypeError, KeyError):
        raise damaged(job, files.full(FILE)) from None
    for name, value in facts.items():
        if planned.get(name) != value:
            raise PipelineError(
                f"jobs.{job.name}: the checkpoint {job.checkpoint} is of another replay: its {name} is {planned.get(name)!r}, "
                f"not {value!r}; give this one a checkpoint of its own"
            )
    return plan


def damaged(job: ReplayJob, path: str) -> PipelineError:
    return PipelineError(
        f"jobs.{job.name}: {path} is damaged: it is not what a replay wrote there; put it back, or give the job "
        "a new checkpoint, with which it writes all of its rows again"
    )


def slice_of(rows: DataFrame, wanted: LakeSlice, name: str) -> DataFrame:
    """The rows that the job names. Raises PipelineError for a predicate that Spark refuses."""
    conditions: list[Column] = []
    if wanted.topics:
        conditions.append(F.col("topic").isin(*wanted.topics))
    if wanted.since is not None:
        conditions.append(F.col("timestamp") >= F.lit(wanted.since))
    if wanted.until is not None:
        conditions.append(F.col("timestamp") < F.lit(wanted.until))
    if wanted.since_offset is not None:
        conditions.append(F.col("offset") >= wanted.since_offset)
    if wanted.until_offset is not None:
        conditions.append(F.col("offset") < wanted.until_offset)
    if wanted.keys:
        conditions.append(F.col("key").isin(*(key.encode() for key in wanted.keys)))
    for condition in conditions:
        rows = rows.where(condition)
    with refused_by_spark(where_key(name)):
        return rows.where(wanted.where) if wanted.where else rows


def where_key(job: str) -> str:
    return f"jobs.{job}.slice.where"


def rows_of_chunk(rows: DataFrame, chunk: tuple[OffsetRange, ...], tasks: int) -> DataFrame:
    """In the order of each partition; all rows of a partition are in one task."""
    return _inside(rows, chunk).repartition(tasks, *PLACE).sortWithinPartitions(*PLACE, "offset")


def changed_parts(rows: DataFrame, chunk: tuple[OffsetRange, ...]) -> list[tuple[OffsetRange, int]]:
    """Those parts of a chunk that have more or fewer rows than planned, and how many."""
    counted = {tuple(found)[:2]: found["count"] for found in _inside(rows, chunk).groupBy(*PLACE).count().collect()}
    found = [(part, counted.get((part.topic, part.partition), 0)) for part in chunk]
    return [(part, count) for part, count in found if count != part.rows]


def _inside(rows: DataFrame, chunk: tuple[OffsetRange, ...]) -> DataFrame:
    inside = F.lit(False)
    for part in chunk:
        of_partition = (F.col("topic") == part.topic) & (F.col("partition") == part.partition)
        inside = inside | (of_partition & F.col("offset").between(part.first, part.last))
    return rows.where(inside)


def _facts(job: ReplayJob) -> Mapping[str, Any]:
    facts: Mapping[str, Any] = json.loads(
        json.dumps(
            {
                "table": job.table,
                "slice": slice_facts(job.rows),
                "topic": job.target.topic,
                "keeps_partitions": job.keeps_partitions,
            }
        )
    )
    return facts


def _chunks(job: ReplayJob, rows: DataFrame) -> list[list[tuple[Any, ...]]]:
    """Each partition gives every chunk the same number of rows, until it has no more."""
    partitions = rows.select(*PLACE).distinct().count()
    share = max(1, job.chunk_rows // max(1, partitions))
    numbered = rows.select(*PLACE, "offset", F.row_number().over(Window.partitionBy(*PLACE).orderBy("offset")).alias("row"))
    chunk = F.floor((F.col("row") - 1) / share).alias("chunk")
    ranges = numbered.groupBy(*PLACE, chunk).agg(
        F.min("offset").alias("first"), F.max("offset").alias("last"), F.count("*").alias("rows")
    )
    chunks: dict[int, list[tuple[Any, ...]]] = {}
    for found in ranges.orderBy("chunk", *PLACE).collect():
        chunks.setdefault(found.chunk, []).append((found.topic, found.partition, found.first, found.last, found.rows))
    return [chunks[number] for number in sorted(chunks)]
