"""Jobs of the kind `transform`: topics into a topic by an SQL query, exactly once."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from services.pipeline.errors import InvalidJobFile
from services.pipeline.job_file.archive import OnDataLoss
from services.pipeline.job_file.job import Job, LakeSettings
from services.pipeline.job_file.reader import TableReader
from services.pipeline.job_file.sink_options import Target, read_target
from services.pipeline.job_file.streams import StreamSettings, read_stream_settings, read_topics
from services.pipeline.spark.cluster import Topics

_AMOUNT = r"\d{1,9}(\.\d+)? (microsecond|millisecond|second|minute|hour|day|week|month|year)s?"
_INTERVAL = re.compile(rf"(interval )?{_AMOUNT}( {_AMOUNT})*")


@dataclass(frozen=True)
class Watermark:
    """How much later than the latest time of `column` a row may come, e.g. `10 minutes`."""

    column: str
    delay: str


@dataclass(frozen=True)
class InputView:
    """Topics that the query reads as one view. `select`: SQL expressions that make the view's columns of the records'."""

    topics: Topics
    select: tuple[str, ...]
    watermark: Watermark | None


@dataclass(frozen=True, kw_only=True)
class TransformJob(Job):
    inputs: Mapping[str, InputView]
    query: str
    target: Target
    stream: StreamSettings
    output_mode: Literal["append", "update"]
    starting_offsets: Literal["earliest", "latest"]
    on_data_loss: OnDataLoss


def read_transform_job(table: TableReader, name: str, lake: LakeSettings) -> TransformJob:
    inputs = table.table("inputs")
    views = {view: _read_input(inputs.table(view)) for view in inputs.keys()}  # noqa: SIM118 (no dictionary)
    if not views:
        raise table.refusal("inputs", {}, "a table for each view of the query")
    target = read_target(table, ("topic", "epoch"))
    refuse_loops(name, target.topic, [topic for view in views.values() for topic in view.topics.names])
    return TransformJob(
        name=name,
        inputs=views,
        query=table.text("query"),
        target=target,
        stream=read_stream_settings(table, job=name, lake_path=lake.path),
        output_mode=table.choice("output_mode", ("append", "update"), "append"),
        starting_offsets=table.choice("starting_offsets", ("earliest", "latest"), "earliest"),
        on_data_loss=table.choice("on_data_loss", ("stop", "continue"), "stop"),
    )


def refuse_loops(job: str, target: str | None, inputs: Sequence[str]) -> None:
    """Raises InvalidJobFile if the job reads the topic that it writes: it would read its own rows for ever."""
    if target in inputs:
        raise InvalidJobFile(f"jobs.{job}.topic is {target!r}, which is a topic of its inputs; allowed is another topic")


def _read_input(table: TableReader) -> InputView:
    topics, select = read_topics(table), table.texts("select", ("*",))
    watermark = None
    if table.has("watermark"):
        given = table.table("watermark")
        watermark = Watermark(given.text("column"), _read_delay(given))
        given.end()
    table.end()
    return InputView(topics, select, watermark)


def _read_delay(table: TableReader) -> str:
    text: str = table.text("delay")
    if not _INTERVAL.fullmatch(text.lower()):
        raise table.refusal("delay", text, "an interval such as '10 minutes' or '1 hour 30 minutes'")
    return text
