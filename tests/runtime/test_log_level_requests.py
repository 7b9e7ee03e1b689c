"""Log levels of a process, by RPC and at its admin port."""

import logging
from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest

from libs.cluster.health import health_of
from libs.cluster.image import ClusterImage
from libs.cluster.records import GATEWAY, STORAGE
from libs.rpc.client.rpc_client import RpcClient
from libs.rpc.contracts.log_levels import CHANGE, DESCRIBE, ChangeLogLevels, DescribeLogLevels, LevelChange, LogLevels
from libs.rpc.messages.errors import RpcError
from libs.rpc.messages.schema import unpack
from libs.rpc.server.rpc_server import Hello, RpcServer
from libs.rpc.transport.socket_transport import SocketTransport
from libs.runtime.admin import AdminServer
from libs.runtime.log_level_requests import METHODS
from libs.telemetry.level_switches import Switches
from libs.telemetry.loggers import CONCERNS
from libs.telemetry.metrics import Metrics


@pytest.fixture(autouse=True)
def levels_before() -> Iterator[None]:
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.INFO)
    yield
    root.setLevel(before)
    for name in CONCERNS:
        logging.getLogger(name).setLevel(logging.NOTSET)
    Switches.look()


@pytest.fixture
async def url() -> AsyncIterator[str]:
    admin = AdminServer(
        "127.0.0.1", 0, ready=lambda: (True, ""), health=lambda: health_of(ClusterImage()), metrics=Metrics("test")
    )
    await admin.start()
    yield f"http://127.0.0.1:{admin.port}/debug/log-levels"
    await admin.close()


async def ask(method: str, url: str) -> tuple[int, dict[str, str]]:
    async with aiohttp.ClientSession() as session, session.request(method, url) as response:
        return response.status, await response.json()


async def test_the_admin_port_shows_and_changes_levels(url: str) -> None:
    status, levels = await ask("GET", url)
    assert (status, levels["replication"], levels["kafka.controller"]) == (200, "INFO", "INFO")
    assert await ask("PUT", f"{url}?logger=kafka.controller&level=debug") == (200, {"kafka.controller": "DEBUG"})
    assert logging.getLogger("controller").level == logging.DEBUG
    assert await ask("PUT", f"{url}?logger=root&level=WARN") == (200, {"root": "WARN"})
    assert await ask("DELETE", f"{url}?logger=controller") == (200, {"controller": "WARN"})


@pytest.mark.parametrize(
    ("method", "query", "sentence"),
    [
        ("PUT", "logger=no.such&level=INFO", "Logger no.such does not exist!"),
        ("GET", "logger=log", "there is no parameter 'logger': this page has no parameters"),
        (
            "PUT",
            "logger=log&level=%C4%B1nfo",
            "Cannot set the log level of log to ınfo as it is not a supported log level. "
            "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
        ),
        ("DELETE", "logger=root", "Removing the log level of the root logger is not allowed"),
        ("PUT", "logger=log", "PUT takes these parameters, each once: level, logger"),
        ("PUT", "logger=log&level=INFO&level=WARN", "PUT takes these parameters, each once: level, logger"),
        ("PUT", "logger=log&level=INFO&x=1", "PUT takes these parameters, each once: level, logger"),
        ("DELETE", "logger=log&level=INFO", "DELETE takes these parameters, each once: logger"),
        (
            "PUT",
            "logger=log&level=LOUD",
            "Cannot set the log level of log to LOUD as it is not a supported log level. "
            "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
        ),
    ],
)
async def test_wrong_parameters_are_refused_with_a_sentence(url: str, method: str, query: str, sentence: str) -> None:
    before = await ask("GET", url)
    assert await ask(method, f"{url}?{query}") == (400, {"error": sentence})
    assert await ask("GET", url) == before


@pytest.fixture
async def address() -> AsyncIterator[str]:
    server = RpcServer(lambda: hello(STORAGE), METHODS, transport=SocketTransport())
    yield await server.listen("tcp:127.0.0.1:0")
    await server.close(0.1)


def hello(role: str) -> Hello:
    return Hello(role, 1, 1, "test", 1)


async def call(address: str, method: str, body: object, role: str = GATEWAY) -> dict[str, str]:
    client = RpcClient(address, lambda: hello(role), SocketTransport(), expected=(STORAGE, 1))
    try:
        response = await client.call(method, body, timeout_s=5.0)
        return dict(unpack(LogLevels, response.body).levels)
    finally:
        await client.close()


async def test_a_gateway_sees_and_changes_levels(address: str) -> None:
    changes = (LevelChange("kafka.log.LogCleaner", "TRACE"), LevelChange("of.another.version", "TRACE"), LevelChange("log", None))
    answer = await call(address, CHANGE, ChangeLogLevels(changes, "me"))
    assert (answer["cleaner"], answer["log"]) == ("TRACE", "INFO")
    assert await call(address, DESCRIBE, DescribeLogLevels()) == answer
    assert "of.another.version" not in answer


@pytest.mark.parametrize(
    ("role", "change"),
    [(STORAGE, LevelChange("log", "DEBUG")), (GATEWAY, LevelChange("log", "LOUD")), (GATEWAY, LevelChange("root", None))],
)
async def test_others_and_wrong_levels_are_refused(address: str, role: str, change: LevelChange) -> None:
    with pytest.raises(RpcError):
        await call(address, CHANGE, ChangeLogLevels((change,), "me"), role)
    assert logging.getLogger("log").level == logging.NOTSET
