"""The admin port: alive, ready, metrics, and a look inside."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator

import aiohttp
import pytest

from libs.cluster.health import health_of
from libs.cluster.image import ClusterImage
from libs.cluster.records import CONTROLLER, GATEWAY, GROUP_COORDINATOR, STORAGE, TRANSACTION_COORDINATOR, Member
from libs.runtime.admin import AdminServer, NotShown
from libs.telemetry.definitions import CounterDefinition, MetricSet
from libs.telemetry.metrics import Metrics
from tests.controller.images import image_of


class Things(MetricSet):
    @CounterDefinition(name="penstock_things", help="Things.", healthy="any")
    def things(self) -> int:
        return 1


class Service:
    readiness = (False, "no image of the cluster yet")
    in_sync = (False, "1 replicas are not in sync, such as t-0")
    image = ClusterImage()


@pytest.fixture
async def get() -> AsyncIterator["Get"]:
    service = Service()
    metrics = Metrics("test")
    metrics.registry.register(Things())
    debug = {"partitions": lambda: {"t-0": {"epoch": 3, "id": b"\x01\xff", "isr": {2, 1}}}, "odd": lambda: object}

    async def shout(name: str) -> object:
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

    async def __call__(self, path: str) -> tuple[int, str]:
        async with self.session.get(f"http://127.0.0.1:{self.port}{path}") as response:
            return response.status, await response.text()


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


async def test_debug_views_are_json(get: Get) -> None:
    index = ["/debug/odd", "/debug/odd/NAME", "/debug/partitions"]
    assert json.loads((await get("/debug"))[1]) == json.loads((await get("/debug/"))[1]) == index
    assert json.loads((await get("/debug/partitions"))[1]) == {"t-0": {"epoch": 3, "id": "01ff", "isr": [1, 2]}}
    assert (await get("/debug/odd"))[0] == 200
    status, text = await get("/debug/nothing")
    assert (status, json.loads(text)) == (404, {"error": "there is no such view", "views": ["odd", "partitions"]})


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
