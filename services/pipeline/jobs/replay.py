"""Replay jobs: chunks of a slice of the lake, each an epoch of the sink. A later run goes on with the ledger's last epoch."""

import threading
import time

from pyspark.sql import DataFrame

from services.pipeline.errors import PipelineError
from services.pipeline.job_file.replay import RateLimit, ReplayJob
from services.pipeline.jobs.failures import in_one_sentence
from services.pipeline.jobs.replay_marks import ReplayMarks, read_marks, refuse_other_topics, write_marks
from services.pipeline.jobs.replay_plan import ReplayPlan, changed_parts, plan_of, rows_of_chunk, slice_of
from services.pipeline.jobs.running import Environment
from services.pipeline.lake.table import read_table, refuse_changed_files
from services.pipeline.sink.options import SinkOptions, read_options
from services.pipeline.sink.writing import ADAPTIVE, EpochWriter, last_epoch
from services.pipeline.spark.admin import KafkaAdmin
from services.pipeline.spark.cluster import ClusterSettings
from services.pipeline.spark.files import Files
from services.pipeline.spark.offset_ranges import partitions_in_words


def start_replay(job: ReplayJob, environment: Environment) -> "RunningReplay":
    """Reads the lake and makes the plan, if there is none; `wait` then writes."""
    spark = environment.spark.newSession()
    spark.conf.set(ADAPTIVE, "false")
    options = job.target.sink_options(environment.cluster)
    read_options(options)
    files = Files(spark, job.checkpoint)
    with in_one_sentence(job.name):
        refuse_changed_files(spark, job.table)
        rows = slice_of(read_table(spark, job.table), job.rows, job.name)
        plan = plan_of(job, files, rows)
    return RunningReplay(job, environment.cluster, files, rows, plan, options)


class RunningReplay:
    ends = True

    def __init__(
        self,
        job: ReplayJob,
        cluster: ClusterSettings,
        files: Files,
        rows: DataFrame,
        plan: ReplayPlan,
        options: dict[str, str],
    ) -> None:
        self._job = job
        self._cluster = cluster
        self._files = files
        self._rows = rows
        self._plan = plan
        self._sink_id = f"replay-{plan.plan_id}"
        self._options = options
        self._stopped = threading.Event()

    def wait(self) -> None:
        """Writes what is missing, and says on stdout how far it has come. Raises PipelineError."""
        started = time.monotonic()
        write = EpochWriter(self._options, self._sink_id, self._job.name)
        marks, first = self._begin(write.options)
        if marks.is_done:
            print(f"{self._job.name}: the replay was done before, and nothing is written", flush=True)
            return
        with in_one_sentence(self._job.name):
            for epoch in range(first, len(self._plan.chunks)):
                if self._stopped.is_set():
                    return
                self._write_chunk(write, epoch)
        write_marks(self._files, marks.with_ids(self._topic_ids(write.options.ledger_topic)).done())
        rows = [part.rows for chunk in self._plan.chunks for part in chunk]
        partitions = {(part.topic, part.partition) for chunk in self._plan.chunks for part in chunk}
        print(
            f"{self._job.name}: the replay is done, {sum(rows)} records of {partitions_in_words(len(partitions))}; "
            f"this run took {time.monotonic() - started:.1f} s",
            flush=True,
        )

    def stop(self) -> None:
        """The replay ends after the chunk that is being written."""
        self._stopped.set()

    def _begin(self, options: SinkOptions) -> tuple[ReplayMarks, int]:
        """The marks and the first chunk that may be incomplete. Raises PipelineError if the marks name other topics."""
        ledger = options.ledger_topic
        marks = read_marks(self._job, self._files)
        if marks is not None:
            refuse_other_topics(self._job, marks, ledger, self._targets(), self._topic_ids(ledger))
            if marks.is_done:
                return marks, len(self._plan.chunks)
        # Earlier chunks are complete: each began when the one before it had ended.
        first = last_epoch(options, self._sink_id) or 0
        marks = (marks or ReplayMarks(ledger)).with_ids(self._topic_ids(ledger))
        write_marks(self._files, marks)
        return marks, first

    def _write_chunk(self, write: EpochWriter, epoch: int) -> None:
        rows = self._rows_as_planned(epoch)
        started = time.monotonic()
        written = write(rows, epoch, tasks=self._plan.tasks)
        took_s = time.monotonic() - started
        print(
            f"{self._job.name}: chunk {epoch} is written, {written.rows} records of "
            f"{partitions_in_words(len(self._plan.chunks[epoch]))} in {took_s:.1f} s; "
            f"chunks left: {len(self._plan.chunks) - epoch - 1}",
            flush=True,
        )
        self._stopped.wait(max(0.0, seconds_over(self._job.limit, written.rows, written.bytes) - took_s))

    def _targets(self) -> list[str]:
        if self._job.target.topic is not None:
            return [self._job.target.topic]
        return sorted({part.topic for chunk in self._plan.chunks for part in chunk})

    def _topic_ids(self, ledger: str) -> dict[str, str]:
        with KafkaAdmin(self._rows.sparkSession, self._cluster) as admin:
            return admin.topic_ids([ledger, *self._targets()])

    def _rows_as_planned(self, epoch: int) -> DataFrame:
        """Raises PipelineError if the chunk has other numbers of rows than the plan says."""
        chunk = self._plan.chunks[epoch]
        if changed := changed_parts(self._rows, chunk):
            part, rows = changed[0]
            raise PipelineError(
                f"jobs.{self._job.name}: chunk {epoch} had {part.rows} rows of {part.topic}-{part.partition} when the replay was "
                f"planned and has {rows} now: the table {self._job.table} has lost or gained rows meanwhile"
            )
        return rows_of_chunk(self._rows, chunk, self._plan.tasks).select(*self._columns())

    def _columns(self) -> list[str]:
        own_topic = ["topic"] if self._job.target.topic is None else []
        partition = ["partition"] if self._job.keeps_partitions else []
        return ["key", "value", "headers", "timestamp", *own_topic, *partition]


def seconds_over(limit: RateLimit, rows: int, payload_bytes: int) -> float:
    """How long that much takes at the limit."""
    by_records = rows / limit.records if limit.records is not None else 0.0
    by_bytes = payload_bytes / limit.bytes if limit.bytes is not None else 0.0
    return max(by_records, by_bytes)
