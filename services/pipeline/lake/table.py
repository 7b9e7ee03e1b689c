"""Tables of the lake for those who read them."""

import json
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from services.pipeline.errors import PipelineError
from services.pipeline.lake import commit_log
from services.pipeline.spark.files import Files
from services.pipeline.spark.jvm import jvm

DELTA_LOG = "_delta_log"


def table_format(spark: SparkSession, path: str) -> str | None:
    """`delta` or `parquet`; None if no job has made a table there."""
    files = Files(spark, path)
    if files.has_any(DELTA_LOG, (".json", ".parquet")):  # a crash may leave the folder before its first entry
        return "delta"
    return "parquet" if files.has_any(commit_log.LOG, (".json",)) else None


def read_table(spark: SparkSession, path: str) -> DataFrame:
    """The rows of all committed batches, once each. Raises PipelineError if there is no table."""
    found = table_format(spark, path)
    if found is None:
        raise PipelineError(f"{path} holds no table of the lake: it has entries neither in {DELTA_LOG} nor in {commit_log.LOG}")
    files = Files(spark, path)
    if found == "delta":
        return spark.read.format("delta").load(files.folder)
    return read_parquet(spark, files, commit_log.read_state(files))


def refuse_table_around(spark: SparkSession, path: str) -> None:
    """Raises PipelineError if the path lies inside a table, whose writer would take what is there for its own."""
    outer = Files(spark, path).folder.rpartition("/")[0]
    while outer and not outer.endswith((":", "/")):
        try:
            found = table_format(spark, outer)
        except Py4JJavaError:  # a folder that this user may not list
            return
        if found is not None:
            raise PipelineError(f"{path} lies inside the table {outer}: give the job another path")
        outer = outer.rpartition("/")[0]


def refuse_changed_files(spark: SparkSession, path: str) -> None:
    """Raises PipelineError if a Parquet table lacks files, or has some in another size. Spark takes an empty file for one without
    rows. It notices itself that a Delta table has such a file."""
    if table_format(spark, path) != "parquet":
        return
    files = Files(spark, path)
    state = commit_log.read_state(files)
    if damage := commit_log.damage(state, {each.path: each.size_bytes for each in files.below("")}):
        raise PipelineError(f"{path} {damage}")


def committed_batch(spark: SparkSession, path: str, stream: str) -> int:
    """The last batch of a stream that the table has; -1: none."""
    found = table_format(spark, path)
    if found is None:
        return -1
    files = Files(spark, path)
    if found == "parquet":
        state = commit_log.read_state(files)
        return state.batch if state.stream == stream else -1
    versions = delta_snapshot(spark, files.folder).transactions()
    return int(versions.get(stream).get()) if versions.contains(stream) else -1


def delta_snapshot(spark: SparkSession, location: str) -> Any:
    """Delta's snapshot of the table at that URI, as of now."""
    java = jvm(spark)
    module = getattr(getattr(java.org.apache.spark.sql.delta, "DeltaLog$"), "MODULE$")
    log = module.forTable(java.org.apache.spark.sql.classic.SparkSession.active(), location)
    return log.update(False, java.scala.Option.empty(), java.scala.Option.empty())


def read_parquet(spark: SparkSession, files: Files, state: commit_log.State, paths: list[str] | None = None) -> DataFrame:
    """Files of a Parquet table, all that are committed unless `paths` names them. Files of older schemas give nulls."""
    if state.schema is None:
        raise PipelineError(f"{files.folder} holds a table without any batch: the job that made it has not committed yet")
    schema = StructType.fromJson(json.loads(state.schema))
    chosen = [files.full(path) for path in (state.files if paths is None else paths)]
    if not chosen:
        return spark.createDataFrame([], schema)
    rows = spark.read.schema(schema).option("basePath", files.folder).parquet(*chosen)
    return rows.select(*schema.fieldNames())


def facts_of_commits(spark: SparkSession, path: str) -> Iterator[dict[str, Any]]:
    """What each commit says of itself, oldest first: `kind`, `batch`, and the facts of that kind (docs/pipeline/archive.md)."""
    files = Files(spark, path)
    if table_format(spark, path) == "delta":
        history = spark.sql(f"DESCRIBE HISTORY delta.`{files.folder}`").where("userMetadata IS NOT NULL").orderBy("version")
        for row in history.select("userMetadata").toLocalIterator():
            yield json.loads(row.userMetadata)
        return
    for _, entry in commit_log.read_entries(files):
        yield {"kind": entry.kind, "batch": entry.batch, **entry.facts}
