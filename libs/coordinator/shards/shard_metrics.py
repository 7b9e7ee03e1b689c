"""Metrics that all coordinators have, each under a prefix of its own."""

from libs.coordinator.shards.unwritable_decisions import ASKED_BY, GIVEN_UP
from libs.telemetry.definitions import CounterDefinition, GaugeDefinition


def shards_by_state(prefix: str) -> GaugeDefinition:
    return GaugeDefinition(
        name=prefix + "shards",
        help="Shards that this process owns, by state.",
        labels=("state",),
        healthy="`serving`; other states for seconds after a coordinator or leader changed",
        otherwise="A shard that stays `claiming` or `loading`: its partition has no leader. Look at the storage nodes.",
    )


def unwritable_decisions(prefix: str, topic: str) -> CounterDefinition:
    return CounterDefinition(
        name=prefix + "unwritable_decisions",
        help="Decisions whose records cannot be written, by what asked for them and what became of them. "
        "`batch`: the leader refused all records of an append as too large.",
        labels=("asked_by", "outcome"),
        from_zero=tuple((asked_by, GIVEN_UP) for asked_by in ASKED_BY),
        healthy="0; `replaced` where a group is too large to become classic again",
        otherwise=f"`given up`: the log names the shard and the event. Is `max.message.bytes` of `{topic}` lower than it was? "
        "A timer's decision is tried again every 10 s, and succeeds once the topic allows it.",
    )
