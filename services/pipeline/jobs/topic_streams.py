"""Streams of records from topics, for jobs that commit whole batches."""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Protocol

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame

from services.pipeline.job_file.archive import OnDataLoss
from services.pipeline.job_file.streams import StreamSettings
from services.pipeline.jobs.failures import refused_by_spark
from services.pipeline.jobs.lake_batches import refuse_lost_batches
from services.pipeline.jobs.losses import LossCheck, claim_checkpoint
from services.pipeline.jobs.running import Environment, RunningStream, start_query
from services.pipeline.lake.table import refuse_table_around
from services.pipeline.observing.progress import StreamObserver
from services.pipeline.spark.admin import KafkaAdmin
from services.pipeline.spark.checkpoint import Checkpoint
from services.pipeline.spark.cluster import Topics
from services.pipeline.spark.kafka_source import read_stream, source_options
from services.pipeline.spark.offset_ranges import partitions_in_words
from services.pipeline.spark.raw_records import is_timestamp_overflow, read_raw
from services.pipeline.transforms.records import lake_rows

Commit = Callable[[DataFrame, int], None]
"""Commits the rows of a batch of that number, unless it did so before."""


class TopicJob(Protocol):
    """What the dataclasses of such jobs have in common."""

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def topics(self) -> Topics: ...
    @property
    def stream(self) -> StreamSettings: ...
    @property
    def on_data_loss(self) -> OnDataLoss: ...


def start_topic_stream(
    job: TopicJob,
    environment: Environment,
    commit_into: Callable[[Checkpoint, LossCheck, StreamObserver], Commit],
    *,
    starting_offsets: str = "earliest",
    read_uncommitted: bool = False,
) -> RunningStream:
    """Starts the job's query. Raises PipelineError for a checkpoint of another job, unknown topics, topics made anew, and options
    that Spark refuses."""
    spark, cluster = environment.spark, environment.cluster
    refuse_table_around(spark, job.path)
    with ExitStack() as unless_started:
        admin = unless_started.enter_context(KafkaAdmin(spark, cluster))
        checkpoint = claim_checkpoint(spark, admin, job.topics, job.stream, job.name, job.path, job.on_data_loss)
        refuse_lost_batches(spark, job.path, checkpoint)
        stop = job.on_data_loss == "stop"
        options = source_options(cluster, job.topics, read_uncommitted=read_uncommitted, fail_on_data_loss=stop)
        observer = environment.telemetry.observe(spark, cluster, job.name, job.stream.group, checkpoint)
        unless_started.callback(observer.close)
        losses = LossCheck(admin, job.on_data_loss, job.name)
        commit = announced(commit_into(checkpoint, losses, observer), checkpoint, job.name)

        def commit_counted(rows: DataFrame, batch: int) -> None:
            commit(observer.counted(rows, batch), batch)

        def read_again(batch: int) -> None:
            said = f"{job.name}: batch {batch} has a timestamp beyond what Spark holds; it is read anew"
            print(said, file=sys.stderr, flush=True)
            commit_counted(lake_rows(read_raw(spark, options, checkpoint.ranges(batch), cluster.security)), batch)

        with refused_by_spark(f"jobs.{job.name}"):
            records = read_stream(
                spark, options, starting_offsets=starting_offsets, max_offsets_per_trigger=job.stream.max_offsets_per_trigger
            )
            named = lake_rows(records).writeStream.queryName(job.name).option("checkpointLocation", checkpoint.location)
            batches = named.foreachBatch(unless_a_timestamp_overflows(commit_counted, read_again))
            query = start_query(batches.trigger(**job.stream.trigger.arguments()), job.name)
        unless_started.pop_all()
    return RunningStream(job.name, query, ends=job.stream.trigger.ends, observer=observer, at_end=admin.close)


def unless_a_timestamp_overflows(commit: Commit, otherwise: Callable[[int], None]) -> Commit:
    """`otherwise` gets the numbers of batches with a timestamp that Spark's connector cannot take."""

    def commit_or_turn_over(rows: DataFrame, batch: int) -> None:
        try:
            commit(rows, batch)
        except Py4JJavaError as error:
            if not is_timestamp_overflow(error):
                raise
            otherwise(batch)

    return commit_or_turn_over


def announced(commit: Commit, checkpoint: Checkpoint, job: str) -> Commit:
    """Also says on stdout how far the job has come."""

    def commit_and_say(rows: DataFrame, batch: int) -> None:
        commit(rows, batch)
        ranges = checkpoint.ranges(batch)
        count = sum(max(0, each.end - each.start) for each in ranges.values())
        print(f"{job}: batch {batch} is committed, {count} offsets of {partitions_in_words(len(ranges))}", flush=True)

    return commit_and_say
