"""The status of jobs, from their Kafka groups: it needs no driver, and no Spark."""

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from services.pipeline.observing.group import Committed, StreamGroup
from services.pipeline.observing.lag import Position, behind, lags
from services.pipeline.spark.cluster import ClusterSettings

HEADS = ("job", "last batch", "finished", "topic", "lag", "freshness")


class GroupOf(NamedTuple):
    """The Kafka group of a stream, and the path of the checkpoint that it should tell of."""

    group: str
    checkpoint: str


def status_lines(cluster: ClusterSettings, streams: Mapping[str, GroupOf]) -> list[str]:
    """A table of the streams, by the names of their jobs. Raises PipelineError if the cluster does not answer."""
    rows: list[tuple[str, ...]] = [HEADS]
    for job, stream in streams.items():
        asked = StreamGroup(cluster, stream.group)
        try:
            rows.extend(_rows(job, stream.checkpoint, asked))
        finally:
            asked.close()
    widths = [max(len(row[at]) for row in rows) for at in range(len(HEADS))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _rows(job: str, checkpoint: str, group: StreamGroup) -> Iterable[tuple[str, ...]]:
    committed = group.committed()
    if not committed:
        return [(job, "none yet", "", "", "", "")]
    if others := {each.checkpoint for each in committed.values()} - {checkpoint, None}:
        return [(job, "unknown", "", f"the group {group.group} has offsets of the checkpoint {min(map(str, others))}", "", "")]
    reached = group.with_new_partitions({position: each.offset for position, each in committed.items()})
    ends = group.log_ends(reached)
    now_ms = time.time() * 1000
    found = lags(reached, ends, group.timestamps(behind(reached, ends)))
    batch, finished = _last(committed, now_ms)
    return [
        (job, batch, finished, topic, f"{lag.offsets}", f"{lag.freshness_s(now_ms):.1f} s")
        for topic, lag in sorted(found.items())
    ]


def _last(committed: Mapping[Position, Committed], now_ms: float) -> tuple[str, str]:
    """Number of the last batch, and how long ago it finished."""
    known = [(each.batch, each.at_ms) for each in committed.values() if each.batch is not None and each.at_ms is not None]
    if not known:
        return "unknown", ""
    batch, at_ms = max(known)
    return str(batch), f"{(now_ms - at_ms) / 1000:.0f} s ago"
