"""The times of clients' requests by API and stage: Kafka's RequestMetrics, made from the stage times of an `Exchange`.

Every request is in every histogram, so the means of the stages add up to that of the whole. Most requests spend no time in some
of the stages. Those are not observed: at a scrape they are the rest of the requests, with 0 seconds each.

A gateway has 12 µs of CPU for a small Produce of a busy connection, so histograms are filled in place here.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from libs.clock import Clock
from libs.telemetry.definitions import CounterDefinition, HistogramDefinition, MetricSet, Rows
from libs.telemetry.durations import LATENCY_BUCKETS, Durations, Exemplar
from libs.telemetry.metrics import Metrics
from libs.wire.api_keys import ApiKey

REQUESTS: Final = "kafka_network_requestmetrics_"
SENT_AT_ONCE_S: Final = 0.0001
"""An answer that leaves in less counts as sent in no time."""


class RequestTimes(Protocol):
    """The times of a request's stages, in seconds of the loop's clock, as an `Exchange` has them."""

    api_key: int
    received_at: float
    began_at: float
    sent_at: float
    answered_at: float
    left_at: float
    throttled_s: float
    trace_id: int
    """0: it has no trace."""
    requests: int
    """More than one: a run, whose requests have the same times."""


class ApiDurations:
    """The durations of one API's requests: in total, and of each stage. Their sum is the total, without that of `throttled`."""

    __slots__ = ("local", "remote", "request_queued", "response_queued", "sending", "throttled", "total")

    def __init__(self) -> None:
        self.total = Durations()
        self.request_queued = Durations()
        self.local = Durations()
        self.remote = Durations()
        self.response_queued = Durations()
        """Answers that waited for those of earlier requests."""
        self.sending = Durations()
        self.throttled = Durations()


class RequestMeters(MetricSet):
    """A collector in the service's registry. The label of an API is its name."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._by_api: dict[int, ApiDurations] = {}
        metrics.registry.register(self)

    def completed(self, requests: Sequence[RequestTimes], now: float) -> None:
        """Counts requests of which all is over: the kernel has taken their answers, or their connection has ended."""
        for request in requests:
            times = self._by_api.get(request.api_key)
            if times is None:
                times = self._by_api[request.api_key] = ApiDurations()
            received_at, began_at, sent_at = request.received_at, request.began_at, request.sent_at
            answered_at, left_at, count = request.answered_at, request.left_at, request.requests
            durations, seconds = times.total, now - received_at
            durations.counts[bisect_left(LATENCY_BUCKETS, seconds)] += count
            durations.total_s += seconds * count
            if began_at > received_at:
                times.request_queued.observe(began_at - received_at, count)
            if sent_at:
                durations, seconds = times.remote, answered_at - sent_at
                durations.counts[bisect_left(LATENCY_BUCKETS, seconds)] += count
                durations.total_s += seconds * count
                seconds = sent_at - began_at
            else:
                seconds = answered_at - began_at
            durations = times.local
            durations.counts[bisect_left(LATENCY_BUCKETS, seconds)] += count
            durations.total_s += seconds * count
            if left_at > answered_at:
                times.response_queued.observe(left_at - answered_at, count)
            if now - left_at > SENT_AT_ONCE_S:
                times.sending.observe(now - left_at, count)
            if request.throttled_s:
                times.throttled.observe(request.throttled_s, count)
            if request.trace_id:
                self._exemplify(times, request, now)

    def _exemplify(self, times: ApiDurations, request: RequestTimes, now: float) -> None:
        """Shows which trace a bucket has. A stage in which the request spent no time has nothing to show."""
        asked_at = request.sent_at or request.answered_at
        for durations, seconds in (
            (times.total, now - request.received_at),
            (times.request_queued, request.began_at - request.received_at),
            (times.local, asked_at - request.began_at),
            (times.remote, request.answered_at - asked_at),
            (times.response_queued, request.left_at - request.answered_at),
            (times.sending, now - request.left_at),
        ):
            if seconds > 0.0:
                durations.exemplify(Exemplar(request.trace_id, seconds, self._clock.wall_ms() / 1000))

    @CounterDefinition(
        name="penstock_gateway_requests",
        help="Requests answered, by API.",
        labels=("api",),
        healthy="follows the load",
    )
    def answered(self) -> Rows:
        return [(label, times.total.count) for label, times in self._rows()]

    @HistogramDefinition(
        name=REQUESTS + "totaltime_seconds",
        help="Time from the last byte of a request until the kernel took its answer, by API. A Fetch or JoinGroup that waits "
        "counts its wait.",
        labels=("api",),
        healthy="produce: about the time of an fdatasync with `durability=synced`; fetch: up to the client's `fetch.max.wait.ms`",
        otherwise="The other histograms of `kafka_network_requestmetrics` tell which stage takes the time.",
    )
    def totals(self) -> Rows:
        return [(label, times.total) for label, times in self._rows()]

    @HistogramDefinition(
        name=REQUESTS + "requestqueuetime_seconds",
        help="Time until a request began, by API. It waits for earlier ones of its connection, for its client to read answers, "
        "or for a quota.",
        labels=("api",),
        healthy="below 10 ms for produce; as long as a long poll where a client sends requests behind it",
        otherwise="Look at the stages of the requests before it, at `penstock_gateway_unread_answer_bytes`, and at "
        "`penstock_event_loop_lag_seconds`.",
    )
    def queue_times(self) -> Rows:
        return [(label, times.request_queued.with_zeros(times.total.count)) for label, times in self._rows()]

    @HistogramDefinition(
        name=REQUESTS + "localtime_seconds",
        help="Time in which the gateway itself worked for a request, until it asked another process or had the answer, by API.",
        labels=("api",),
        healthy="below 10 ms",
        otherwise="The gateway is busy: look at its CPU and at `penstock_event_loop_lag_seconds`, and add a gateway.",
    )
    def local_times(self) -> Rows:
        return [(label, times.local) for label, times in self._rows()]

    @HistogramDefinition(
        name=REQUESTS + "remotetime_seconds",
        help="Time in which a request waited for other processes, or for a leader, by API. Kafka's counts followers alone: here "
        "the leader and its disk are other processes, too.",
        labels=("api",),
        healthy="below 100 ms, but for requests that wait as their clients asked: fetch, join_group, sync_group",
        otherwise="For produce, `penstock_storage_append_stage_seconds` of the storage nodes tells appends from syncs and "
        "followers. For groups, look at the coordinator.",
    )
    def remote_times(self) -> Rows:
        return [(label, times.remote.with_zeros(times.total.count)) for label, times in self._rows()]

    @HistogramDefinition(
        name=REQUESTS + "throttletime_seconds",
        help="Time that clients were told to wait after an answer, by API. It is no part of the total.",
        labels=("api",),
        healthy="0, or as configured",
        otherwise="`penstock_gateway_throttled_requests_total` tells which quota. See [quotas](../quotas.md).",
    )
    def throttle_times(self) -> Rows:
        return [(label, times.throttled.with_zeros(times.total.count)) for label, times in self._rows()]

    @HistogramDefinition(
        name=REQUESTS + "responsequeuetime_seconds",
        help="Time in which an answer waited for those of earlier requests of its connection, by API.",
        labels=("api",),
        healthy="below 10 ms; only Produces wait here, since others begin one after the other",
        otherwise="One partition of several is slow: look at `penstock_storage_append_stage_seconds` of each storage node.",
    )
    def response_queue_times(self) -> Rows:
        return [(label, times.response_queued.with_zeros(times.total.count)) for label, times in self._rows()]

    @HistogramDefinition(
        name=REQUESTS + "responsesendtime_seconds",
        help="Time until the kernel took the last byte of an answer, by API. Records that are not in the page cache are read "
        "meanwhile. Less than 0.1 ms counts as 0.",
        labels=("api",),
        healthy="below 10 ms for small answers; for fetch as long as the network takes",
        otherwise="Clients read slowly, the network is full, or a disk is slow. `penstock_gateway_unread_answer_bytes` tells of "
        "clients.",
    )
    def send_times(self) -> Rows:
        return [(label, times.sending.with_zeros(times.total.count)) for label, times in self._rows()]

    def _rows(self) -> Iterator[tuple[tuple[str], ApiDurations]]:
        for key, times in list(self._by_api.items()):
            yield (api_name(key),), times


def api_name(key: int) -> str:
    """The label of an API."""
    return ApiKey(key).name.lower()
