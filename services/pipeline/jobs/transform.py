"""Transform jobs: a query over views of topics, whose batches are epochs of the sink."""

import re
from collections.abc import Callable, Sequence

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.job_file.transform import InputView, TransformJob
from services.pipeline.jobs.losses import LossCheck, claim_checkpoint
from services.pipeline.jobs.running import RunningStream, Surroundings
from services.pipeline.sink.options import read_options
from services.pipeline.sink.schema import check_columns
from services.pipeline.sink.task_identity import QUERY_ID
from services.pipeline.sink.writing import EpochWriter
from services.pipeline.spark.admin import KafkaAdmin
from services.pipeline.spark.checkpoint import Checkpoint
from services.pipeline.spark.cluster import ClusterSettings, Topics
from services.pipeline.spark.kafka_source import read_stream, source_options
from services.pipeline.transforms.by_key import in_tasks_by_key, task_count


def start_transform(job: TransformJob, surroundings: Surroundings) -> RunningStream:
    """Raises PipelineError for a query that Spark refuses, columns that the sink does not take, unknown topics, topics that were
    made anew, and a checkpoint of another job."""
    cluster = surroundings.cluster
    spark = surroundings.spark.newSession()  # views of jobs may have the same names
    rows = _query(spark, job, cluster)
    options = job.target.sink_options(cluster.bootstrap_servers, cluster.options)
    check_columns({field.name: field.dataType.simpleString() for field in rows.schema.fields}, read_options(options).topic)
    checkpoint = _claimed_checkpoint(spark, job, cluster)
    losses = LossCheck(spark, cluster, job.on_data_loss, job.name)

    def has_lost_rows(batch: int) -> bool:
        wanted = checkpoint.ranges(batch)
        losses.refuse_made_anew(checkpoint, {topic for topic, _ in wanted})
        return bool(losses.lost(wanted))

    writer = rows.writeStream.queryName(job.name).option("checkpointLocation", job.stream.checkpoint).outputMode(job.output_mode)
    observer = surroundings.telemetry.observe(spark, cluster, job.name, job.stream.group, checkpoint)
    try:
        query = writer.foreachBatch(epochs(options, has_lost_rows)).trigger(**job.stream.trigger.arguments()).start()
    except AnalysisException as error:
        observer.close()
        losses.close()
        raise PipelineError(f"{job.name}: {_first_line(error)}") from error
    return RunningStream(job.name, query, ends=job.stream.trigger.ends, observer=observer, at_end=losses.close)


def epochs(options: dict[str, str], has_lost_rows: Callable[[int], bool] = lambda _: False) -> Callable[[DataFrame, int], None]:
    """For `foreachBatch`: each batch is the epoch of its number. The query's id, which its checkpoint keeps, is the sink's.

    Spark's Kafka source numbers the tasks of a batch in another order when a new driver repeats it, and makes fewer of them when
    the log has lost a partition's offsets.
    """
    sink_id = read_options(options).sink_id

    def write(frame: DataFrame, batch_id: int) -> None:
        query_id = frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        assert query_id is not None
        write_epoch = EpochWriter(options, sink_id or query_id, query_id)
        lost = has_lost_rows(batch_id)
        tasks = (write_epoch.begun_with(batch_id) if lost else None) or task_count(frame)
        write_epoch(in_tasks_by_key(frame, tasks), batch_id, tasks=tasks, rows_are_gone=lost)

    return write


def _claimed_checkpoint(spark: SparkSession, job: TransformJob, cluster: ClusterSettings) -> Checkpoint:
    inputs = [view.topics for view in job.inputs.values()]
    with KafkaAdmin(spark, cluster) as admin:
        for topics in inputs:
            admin.refuse_unknown(topics)
    target = "topics of the rows" if job.target.topic is None else f"topic {job.target.topic}"
    return claim_checkpoint(spark, cluster, topics_of_all(inputs), job.stream, job.name, target, job.on_data_loss)


def topics_of_all(inputs: Sequence[Topics]) -> Topics:
    names = tuple(dict.fromkeys(name for topics in inputs for name in topics.names))
    patterns = [f"(?:{topics.pattern})" for topics in inputs if topics.pattern is not None]
    return Topics(pattern="|".join([*patterns, *map(re.escape, names)])) if patterns else Topics(names)


def _query(spark: SparkSession, job: TransformJob, cluster: ClusterSettings) -> DataFrame:
    try:
        for name, view in job.inputs.items():
            _view(spark, view, job, cluster).createOrReplaceTempView(name)
        return spark.sql(job.query)
    except (AnalysisException, ParseException) as error:
        raise PipelineError(f"{job.name}: Spark refuses the query: {_first_line(error)}") from error


def _view(spark: SparkSession, view: InputView, job: TransformJob, cluster: ClusterSettings) -> DataFrame:
    options = source_options(cluster, view.topics, fail_on_data_loss=job.on_data_loss == "stop")
    records = read_stream(
        spark, options, starting_offsets=job.starting_offsets, max_offsets_per_trigger=job.stream.max_offsets_per_trigger
    )
    rows = records.selectExpr(*view.select)
    return rows if view.watermark is None else rows.withWatermark(view.watermark.column, view.watermark.delay)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
