"""The exporter's thread: what a collector gets, and what collectors cost that are down, refuse, hang or are slow."""

import asyncio
import logging
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SpanExportResult
from prometheus_client import CollectorRegistry

from libs.telemetry.tracing.exporting.collector import Collector, ExportFailed, FinishedSpan, ResourceSettings, shown
from libs.telemetry.tracing.exporting.otlp import OtlpCollector as OtlpClient
from libs.telemetry.tracing.exporting.span_exporter import BATCH_MAX, QUEUE_MAX, SpanExporter
from libs.telemetry.tracing.exporting.zipkin import ZipkinCollector, zipkin_span
from tests.support.otlp_collector import Manner, OtlpCollector
from tests.support.polling import until
from tests.support.ports import reserve_ports
from tests.telemetry.tracing.exporting.hand_made_spans import GATEWAY, START_NS, STORAGE, child_span, root_span

ROOT = Path(__file__).resolve().parents[4]
CAP_PER_SECOND = 200
TRIED_FOR_S = 10.0
"""OpenTelemetry's own exporter tries for so long."""


@asynccontextmanager
async def exporter_to(endpoint: str, resources: ResourceSettings | None = None) -> AsyncIterator[SpanExporter]:
    url = f"{endpoint}/v1/traces"
    exporter = SpanExporter(lambda: OtlpClient(url, resources or ResourceSettings()), url, interval_s=0.01)
    exporter.start()
    try:
        yield exporter
    finally:
        await exporter.close()


def counted(exporter: SpanExporter) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(exporter.meters)
    dropped = "penstock_trace_spans_dropped_total"
    return {
        "exported": registry.get_sample_value("penstock_trace_spans_exported_total") or 0.0,
        "overflowed": registry.get_sample_value(dropped, {"reason": "queue_full"}) or 0.0,
        "not_taken": registry.get_sample_value(dropped, {"reason": "not_taken"}) or 0.0,
        "waiting": registry.get_sample_value("penstock_trace_spans_waiting") or 0.0,
    }


def has_exported(exporter: SpanExporter, count: int) -> bool:
    return counted(exporter)["exported"] == count


async def test_a_collector_gets_spans_as_they_were_made() -> None:
    with OtlpCollector() as collector:
        async with exporter_to(collector.endpoint, ResourceSettings(attributes=(("team", "log"),))) as exporter:
            exporter.offer(GATEWAY, [root_span(error="NOT_LEADER_OR_FOLLOWER")])
            exporter.offer(STORAGE, [child_span()])
            await until(lambda: len(collector.spans) == 2)
        root, child = sorted(collector.trace(f"{0xABC:032x}"), key=lambda span: span.span_id)
    assert (root.name, root.parent_id, root.error) == ("orders send", "", "NOT_LEADER_OR_FOLLOWER")
    assert (root.start_ns, root.end_ns, root.kind) == (START_NS, START_NS + 5_000_000, 2)
    assert root.attributes == {
        "messaging.system": "kafka",
        "messaging.kafka.offset": 7,
        "penstock.shortcut": True,
        "error.type": "NOT_LEADER_OR_FOLLOWER",
    }
    assert root.events == ["throttled"]
    assert (child.parent_id, child.links, child.error) == (root.span_id, [(f"{0xDEF:032x}", f"{9:016x}")], None)
    assert root.resource == {
        "service.name": "penstock-gateway",
        "service.instance.id": "gateway-1",
        "service.version": "0.1.0",
        "penstock.node.id": 1,
        "team": "log",
    }
    assert child.resource["service.instance.id"] == "storage-2"


async def test_a_stop_sends_the_last_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc")
    with OtlpCollector() as collector:
        async with exporter_to(collector.endpoint) as exporter:
            exporter.offer(GATEWAY, [root_span(number) for number in range(1, 101)])
        assert len(collector.spans) == 100
        assert counted(exporter) == {"exported": 100, "overflowed": 0, "not_taken": 0, "waiting": 0}
        assert {headers["authorization"] for headers in collector.headers} == {"Bearer abc"}


@pytest.mark.parametrize("manner", [Manner.HANGS, Manner.UNAVAILABLE])
async def test_a_stop_waits_a_second_at_most_for_a_collector_that_does_not_take_spans(manner: Manner) -> None:
    with OtlpCollector(manner) as collector:
        async with exporter_to(collector.endpoint) as exporter:
            exporter.offer(GATEWAY, [root_span()])
            await until(lambda: collector.requests > 0)
            began = time.monotonic()
            await exporter.close()
            assert time.monotonic() - began < TRIED_FOR_S / 2


@pytest.mark.parametrize("manner", [Manner.HANGS, Manner.UNAVAILABLE])
async def test_after_a_stop_nothing_is_tried_again(manner: Manner) -> None:
    """Who embeds a process may live on, as tests with penstock.testing do."""
    with OtlpCollector(manner) as collector:
        async with exporter_to(collector.endpoint) as exporter:
            exporter.offer(GATEWAY, [root_span() for _ in range(3 * BATCH_MAX)])
            await until(lambda: collector.requests > 0)
        requests = collector.requests
    await until(lambda: not exporter.is_running)
    assert collector.requests == requests


class Lines(logging.Handler):
    """What the handlers of the root logger get, and no more: `caplog` hears loggers that do not propagate, too."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[Lines]:
    caplog.set_level("INFO")
    lines = Lines()
    logging.getLogger().addHandler(lines)
    yield lines
    logging.getLogger().removeHandler(lines)


async def test_a_collector_that_refuses_costs_its_spans_and_is_asked_again(lines: Lines) -> None:
    with OtlpCollector(Manner.REFUSES) as collector:
        async with exporter_to(collector.endpoint) as exporter:
            exporter.offer(GATEWAY, [root_span()])
            await until(lambda: counted(exporter)["not_taken"] == 1)
            exporter.offer(GATEWAY, [root_span()])
            await until(lambda: counted(exporter)["not_taken"] == 2)
            collector.manner = Manner.TAKES
            exporter.offer(GATEWAY, [root_span()])
            await until(lambda: counted(exporter)["exported"] == 1)
    assert [record.getMessage() for record in lines.records] == ["traces are not exported", "traces are exported again"]
    assert "400" in str(lines.records[0].__dict__["fields"]["reason"])


class Moody:
    """A collector that raises what a test tells, once each, and then takes spans."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)

    def send(self, batch: Sequence[FinishedSpan]) -> None:
        if self._errors:
            raise self._errors.pop(0)

    def close(self) -> None:
        pass


async def test_an_error_that_nobody_foresaw_costs_its_spans_and_no_later_ones(lines: Lines) -> None:
    collector = Moody(TimeoutError("timed out"), ValueError("no such span"))
    exporter = SpanExporter(lambda: collector, "http://c", interval_s=0.01)
    exporter.start()
    exporter.offer(GATEWAY, [root_span()])
    await until(lambda: counted(exporter)["not_taken"] == 1)
    exporter.offer(GATEWAY, [root_span()])
    await until(lambda: counted(exporter)["not_taken"] == 2)
    exporter.offer(GATEWAY, [root_span()])
    await until(lambda: counted(exporter)["exported"] == 1)
    await exporter.close()
    assert [record.getMessage() for record in lines.records] == ["traces are not exported", "traces are exported again"]
    assert lines.records[0].__dict__["fields"]["reason"] == "TimeoutError('timed out')"


async def test_no_log_line_has_the_password_of_a_collector(lines: Lines) -> None:
    url = "http://user:secret@collector:4318/v1/traces"
    collector = Moody(ExportFailed(f"no route to {url}"))
    exporter = SpanExporter(lambda: collector, url, interval_s=0.01)
    exporter.start()
    exporter.offer(GATEWAY, [root_span()])
    await until(lambda: counted(exporter)["not_taken"] == 1)
    exporter.offer(GATEWAY, [root_span()])
    await until(lambda: counted(exporter)["exported"] == 1)
    await exporter.close()
    told = [record.__dict__["fields"] for record in lines.records]
    assert [each["endpoint"] for each in told] == ["http://collector:4318/v1/traces"] * 2
    assert told[0]["reason"] == "no route to http://collector:4318/v1/traces"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://c:4318/v1", "http://c:4318/v1"),
        ("https://user:a@b/c d@c:4318", "https://c:4318"),
        ("user:secret@c:4318", "c:4318"),
        ("nonnumeric port: 'secret@c:4318'", "nonnumeric port: c:4318'"),
    ],
)
def test_a_url_is_shown_without_its_credentials(text: str, expected: str) -> None:
    assert shown(text) == expected


def test_a_failure_without_a_word_is_not_told_by_the_reason_of_an_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with OtlpCollector(Manner.REFUSES) as collector:
        client = OtlpClient(f"{collector.endpoint}/v1/traces", ResourceSettings())
        with pytest.raises(ExportFailed, match="400"):
            client.send([FinishedSpan(GATEWAY, root_span())])
    monkeypatch.setattr(OTLPSpanExporter, "export", lambda self, spans: SpanExportResult.FAILURE)
    with pytest.raises(ExportFailed, match=r"^refused$"):
        client.send([FinishedSpan(GATEWAY, root_span())])
    client.close()


async def test_of_an_answer_without_end_no_more_is_read_than_is_needed() -> None:
    with OtlpCollector(Manner.NEVER_ENDS) as collector:
        async with exporter_to(collector.endpoint) as exporter:
            for count in (1, 2):
                exporter.offer(GATEWAY, [root_span()])
                await until(partial(has_exported, exporter, count))
    assert len(collector.spans) == 2


async def test_spans_behind_a_redirect_count_as_dropped(lines: Lines) -> None:
    with OtlpCollector(Manner.REDIRECTS) as collector:
        async with exporter_to(collector.endpoint) as exporter:
            exporter.offer(GATEWAY, [root_span()])
            await until(lambda: counted(exporter)["not_taken"] == 1)
    assert "HTTP 307: a redirect is not followed" in str(lines.records[0].__dict__["fields"]["reason"])


async def test_batches_share_a_connection() -> None:
    with OtlpCollector() as collector:
        async with exporter_to(collector.endpoint) as exporter:
            for count in (1, 2, 3):
                exporter.offer(GATEWAY, [root_span()])
                await until(partial(has_exported, exporter, count))
    assert (collector.requests, collector.connections) == (3, 1)


async def test_nobody_listening_costs_spans_alone() -> None:
    ports = reserve_ports(1)
    async with exporter_to(f"http://127.0.0.1:{ports.first}") as exporter:
        exporter.offer(GATEWAY, [root_span() for _ in range(QUEUE_MAX + 500)])
        assert counted(exporter)["overflowed"] >= 500 - 64
    ports.release()


async def test_a_collector_that_hangs_neither_stops_the_loop_nor_fills_memory() -> None:
    """More than a minute of spans at the cap, in a moment."""
    with OtlpCollector(Manner.HANGS) as collector:
        async with exporter_to(collector.endpoint) as exporter:
            exporter.offer(GATEWAY, [root_span()])
            await until(lambda: collector.requests > 0)
            tracemalloc.start()
            longest_s = 0.0
            for number in range(80 * CAP_PER_SECOND // 40):
                began = time.thread_time()
                exporter.offer(GATEWAY, [root_span(number * 40 + each + 1) for each in range(40)])
                longest_s = max(longest_s, time.thread_time() - began)
                await asyncio.sleep(0)
            grown, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert counted(exporter)["waiting"] == QUEUE_MAX
            assert counted(exporter)["overflowed"] >= 80 * CAP_PER_SECOND - QUEUE_MAX - 64
            assert grown < 16 << 20
            assert longest_s < 0.25


class Slow:
    """A collector of which a test decides when it takes the next batch."""

    def __init__(self) -> None:
        self.may_take = threading.Semaphore(0)
        self.batches: list[int] = []

    def send(self, batch: Sequence[FinishedSpan]) -> None:
        self.may_take.acquire()
        self.batches.append(len(batch))

    def close(self) -> None:
        pass


async def test_a_slow_collector_gets_what_it_can_take_and_the_latest_spans() -> None:
    slow = Slow()
    exporter = SpanExporter(lambda: slow, "http://slow", queue_max=100, interval_s=0.01)
    exporter.start()
    exporter.offer(GATEWAY, [root_span(number) for number in range(1, 65)])
    await until(lambda: counted(exporter)["waiting"] == 0)
    exporter.offer(GATEWAY, [root_span(number) for number in range(65, 265)])
    assert (counted(exporter)["waiting"], counted(exporter)["overflowed"]) == (100, 100)
    for _ in range(3):
        slow.may_take.release()
    await until(lambda: slow.batches == [64, 64, 36])
    await exporter.close()


async def test_a_collector_that_cannot_be_made_ends_the_thread_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    def connect() -> Collector:
        raise ImportError("no such module")

    exporter = SpanExporter(connect, "http://c", interval_s=0.01)
    exporter.start()
    await until(lambda: "trace exporter failed" in caplog.messages)
    exporter.offer(GATEWAY, [root_span()])
    await exporter.close()


async def test_an_exporter_that_was_never_started_closes() -> None:
    await SpanExporter(Slow, "http://c").close()


def test_zipkin_gets_links_as_annotations_and_texts_as_tags() -> None:
    root = zipkin_span(FinishedSpan(GATEWAY, root_span(error="REQUEST_TIMED_OUT")), ResourceSettings())
    assert root["traceId"] == f"{0xABC:032x}"
    assert (root["timestamp"], root["duration"], root["kind"]) == (START_NS // 1000, 5_000, "SERVER")
    assert root["localEndpoint"] == {"serviceName": "penstock-gateway"}
    assert root["tags"] == {
        "service.instance.id": "gateway-1",
        "service.version": "0.1.0",
        "penstock.node.id": "1",
        "messaging.system": "kafka",
        "messaging.kafka.offset": "7",
        "penstock.shortcut": "true",
        "error": "REQUEST_TIMED_OUT",
    }
    assert root["annotations"] == [{"timestamp": START_NS // 1000 + 1000, "value": "throttled ms=4"}]
    child = zipkin_span(FinishedSpan(STORAGE, child_span()), ResourceSettings())
    assert (child["parentId"], child["duration"], "kind" in child) == (f"{1:016x}", 1, False)
    assert child["annotations"] == [{"timestamp": START_NS // 1000 + 1, "value": f"link {0xDEF:032x}/{9:016x} why=same batch"}]


def test_a_zipkin_that_refuses_or_is_away_is_told_by_its_reason() -> None:
    with OtlpCollector(Manner.REFUSES) as collector, pytest.raises(ExportFailed, match="HTTP 400"):
        ZipkinCollector(f"{collector.endpoint}/api/v2/spans", ResourceSettings()).send([FinishedSpan(GATEWAY, root_span())])
    ports = reserve_ports(1)
    with pytest.raises(ExportFailed, match="refused"):
        ZipkinCollector(f"http://127.0.0.1:{ports.first}", ResourceSettings()).send([FinishedSpan(GATEWAY, root_span())])
    ports.release()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_spans_for_zipkin_behind_a_redirect_are_not_sent_elsewhere(status: int) -> None:
    with OtlpCollector() as other, OtlpCollector(Manner.REDIRECTS, redirect=(status, f"{other.endpoint}/v1/traces")) as first:
        with pytest.raises(ExportFailed, match=f"HTTP {status}: a redirect is not followed"):
            ZipkinCollector(first.endpoint, ResourceSettings()).send([FinishedSpan(GATEWAY, root_span())])
        assert (first.requests, other.connections) == (1, 0)


@pytest.mark.parametrize("service", ["gateway", "storage", "dev"])
def test_opentelemetry_is_imported_only_where_spans_are_exported(service: str) -> None:
    program = f"import sys, services.{service}.__main__; sys.exit(any(n.split('.')[0] == 'opentelemetry' for n in sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT).returncode == 0
