"""The request log: each request has its lines, whichever way it begins. Switched off, it is not even called."""

import logging
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType

import pytest

from libs.telemetry.level_switches import Switches
from libs.telemetry.log_levels import set_level
from libs.telemetry.logs import LineFormatter
from libs.wire.api_keys import ApiKey
from services.gateway.requests import request_log
from tests.gateway.fake_groups import request_body, send
from tests.gateway.kafka_client import RawClient
from tests.gateway.metadata_requests import NO_TOPICS
from tests.gateway.produce_requests import BATCH
from tests.gateway.whole_rig import NAMED_IN_A_LIST, RELAYED, Asked, Cluster, fetch, listed, produce, versions
from tests.support.polling import until
from tests.support.ports import reserve_ports

REQUESTS = logging.getLogger("requests")
BEGUN, ANSWERED, UNANSWERED = "request begun", "request answered", "request not answered"


@pytest.fixture(autouse=True)
def own_level() -> Iterator[None]:
    set_level("requests", "INFO", "the test")
    yield
    REQUESTS.setLevel(logging.NOTSET)
    Switches.look()


@pytest.fixture
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    ports = reserve_ports(10)
    cluster = Cluster(ports, Path("/tmp") / tmp_path_factory.mktemp("rl").name)
    cluster.rig.directory.mkdir(exist_ok=True)
    try:
        await cluster.start(shortcuts=True)
        yield cluster
    finally:
        await cluster.stop()
        ports.release()


def lines(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, object]]:
    return [record.__dict__["fields"] for record in caplog.records if record.name == "requests" and record.message == event]


async def exchange(client: RawClient, asked: Asked, number: int) -> int:
    """The bytes of an answer, with its length prefix."""
    key, version, body = asked
    send(client, key, version, body, correlation_id=number)
    return len((await client.answer())[1].view) + 4


def relayed(key: ApiKey) -> Asked:
    version = min(versions(key).stop, NAMED_IN_A_LIST.get(key, 99)) - 1
    return key, version, request_body(key, version, RELAYED[key](0))


BY_HANDLER: Asked = (ApiKey.METADATA, 1, NO_TOPICS)
WITH_SHORTCUT: dict[str, Callable[[], Asked]] = {
    "PRODUCE": lambda: produce(9),
    "FETCH": lambda: fetch(12, 0),
    "LIST_OFFSETS": lambda: listed(7, -1),
    **{key.name: lambda key=key: relayed(key) for key in RELAYED},  # type: ignore[misc]
}


@pytest.mark.parametrize("api", WITH_SHORTCUT)
async def test_a_request_that_begins_by_a_shortcut_has_its_lines(
    api: str, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    set_level("requests", "TRACE", "the test")
    client, asked = await cluster.rig.client(1), WITH_SHORTCUT[api]()
    sizes = [await exchange(client, asked, number) for number in range(3)]
    begun, answered = lines(caplog, BEGUN), lines(caplog, ANSWERED)
    assert [line["shortcut"] for line in begun] == [False, *[api != "LIST_OFFSETS"] * 2], "that one is parsed first"
    assert [line["answer_bytes"] for line in answered] == sizes
    for of_kind in (begun, answered):
        assert [(line["api"], line["version"], line["correlation_id"]) for line in of_kind] == [
            (api, asked[1], number) for number in range(3)
        ]
        assert {line["peer"] for line in of_kind} == {connection.peer for connection in cluster.rig.gateway.connections}
        assert all(int(str(line["bytes"])) > len(asked[2]) for line in of_kind)
    assert all(0 <= float(str(line["in_all_ms"])) < 60_000 for line in answered)


async def test_stages_add_up_where_another_process_answers(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    set_level("requests", "DEBUG", "the test")
    client = await cluster.rig.client(1)
    await exchange(client, produce(9), 0)
    (line,) = lines(caplog, ANSWERED)
    times = {name: float(str(value)) for name, value in line.items() if name.endswith("_ms")}
    assert sum(times.values()) - times["in_all_ms"] == pytest.approx(times["in_all_ms"], abs=0.01)
    assert times["remote_ms"] > 0
    assert lines(caplog, BEGUN) == [], "that is TRACE"


async def test_a_request_of_a_handler_and_one_without_an_answer_have_lines(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    set_level("requests", "TRACE", "the test")
    client = await cluster.rig.client(1)
    send(client, *produce(9, acks=0), correlation_id=1)
    await exchange(client, BY_HANDLER, 2)
    assert [(line["api"], line["shortcut"]) for line in lines(caplog, BEGUN)] == [("PRODUCE", False), ("METADATA", False)]
    answered = [(line["api"], line["answer_bytes"] == 0) for line in lines(caplog, ANSWERED)]
    assert answered == [("PRODUCE", True), ("METADATA", False)]


async def test_a_request_whose_client_hangs_up_has_a_line_with_the_reason(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    set_level("requests", "DEBUG", "the test")
    client = await cluster.rig.client(1)
    cluster.rig.nodes[1].holding = True
    send(client, *produce(9), correlation_id=5)
    await until(lambda: any(connection.queued_bytes for connection in cluster.rig.gateway.connections))
    await client.close()
    await until(lambda: lines(caplog, UNANSWERED))
    (line,) = lines(caplog, UNANSWERED)
    assert (line["api"], line["correlation_id"], line["reason"]) == ("PRODUCE", 5, "client")
    cluster.rig.nodes[1].holding = False


async def test_no_line_has_anything_of_a_request_or_an_answer_but_sizes(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    set_level("requests", "TRACE", "the test")
    client = await cluster.rig.client(1)
    for number, asked in enumerate([produce(9), produce(9), fetch(12, 0), listed(7, -1), relayed(ApiKey.END_TXN)]):
        await exchange(client, asked, number)
    texts = [LineFormatter("gateway", "gateway-1").format(record) for record in caplog.records if record.name == "requests"]
    assert len(texts) == 10
    names = {line.partition(" event=")[2] for line in texts}
    assert not [text for text in names for secret in ("some transaction", "some group", repr(BATCH)[2:40]) if secret in text]
    known = {"api", "version", "correlation_id", "client_id", "peer", "principal", "broker_id", "bytes", "shortcut"}
    known |= {"answer_bytes", "in_all_ms", "queued_ms", "local_ms", "remote_ms", "answer_queued_ms", "throttled_ms"}
    assert {name for event in (BEGUN, ANSWERED) for line in lines(caplog, event) for name in line} == known


class Calls:
    """Calls of Python functions, by their code."""

    def __init__(self) -> None:
        self.of: Counter[CodeType] = Counter()

    def __enter__(self) -> "Calls":
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self.of[frame.f_code] += 1

    def in_file(self, path: str | None) -> int:
        assert path is not None
        return sum(count for code, count in self.of.items() if code.co_filename == path)


@pytest.mark.parametrize("api", [*WITH_SHORTCUT, "METADATA"])
async def test_switched_off_a_request_calls_nothing_of_any_log(api: str, cluster: Cluster) -> None:
    client = await cluster.rig.client(1)
    asked = WITH_SHORTCUT[api]() if api in WITH_SHORTCUT else BY_HANDLER
    for number in range(3):
        await exchange(client, asked, number)
    with Calls() as off:
        for number in range(20):
            await exchange(client, asked, number)
    assert (off.in_file(request_log.__file__), off.in_file(logging.__file__)) == (0, 0)
    assert sum(off.of.values()) > 100
    set_level("requests", "DEBUG", "the test")
    with Calls() as on:
        await exchange(client, asked, 0)
    assert on.in_file(request_log.__file__) > 0
