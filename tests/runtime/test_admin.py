"""The admin port: alive, ready, metrics, and a look inside."""

import asyncio
import json
import logging
import math
import subprocess
import sys
from collections.abc import AsyncIterator
from threading import current_thread

import aiohttp
import pytest

from libs.cluster.health import health_of
from libs.cluster.image import ClusterImage
from libs.cluster.records import CONTROLLER, GATEWAY, GROUP_COORDINATOR, STORAGE, TRANSACTION_COORDINATOR, Member
from libs.runtime.admin import AdminServer, NotShown, WithPage
from libs.telemetry.definitions import CounterDefinition, MetricSet
from libs.telemetry.metrics import Metrics
from tests.controller.images import image_of


class Things(MetricSet):
    @CounterDefinition(name="penstock_things", help="Things.", healthy="any")
    def things(self) -> int:
        return 1


class Writer:
    """What it writes is the name of the thread that writes it."""

    def __repr__(self) -> str:
        return current_thread().name


class Service:
    readiness = (False, "no image of the cluster yet")
    in_sync = (False, "1 replicas are not in sync, such as t-0")
    image = ClusterImage()


@pytest.fixture
async def get() -> AsyncIterator["Get"]:
    service = Service()
    metrics = Metrics("test")
    metrics.registry.register(Things())
    debug = {
        "paged": lambda: WithPage({"a": "<"}, lambda: "<h1>&lt;</h1>"),
        "partitions": lambda: {"t-0": {"epoch": 3, "id": b"\x01\xff", "isr": {2, 1}}},
        "endless": lambda: {"owed_s": math.inf, "used": [-math.inf, math.nan, 0.5], 1: "kept"},
        "odd": lambda: object,
        "broken": lambda: 1 // 0,
        "busy": lambda: NotShown(503, {"error": "ask again"}),
    }

    async def shout(name: str) -> object:
        if name == "thread":
            return WithPage(Writer(), lambda: repr(Writer()))
        return {"name": name.upper()} if name else NotShown(421, {"error": "somebody else has it", "ask": "odd-2"})

    lookups = {"odd": shout}
    admin = AdminServer(
        "127.0.0.1",
        0,
        ready=lambda: service.readiness,
        health=lambda: health_of(service.image),
        metrics=metrics,
        debug=debug,
        lookups=lookups,
        in_sync=lambda: service.in_sync,
    )
    await admin.start()
    async with aiohttp.ClientSession() as session:
        yield Get(session, admin.port, service)
    await admin.close()
    await admin.close()  # twice does no harm


class Get:
    def __init__(self, session: aiohttp.ClientSession, port: int, service: Service) -> None:
        self.session = session
        self.port = port
        self.service = service

    async def __call__(self, path: str, accept: str = "*/*") -> tuple[int, str]:
        async with self.session.get(f"http://127.0.0.1:{self.port}{path}", headers={"Accept": accept}) as response:
            return response.status, await response.text()

    async def metrics(self, accept: str) -> tuple[str, str]:
        """Content type and text."""
        async with self.session.get(f"http://127.0.0.1:{self.port}/metrics", headers={"Accept": accept}) as response:
            return response.headers["Content-Type"], await response.text()


async def test_a_process_that_answers_is_alive(get: Get) -> None:
    assert await get("/healthz") == (200, "ok\n")


async def test_readiness_comes_with_its_reason(get: Get) -> None:
    assert await get("/readyz") == (503, "no image of the cluster yet\n")
    get.service.readiness = (True, "")
    assert await get("/readyz") == (200, "ready\n")
    get.service.readiness = (True, "the active controller")
    assert await get("/readyz") == (200, "the active controller\n")


async def test_a_process_with_replicas_tells_whether_they_are_in_sync(get: Get) -> None:
    assert await get("/readyz/in-sync") == (503, "1 replicas are not in sync, such as t-0\n")
    get.service.in_sync = (True, "")
    assert await get("/readyz/in-sync") == (200, "ready\n")


async def test_the_health_of_the_cluster_fails_a_check_unless_it_is_healthy(get: Get) -> None:
    status, text = await get("/health")
    assert (status, json.loads(text)["verdict"]) == (503, "unknown")
    roles = (CONTROLLER, GATEWAY, GROUP_COORDINATOR, STORAGE, TRANSACTION_COORDINATOR)
    get.service.image = image_of(*[Member(role, 1, 1, "") for role in roles])
    status, text = await get("/health")
    assert (status, json.loads(text)["sentence"]) == (200, "healthy")


async def test_metrics_are_in_prometheus_format(get: Get) -> None:
    status, text = await get("/metrics")
    assert (status, "penstock_things_total 1.0" in text) == (200, True)


async def test_metrics_are_in_openmetrics_for_who_prefers_that(get: Get) -> None:
    kind, text = await get.metrics("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
    assert kind == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert "# TYPE penstock_things counter\npenstock_things_total 1.0\n" in text
    assert text.endswith("# EOF\n")
    kind, text = await get.metrics("text/plain;version=0.0.4")
    assert (kind, "# TYPE penstock_things_total counter\n" in text) == ("text/plain; version=0.0.4; charset=utf-8", True)


async def test_debug_views_are_json(get: Get) -> None:
    index = [
        "/debug/broken",
        "/debug/busy",
        "/debug/endless",
        "/debug/log-levels",
        "/debug/odd",
        "/debug/odd/NAME",
        "/debug/paged",
        "/debug/partitions",
        "/debug/profile",
    ]
    assert json.loads((await get("/debug"))[1]) == json.loads((await get("/debug/"))[1]) == index
    assert json.loads((await get("/debug/partitions"))[1]) == {"t-0": {"epoch": 3, "id": "01ff", "isr": [1, 2]}}
    assert (await get("/debug/odd"))[0] == 200
    status, text = await get("/debug/nothing")
    assert (status, json.loads(text)) == (
        404,
        {"error": "there is no such view", "views": ["broken", "busy", "endless", "odd", "paged", "partitions"]},
    )


@pytest.mark.parametrize("path", ["/debug", "/debug/paged", "/debug/odd/a", "/debug/log-levels"])
async def test_a_page_without_parameters_refuses_one(get: Get, path: str) -> None:
    status, text = await get(f"{path}?{'nonsense' * 9}=1")
    assert (status, json.loads(text)) == (
        400,
        {"error": f"there is no parameter '{'nonsense' * 8}': this page has no parameters"},
    )


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n", "Got more than 8190 bytes"),
        (b"GET /debug/\xff\xfe HTTP/1.1\r\n\r\n", "Invalid char in url path"),
        (b"GET http://[::1 HTTP/1.1\r\nHost: x\r\n\r\n", "http://[::1"),
        (b"\x16\x03\x01\x02\r\n\r\n", "HTTPS traffic"),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd", "Can not decode"),
    ],
    ids=lambda given: str(given)[:30],
)
async def test_what_is_no_http_costs_a_line_a_minute_and_no_traceback(
    get: Get, caplog: pytest.LogCaptureFixture, sent: bytes, reason: str
) -> None:
    with caplog.at_level(logging.DEBUG):
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", get.port)
            writer.write(sent)
            status = (await reader.read()).split()[1]
            writer.close()
            await writer.wait_closed()
            assert status == (b"200" if b"gzip" in sent else b"400")
    (line,) = [record for record in caplog.records if record.levelno >= logging.INFO]
    assert (line.message, line.exc_info) == ("admin port refuses what is no HTTP", None)
    told = line.__dict__["fields"]
    assert (told["host"], reason in told["reason"]) == ("unknown" if b"gzip" in sent else "127.0.0.1", True)
    assert not [record for record in caplog.records if record.exc_info]


async def test_a_view_that_fails_is_told_with_its_traceback(get: Get, caplog: pytest.LogCaptureFixture) -> None:
    assert (await get("/debug/broken"))[0] == 500
    (line,) = caplog.records
    assert line.exc_info is not None


async def test_numbers_that_json_does_not_have_are_texts(get: Get) -> None:
    """A quota of 5e-324 bytes a second is owed for ever."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    shown = json.loads((await get("/debug/endless"))[1], parse_constant=refuse)
    assert shown == {"owed_s": "Infinity", "used": ["-Infinity", "NaN", 0.5], "1": "kept"}


async def test_a_view_says_why_it_cannot_be_shown(get: Get) -> None:
    status, text = await get("/debug/busy")
    assert (status, json.loads(text)) == (503, {"error": "ask again"})


@pytest.mark.parametrize("accept", ["*/*", "text/html"])
async def test_what_has_a_page_is_written_by_a_thread(get: Get, accept: str) -> None:
    status, text = await get("/debug/odd/thread", accept)
    assert status == 200
    assert current_thread().name not in text
    assert "asyncio" in text


async def test_one_thing_is_looked_up_by_its_name_whatever_that_holds(get: Get) -> None:
    assert json.loads((await get("/debug/odd/a%2Fb%20/c%C3%A9"))[1]) == {"name": "A/B /CÉ"}


async def test_a_view_that_cannot_be_shown_says_why_in_json(get: Get) -> None:
    status, text = await get("/debug/odd/")
    assert (status, json.loads(text)) == (421, {"error": "somebody else has it", "ask": "odd-2"})
    status, text = await get("/debug/partitions/t-0")
    assert status == 404
    assert json.loads(text) == {"error": "single partitions cannot be looked up here", "can_be_looked_up": ["odd"]}


async def test_a_port_that_is_taken_is_an_error_at_start(get: Get) -> None:
    second = AdminServer(
        "127.0.0.1", get.port, ready=lambda: (True, ""), health=lambda: health_of(ClusterImage()), metrics=Metrics("second")
    )
    with pytest.raises(OSError):
        await second.start()
    await second.close()


def test_importing_it_does_not_import_aiohttp() -> None:
    code = "import sys, libs.runtime.admin, libs.runtime.lifecycle; sys.exit('aiohttp' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


async def test_a_view_with_a_page_is_html_for_browsers_and_json_for_programs(get: Get) -> None:
    assert await get("/debug/paged", accept="text/html,application/xhtml+xml,*/*;q=0.8") == (200, "<h1>&lt;</h1>")
    assert await get("/debug/paged") == (200, '{\n  "a": "<"\n}\n')
