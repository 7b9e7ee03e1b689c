"""docs/operate/tracing.md: from nothing to a traced message in Zipkin, and to the reason of a slow request, as it is printed."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.trace_pictures import slow_produce, wait_for_zipkin
from tests.support.browser import photograph, shown, size_of
from tests.support.polling import eventually
from tests.support.printed_commands import PrintedCommands, printed_commands
from tests.support.requirements import ROOT, require

BLANK_BYTES_MAX = 20_000
"""A PNG of that size with nothing but a colour has some 5 kB, and one of the pages 80."""
PAGE = ROOT / "docs" / "operate" / "tracing.md"


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrintedCommands]:
    require("java", "zipkin", "kcat", "etcd")
    with printed_commands(PAGE, tmp_path_factory.mktemp("tracing")) as ready:
        ready.section("A trace UI")
        yield ready


def test_a_message_is_found_in_zipkin_with_the_stages_of_all_processes(commands: PrintedCommands) -> None:
    query = "127.0.0.1:9138/api/v2/traces?serviceName=penstock-gateway&spanName=produce%20orders"

    def whole_trace() -> list[dict[str, object]]:
        traces = json.loads(commands.sh(f"curl -s '{query}'"))
        return next((trace for trace in traces if {"penstock-gateway", "penstock-storage"} <= services_of(trace)), [])

    names = {str(span["name"]) for span in eventually(whole_trace)}
    assert {"produce orders", "append orders", "replication wait"} <= names
    assert names & {"follower 1", "follower 2", "follower 3"}
    assert "zipkin " in commands.sh("make status")


def services_of(trace: list[dict[str, dict[str, str]]]) -> set[str]:
    return {span["localEndpoint"]["serviceName"] for span in trace}


def test_the_reason_of_a_slow_request_is_found(commands: PrintedCommands) -> None:
    printed = commands.section("Why was that slow?")
    assert '"name": "Produce orders"' in printed
    took_ms = dict(re.findall(r'"name": "([^"]+)",\s+"at_ms": [\d.]+,\s+"duration_ms": ([\d.]+)', printed))
    slowest = max((name for name in took_ms if name.startswith("follower ")), key=lambda name: float(took_ms[name]))
    stopped = printed.splitlines()[0]
    assert float(took_ms["Produce orders"]) > 500
    assert slowest == stopped.replace("storage-", "follower "), took_ms


def test_a_browser_shows_the_stages_of_that_request(commands: PrintedCommands, tmp_path: Path) -> None:
    """The pictures of the page are made like these (`python -m tests.docs.trace_pictures`)."""
    require("chromium")
    trace_id = slow_produce(commands)
    wait_for_zipkin(commands, trace_id)
    admin, zipkin = (commands.sh(f"printf 127.0.0.1:{port}") for port in (9149, 9138))
    for name, url in (
        ("page", f"http://{admin}/debug/traces/{trace_id}"),
        ("zipkin", f"http://{zipkin}/zipkin/traces/{trace_id}"),
    ):
        document = shown(url).lower()
        assert [stage for stage in ("produce orders", "append orders", "replication wait") if stage not in document] == [], name
        photograph(url, picture := tmp_path / f"{name}.png", 1400, 700)
        assert size_of(picture) == (1400, 700)
        assert picture.stat().st_size > BLANK_BYTES_MAX, f"{name} is blank"


def test_a_trace_ui_that_is_down_is_told_and_costs_nothing_else(commands: PrintedCommands) -> None:
    commands.end("zipkin")
    assert commands.sh("echo more | kcat -P -b 127.0.0.1:9092 -t orders -X acks=all; make -s status").startswith("healthy")
    commands.sh("make up")
