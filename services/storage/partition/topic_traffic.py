"""The traffic of each topic on this node: plain counts, on which hot paths add without a look-up.

A topic keeps its counts while this node has a partition of it. Each is five time series, so their number has a bound: topics
that come when it is reached share one set of counts.
"""

from collections.abc import Collection, Iterator
from typing import Final
from weakref import WeakValueDictionary

LEFT_OUT_MAX: Final = 10_000
"""Names of topics without counts of their own that are remembered between two scrapes."""
OTHERS: Final = "(other)"
"""The label of the topics without series of their own. No topic can have that name."""


class TopicTraffic:
    """The counts of one topic, or of all others together."""

    __slots__ = ("__weakref__", "bytes_in", "bytes_out", "failed_fetches", "failed_produces", "messages_in")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.messages_in = 0
        self.failed_fetches = 0
        self.failed_produces = 0


class TrafficByTopic:
    """The counts by topic, of `topics_max` at most. Counts never pass from one label to another, so none of them falls."""

    def __init__(self, topics_max: int) -> None:
        self._max = topics_max
        self._by_topic: WeakValueDictionary[str, TopicTraffic] = WeakValueDictionary()
        self.others = TopicTraffic()
        """The counts of topics without counts of their own, and of topics that are not here."""
        self._left_out: set[str] = set()

    def of(self, topic: str) -> TopicTraffic:
        """The counts of a topic. Its partitions hold them, and they end with the last partition."""
        traffic = self._by_topic.get(topic)
        if traffic is not None:
            return traffic
        if topic in self._left_out or len(self._by_topic) >= self._max:
            if len(self._left_out) < LEFT_OUT_MAX:
                self._left_out.add(topic)
            return self.others
        traffic = self._by_topic[topic] = TopicTraffic()
        return traffic

    def series(self) -> Iterator[tuple[str, TopicTraffic]]:
        """(label, counts). The others come only if there are any."""
        yield from sorted(self._by_topic.items())
        others = self.others
        if self._left_out or others.bytes_in or others.bytes_out or others.failed_fetches or others.failed_produces:
            yield OTHERS, others

    def left_out(self, here: Collection[str]) -> int:
        """The number of topics without counts of their own. `here`: all topics of this node; the rest is forgotten."""
        self._left_out.intersection_update(here)
        return len(self._left_out)
