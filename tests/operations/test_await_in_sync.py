"""The pause before a storage node stops."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from services.operations.await_in_sync import await_in_sync


class Node(BaseHTTPRequestHandler):
    """A storage node's /health: its answers in order, the last one again and again."""

    counts: list[int | None] = []
    """None: an answer that is cut short."""
    asked = 0
    authorization: str | None = None
    """What the last request showed."""

    def do_GET(self) -> None:
        Node.authorization = self.headers["Authorization"]
        count = self.counts[min(Node.asked, len(self.counts) - 1)]
        Node.asked += 1
        self.send_response(503 if count else 200)
        self.end_headers()
        text = json.dumps({"counts": {"under_replicated": count or 0}}).encode()
        self.wfile.write(text[:-3] if count is None else text)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    Node.asked = 0
    server = HTTPServer(("127.0.0.1", 0), Node)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    yield server.server_address[1]
    server.shutdown()
    serving.join()
    server.server_close()


def test_a_node_stops_at_once_while_all_replicas_are_in_sync(port: int) -> None:
    Node.counts = [0]
    said: list[str] = []
    await_in_sync("127.0.0.1", port, 60.0, said.append)
    assert said == ["all replicas are in sync"]
    assert Node.asked == 1


def test_a_node_with_a_token_is_asked_with_it(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("0123456789abcdef\n", encoding="ascii")
    monkeypatch.setenv("PENSTOCK_ADMIN_TOKEN_FILE", str(tmp_path / "token"))
    Node.counts = [0]
    await_in_sync("127.0.0.1", port, 60.0, lambda _: None)
    assert Node.authorization == "Bearer 0123456789abcdef"


def test_a_node_waits_for_the_replicas_of_others(port: int) -> None:
    Node.counts = [2, 1, 0]
    said: list[str] = []
    await_in_sync("127.0.0.1", port, 60.0, said.append)
    assert said == ["all replicas are in sync"]
    assert Node.asked == 3


def test_a_node_waits_no_longer_than_it_may(port: int) -> None:
    Node.counts = [2]
    said: list[str] = []
    await_in_sync("127.0.0.1", port, 0.1, said.append)
    assert said == ["2 partitions are under-replicated"]


def test_an_answer_that_tells_nothing_does_not_count_as_in_sync(port: int) -> None:
    Node.counts = [None, 1, 0]
    said: list[str] = []
    await_in_sync("127.0.0.1", port, 60.0, said.append)
    assert said == ["all replicas are in sync"]
    assert Node.asked == 3


def test_a_node_that_does_not_answer_is_waited_for_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.operations.await_in_sync.ANSWER_S", 0.05)
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        await_in_sync("127.0.0.1", silent.getsockname()[1], 0.1, said.append)
    assert said == ["/health is not answered: timed out"]


def test_a_node_whose_process_is_gone_stops_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    said: list[str] = []
    await_in_sync("127.0.0.1", port, 60.0, said.append)
    assert said == ["all replicas are in sync"]
