"""What a group coordinator counts. Plain integers while it works, turned into Prometheus samples when somebody scrapes.

A group, a member or a client is never a label here: clients choose their names, and there is no end of them.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, Metric

from libs.telemetry.durations import Durations
from libs.wire.messages.offset_commit import OffsetCommitResponse
from services.group_coordinator.apis import Api

_NAME: Final = "penstock_groups_"


class Meters:
    """A part of the collector in `overview.py`."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        """By API, and by the error that the whole request was answered with."""
        self.committed = 0
        self.loads = Durations()
        """From the moment that a shard was given, or lost its place, until it served."""

    def answered(self, api: Api, error: int, response: object) -> None:
        self.requests[api.name, error] += 1
        if type(response) is OffsetCommitResponse and not error:
            self.committed += sum([not part.error_code for topic in response.topics for part in topic.partitions])

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            _NAME + "requests",
            "Requests decided, heartbeats among them, by the error of the request as a whole.",
            labels=["api", "error"],
        )
        for (api, error), count in sorted(self.requests.items()):
            requests.add_metric([api, str(error)], count)
        yield requests
        yield CounterMetricFamily(_NAME + "offsets_committed", "Offsets of partitions that consumers committed.", self.committed)
        doc = "From the moment that a shard was given to this process, or lost its leader, until it served; the count: how often."
        yield self.loads.family(_NAME + "shard_load_seconds", doc)
