"""Offsets that the log has dropped before a job could read them."""

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.job_file.archive import OnDataLoss
from services.pipeline.job_file.streams import StreamSettings
from services.pipeline.spark.admin import KafkaAdmin
from services.pipeline.spark.checkpoint import Checkpoint
from services.pipeline.spark.cluster import Topics
from services.pipeline.spark.offset_ranges import OffsetRange, Partition, as_json, describe, lost_ranges, shrunken
from services.pipeline.spark.raw_records import TIMESTAMP_MS_MAX


def claim_checkpoint(
    spark: SparkSession,
    admin: KafkaAdmin,
    topics: Topics,
    stream: StreamSettings,
    job: str,
    path: str,
    on_data_loss: OnDataLoss = "stop",
) -> Checkpoint:
    """Raises PipelineError for topics that are not there, a checkpoint of another job, topics that were made anew since it read
    them, and, unless `on_data_loss` is `continue`, topics that are gone.

    A job that is refused for its topics leaves no mark in the checkpoint.
    """
    names = admin.refuse_unknown(topics, f"jobs.{job}")
    checkpoint = Checkpoint(spark, stream.checkpoint)
    checkpoint.claim({"job": job, "path": path})
    checkpoint.claim_topics(admin.topic_ids(names))
    planned = checkpoint.planned_batch()
    if planned < 0:
        return checkpoint
    ends = checkpoint.ends(planned)
    gone = sorted({topic for topic, _ in ends}.difference(names))
    if gone and on_data_loss == "stop":
        raise PipelineError(
            f"jobs.{job}: the topic {gone[0]} is gone, and the checkpoint has read from it "
            '(on_data_loss = "continue" goes on without it)'
        )
    if gone:
        print(f"{job}: goes on without {', '.join(gone)}, which is gone", file=sys.stderr, flush=True)
    reached = {partition: end for partition, end in ends.items() if partition[0] not in gone}
    for (topic, number), end, offset in shrunken(reached, admin.latest(reached)):
        raise PipelineError(
            f"jobs.{job}: {topic}-{number} ends at offset {end}, and the checkpoint has read up to {offset}: "
            "the topic was made anew; give the job a new checkpoint and a new path"
        )
    return checkpoint


class LossCheck:
    """Looks before each batch whether the log still has what the batch is to read."""

    def __init__(self, admin: KafkaAdmin, on_data_loss: OnDataLoss, job: str) -> None:
        self._admin = admin
        self._on_data_loss = on_data_loss
        self._job = job

    def refuse_made_anew(self, checkpoint: Checkpoint, topics: Iterable[str]) -> None:
        """Raises PipelineError if one of the topics is not the one that the checkpoint has read under its name."""
        checkpoint.claim_topics(self._admin.topic_ids(topics))

    def beyond_spark(self, wanted: Mapping[Partition, OffsetRange]) -> PipelineError:
        """The refusal of a batch with a timestamp that Spark cannot hold. It names the first such record of each partition."""
        first = self._admin.first_at(wanted, TIMESTAMP_MS_MAX + 1)
        places = [f"{topic}-{number} from offset {offset} on" for (topic, number), offset in sorted(first.items())]
        return PipelineError(
            f"Spark cannot hold a record's timestamp, look at {', '.join(places) or 'the batch'}; "
            'an archive keeps the records, then delete them from the log, and go on with on_data_loss = "continue"'
        )

    def lost(self, wanted: dict[Partition, OffsetRange]) -> dict[str, Any]:
        """What is gone, as facts of the commit. Raises PipelineError if the job is to stop."""
        gone = lost_ranges(wanted, self._admin.earliest(wanted))
        if not gone:
            return {}
        if self._on_data_loss == "stop":
            raise PipelineError(
                f"the log no longer has {describe(gone)}; nothing of this batch is committed "
                '(on_data_loss = "continue" goes on without them)'
            )
        print(f"{self._job}: goes on without {describe(gone)}, which the log no longer has", file=sys.stderr, flush=True)
        return {"lost": as_json(gone)}
