"""How far a stream is behind its topics, in offsets and in seconds. Pure."""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

Position = tuple[str, int]
"""Topic and partition."""


class Lag(NamedTuple):
    """Of one topic. `oldest_ms` is the timestamp of the oldest record that was not read; None if all were."""

    offsets: int
    oldest_ms: int | None

    def freshness_s(self, now_ms: float) -> float:
        return 0.0 if self.oldest_ms is None else max(0.0, (now_ms - self.oldest_ms) / 1000)


def behind(reached: Mapping[Position, int], log_ends: Mapping[Position, int]) -> dict[Position, int]:
    """The next offset of each partition that has more offsets than were read."""
    return {each: reached[each] for each, end in log_ends.items() if end > reached.get(each, end)}


def lags(reached: Mapping[Position, int], log_ends: Mapping[Position, int], oldest_ms: Mapping[Position, int]) -> dict[str, Lag]:
    """By topic. Offsets after the last record, such as transaction markers, count as lag and have no age."""
    offsets: dict[str, int] = defaultdict(int)
    oldest: dict[str, int] = {}
    for (topic, partition), position in reached.items():
        offsets[topic] += max(0, log_ends.get((topic, partition), position) - position)
        if (found := oldest_ms.get((topic, partition))) is not None:
            oldest[topic] = min(found, oldest.get(topic, found))
    return {topic: Lag(offsets[topic], oldest.get(topic)) for topic in offsets}
