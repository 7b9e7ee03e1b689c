"""Transform jobs: a query over views of topics, whose batches are epochs of the sink."""

from collections.abc import Callable

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.job_file.transform import InputView, TransformJob
from services.pipeline.jobs.running import RunningStream, Surroundings
from services.pipeline.sink.options import read_options
from services.pipeline.sink.schema import check_columns
from services.pipeline.sink.task_identity import QUERY_ID
from services.pipeline.sink.writing import EpochWriter
from services.pipeline.spark.cluster import ClusterSettings
from services.pipeline.spark.kafka_source import read_stream, source_options
from services.pipeline.transforms.by_key import in_tasks_by_key


def start_transform(job: TransformJob, surroundings: Surroundings) -> RunningStream:
    """Raises PipelineError for a query that Spark refuses, and for columns that the sink does not take."""
    cluster = surroundings.cluster
    spark = surroundings.spark.newSession()  # views of jobs may have the same names
    rows = _query(spark, job, cluster)
    options = job.target.sink_options(cluster.bootstrap_servers, cluster.options)
    check_columns({field.name: field.dataType.simpleString() for field in rows.schema.fields}, read_options(options).topic)
    writer = rows.writeStream.queryName(job.name).option("checkpointLocation", job.stream.checkpoint).outputMode(job.output_mode)
    try:
        query = writer.foreachBatch(epochs(options)).trigger(**job.stream.trigger.arguments()).start()
    except AnalysisException as error:
        raise PipelineError(f"{job.name}: {_first_line(error)}") from error
    return RunningStream(job.name, query, ends=job.stream.trigger.ends)


def epochs(options: dict[str, str]) -> Callable[[DataFrame, int], None]:
    """For `foreachBatch`: each batch is the epoch of its number. The query's id, which its checkpoint keeps, is the sink's.

    Spark's Kafka source numbers the tasks of a batch in another order when a new driver repeats it.
    """

    def write(frame: DataFrame, batch_id: int) -> None:
        query_id = frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        assert query_id is not None
        EpochWriter(options, options.get("sink.id", query_id), query_id)(in_tasks_by_key(frame), batch_id)

    return write


def _query(spark: SparkSession, job: TransformJob, cluster: ClusterSettings) -> DataFrame:
    try:
        for name, view in job.inputs.items():
            _view(spark, view, job, cluster).createOrReplaceTempView(name)
        return spark.sql(job.query)
    except (AnalysisException, ParseException) as error:
        raise PipelineError(f"{job.name}: Spark refuses the query: {_first_line(error)}") from error


def _view(spark: SparkSession, view: InputView, job: TransformJob, cluster: ClusterSettings) -> DataFrame:
    options = source_options(cluster, view.topics)
    if job.stream.max_offsets_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = str(job.stream.max_offsets_per_trigger)
    rows = read_stream(spark, options, starting_offsets=job.starting_offsets).selectExpr(*view.select)
    return rows if view.watermark is None else rows.withWatermark(view.watermark.column, view.watermark.delay)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
