"""Keys that all jobs on streams share: the checkpoint, the trigger, the topics."""

import re
from dataclasses import dataclass

from services.pipeline.job_file.reader import TableReader
from services.pipeline.spark.cluster import Topics

AVAILABLE_NOW = "available now"
MAX_OFFSETS = 1_000_000
"""What one batch takes at most by default: a failure repeats no more than that."""
_INTERVAL = re.compile(r"[1-9]\d* (millisecond|second|minute|hour)s?")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@dataclass(frozen=True)
class Trigger:
    """Spark's trigger: `available now` takes what is there and ends; an interval, e.g. `10 seconds`, goes on."""

    interval: str | None = None

    @property
    def ends(self) -> bool:
        return self.interval is None

    def arguments(self) -> dict[str, str | bool]:
        """Keyword arguments of `DataStreamWriter.trigger`."""
        return {"availableNow": True} if self.interval is None else {"processingTime": self.interval}


@dataclass(frozen=True)
class StreamSettings:
    checkpoint: str
    group: str
    """The Kafka group that gets the offsets of finished micro-batches."""
    trigger: Trigger = Trigger()
    max_offsets_per_trigger: int | None = MAX_OFFSETS
    """None: a batch takes all that is there."""


def read_stream_settings(table: TableReader, *, job: str, lake_path: str) -> StreamSettings:
    """`checkpoint` is `LAKE/_checkpoints/JOB` unless given, `group` `penstock-pipeline-JOB`."""
    return StreamSettings(
        checkpoint=table.path("checkpoint", f"{lake_path}/_checkpoints/{job}"),
        group=table.text("group", f"penstock-pipeline-{job}"),
        trigger=read_trigger(table),
        max_offsets_per_trigger=table.integer("max_offsets_per_trigger", MAX_OFFSETS) or None,
    )


def read_trigger(table: TableReader) -> Trigger:
    text = table.text("trigger", AVAILABLE_NOW)
    if text == AVAILABLE_NOW:
        return Trigger()
    if not _INTERVAL.fullmatch(text):
        raise table.refusal("trigger", text, f"{AVAILABLE_NOW!r} or an interval such as '10 seconds'")
    return Trigger(text)


def read_topics(table: TableReader) -> Topics:
    """Exactly one of `topics`, a list of names, and `topic_pattern`, a Java regular expression."""
    names, pattern = table.texts("topics", None), table.text("topic_pattern", None)
    if names is None and pattern is None:
        table.refuse_misspelt("topic", "topics")
        raise table.absence("topics", "a list of topics' names, unless topic_pattern is given")
    if names is not None and pattern is not None:
        raise table.refusal("topics", list(names), "one of topics and topic_pattern; both are given")
    for name in names or ():
        if not _TOPIC.fullmatch(name):
            raise table.refusal("topics", name, "a topic name: 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-'")
    return Topics(names or (), pattern)
