"""Transform jobs: a query over views of topics, whose batches are epochs of the sink."""

import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from pyspark.sql import DataFrame, SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.job_file.transform import InputView, TransformJob
from services.pipeline.jobs.failures import refused_by_spark
from services.pipeline.jobs.losses import LossCheck, claim_checkpoint
from services.pipeline.jobs.running import Environment, RunningStream, start_query
from services.pipeline.jobs.topic_streams import announced, unless_a_timestamp_overflows
from services.pipeline.sink.options import read_options
from services.pipeline.sink.schema import check_columns
from services.pipeline.sink.task_identity import QUERY_ID
from services.pipeline.sink.writing import EpochWriter
from services.pipeline.spark.admin import KafkaAdmin
from services.pipeline.spark.checkpoint import Checkpoint
from services.pipeline.spark.cluster import ClusterSettings, Topics
from services.pipeline.spark.jvm import jvm
from services.pipeline.spark.kafka_source import read_stream, source_options
from services.pipeline.transforms.by_key import in_tasks_by_key, task_count


def start_transform(job: TransformJob, environment: Environment) -> RunningStream:
    """Raises PipelineError for a query that Spark refuses, columns that the sink does not take, unknown topics, topics that were
    made anew, and a checkpoint of another job."""
    cluster = environment.cluster
    spark = environment.spark.newSession()  # views of jobs may have the same names
    rows = query_rows(spark, job, cluster)
    refuse_output_mode(spark, job, rows)
    options = job.target.sink_options(cluster)
    with ExitStack() as unless_started:
        admin = unless_started.enter_context(KafkaAdmin(spark, cluster))
        checkpoint = _claimed_checkpoint(spark, job, admin)
        losses = LossCheck(admin, job.on_data_loss, job.name)
        observer = environment.telemetry.observe(spark, cluster, job.name, job.stream.group, checkpoint)
        unless_started.callback(observer.close)
        with refused_by_spark(f"jobs.{job.name}.query"):
            named = rows.writeStream.queryName(job.name).option("checkpointLocation", checkpoint.location)
            writer = named.outputMode(job.output_mode).trigger(**job.stream.trigger.arguments())
            write = announced(_checked_epochs(options, checkpoint, losses), checkpoint, job.name)
            query = start_query(writer.foreachBatch(write), job.name)
        unless_started.pop_all()
    return RunningStream(job.name, query, ends=job.stream.trigger.ends, observer=observer, at_end=admin.close)


def _checked_epochs(options: dict[str, str], checkpoint: Checkpoint, losses: LossCheck) -> Callable[[DataFrame, int], None]:
    """`epochs`, and a look before each at what the log still has. Raises PipelineError for topics that were made anew, lost
    offsets, and a record whose timestamp Spark cannot hold."""

    def has_lost_rows(batch: int) -> bool:
        wanted = checkpoint.ranges(batch)
        losses.refuse_made_anew(checkpoint, {topic for topic, _ in wanted})
        return bool(losses.lost(wanted))

    def refuse(batch: int) -> None:
        raise losses.beyond_spark(checkpoint.ranges(batch)) from None

    return unless_a_timestamp_overflows(epochs(options, has_lost_rows), refuse)


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


def _claimed_checkpoint(spark: SparkSession, job: TransformJob, admin: KafkaAdmin) -> Checkpoint:
    inputs = [view.topics for view in job.inputs.values()]
    for name, view in job.inputs.items():
        topics = view.topics
        if job.target.topic in admin.refuse_unknown(topics, f"jobs.{job.name}.inputs.{name}"):
            raise PipelineError(
                f"jobs.{job.name}.topic: {job.target.topic} fits the pattern {topics.pattern!r} of its inputs: "
                "it would read its own rows for ever, so choose another topic"
            )
    target = "topics of the rows" if job.target.topic is None else f"topic {job.target.topic}"
    return claim_checkpoint(spark, admin, topics_of_all(inputs), job.stream, job.name, target, job.on_data_loss)


def topics_of_all(inputs: Sequence[Topics]) -> Topics:
    names = tuple(dict.fromkeys(name for topics in inputs for name in topics.names))
    patterns = [f"(?:{topics.pattern})" for topics in inputs if topics.pattern is not None]
    return Topics(pattern="|".join([*patterns, *map(re.escape, names)])) if patterns else Topics(names)


def query_rows(spark: SparkSession, job: TransformJob, cluster: ClusterSettings) -> DataFrame:
    """The rows of the job's query. It asks no cluster. Raises PipelineError with the key that Spark or the sink refuses."""
    key = f"jobs.{job.name}"
    for name, view in job.inputs.items():
        _view(spark, view, job, cluster, f"{key}.inputs.{name}").createOrReplaceTempView(name)
    with refused_by_spark(f"{key}.query"):
        rows = spark.sql(job.query)
    if not rows.isStreaming:
        raise PipelineError(f"{key}.query: it reads none of its inputs: it must select from {' or '.join(job.inputs)}")
    options = job.target.sink_options(cluster)
    try:
        check_columns({field.name: field.dataType.simpleString() for field in rows.schema.fields}, read_options(options).topic)
    except PipelineError as error:
        raise PipelineError(f"{key}.query: {error}") from error
    return rows


def refuse_output_mode(spark: SparkSession, job: TransformJob, rows: DataFrame) -> None:
    """Raises PipelineError if Spark cannot write the query's rows in that mode, as it would say when the stream starts."""
    with refused_by_spark(f"jobs.{job.name}.output_mode"):
        java = jvm(spark)
        checker = getattr(getattr(java.org.apache.spark.sql.catalyst.analysis, "UnsupportedOperationChecker$"), "MODULE$")
        mode = getattr(java.org.apache.spark.sql.streaming.OutputMode, job.output_mode.title())()
        checker.checkForStreaming(rows._jdf.queryExecution().analyzed(), mode)


def _view(spark: SparkSession, view: InputView, job: TransformJob, cluster: ClusterSettings, table: str) -> DataFrame:
    options = source_options(cluster, view.topics, fail_on_data_loss=job.on_data_loss == "stop")
    with refused_by_spark("cluster.options"):
        records = read_stream(
            spark, options, starting_offsets=job.starting_offsets, max_offsets_per_trigger=job.stream.max_offsets_per_trigger
        )
    rows = _selected(records, view.select, f"{table}.select")
    if view.watermark is None:
        return rows
    with refused_by_spark(f"{table}.watermark"):
        return rows.withWatermark(view.watermark.column, view.watermark.delay)


def _selected(records: DataFrame, select: Sequence[str], key: str) -> DataFrame:
    """The columns of these expressions. A refusal names the first that is wrong; it may use columns of those before it."""
    for number in range(1, len(select) + 1):
        with refused_by_spark(f"{key}[{number - 1}]"):
            rows = records.selectExpr(*select[:number])
    return rows
