"""What TLS costs a process: CPU of its event loop for each GB that comes and goes, and the longest turn of it that a flood of
KeyUpdate messages makes. `python -m tests.bench.tls` prints JSON lines.

    [--mb 512] [--rounds 5] [--parent CHECKOUT] [--only KIND]

One stream in a process of its own, with a Python client on the same host: `read` and `write` move 1 MiB at a time, `fetch`
answers requests with 64 KiB of a file behind a header. `--parent` adds the stream of another checkout, set up by its `make
setup`; the two take turns. The median of the rounds, and their least, which other load disturbs less.
"""

import argparse
import asyncio
import json
import os
import selectors
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from libs.rpc.transport.socket_transport import SocketTransport
from libs.rpc.transport.tls_handshakes import Handshakes
from libs.rpc.transport.tls_server import TlsServer, TlsSettings, server_context
from libs.rpc.transport.transport import Stream

READ, WRITE, FETCH, FLOOD = "read", "write", "fetch", "flood"
RECEIVED_AT_ONCE = 524_288
WRITTEN_AT_ONCE = 1 << 20
REQUEST_BYTES, HEADER_BYTES, RANGE_BYTES = 60, 100, 65_536
"""Of a fetch: the request, and the answer of a header and a file range."""
FLOOD_MESSAGES = 40_000
ROOT = Path(__file__).resolve().parents[2]


class TurnWatch(selectors.EpollSelector):
    """It measures the CPU time between two looks for events."""

    def __init__(self) -> None:
        super().__init__()
        self.longest_s = 0.0
        self._began: float | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self._began is not None:
            self.longest_s = max(self.longest_s, time.thread_time() - self._began)
        events = super().select(timeout)
        self._began = time.thread_time()
        return events

    def restart(self) -> None:
        self.longest_s, self._began = 0.0, None


class Measured:
    """The owner of the stream. It receives or writes so many bytes."""

    def __init__(self, stream: Stream, kind: str, size: int, watch: TurnWatch) -> None:
        self._stream = stream
        self._kind = kind
        self._left = size
        self._watch = watch
        self._chunk = memoryview(bytearray(RECEIVED_AT_ONCE))
        self._piece = memoryview(bytearray(WRITTEN_AT_ONCE))
        self._header = bytes(HEADER_BYTES)
        self._range = tempfile.TemporaryFile()  # noqa: SIM115 (it is closed with the stream)
        self._range.write(os.urandom(RANGE_BYTES))
        self._range.flush()
        self._began = 0.0
        self.done = asyncio.Event()
        self.cpu_s = 0.0
        stream.on_secured = self._secured

    def _secured(self) -> None:
        self._watch.restart()
        self._began = time.thread_time()
        if self._kind == WRITE:
            self.write_ready()

    def write_ready(self) -> None:
        if self._kind == WRITE and self._left > 0:
            self._left -= len(self._piece)
            self._stream.write(self._piece)
        elif self._kind == WRITE:
            self._finish()

    def get_buffer(self) -> memoryview:
        return self._chunk

    def buffer_updated(self, nbytes: int) -> None:
        if self._kind == FETCH:
            self._stream.write(self._header)
            self._stream.write_file(self._range.fileno(), 0, RANGE_BYTES, cached=RANGE_BYTES)
            return  # the client ends it
        self._left -= nbytes
        if self._left <= 0:
            self._finish()

    def descriptors_received(self, fds: list[int] | None) -> None:
        raise AssertionError("a TCP connection carries none")

    def connection_lost(self, reason: Exception | None) -> None:
        self._finish()

    def _finish(self) -> None:
        if not self.done.is_set():
            self.cpu_s = time.thread_time() - self._began
            self._range.close()
            self.done.set()


async def _serve(kind: str, size: int, keystore: str, watch: TurnWatch) -> None:
    handshakes = Handshakes()
    server = TlsServer(server_context(TlsSettings(keystore)), handshakes, handshake_s_max=60.0)
    accepted: asyncio.Future[Measured] = asyncio.get_running_loop().create_future()

    def accept(stream: Stream) -> Measured:
        accepted.set_result(Measured(stream, kind, size, watch))
        return accepted.result()

    listener = await SocketTransport().listen("tcp:127.0.0.1:0", accept, tls=server)
    print(listener.address.rpartition(":")[2], flush=True)
    measured = await accepted
    await measured.done.wait()
    await asyncio.sleep(0)
    print(json.dumps({"cpu_s": measured.cpu_s, "longest_turn_ms": watch.longest_s * 1000}), flush=True)
    listener.close()
    handshakes.close()


def _send(connected: socket.socket, context: ssl.SSLContext, size: int, _directory: Path) -> None:
    with context.wrap_socket(connected, server_hostname="localhost") as tls:
        piece = memoryview(bytearray(WRITTEN_AT_ONCE))
        for _ in range(size // len(piece)):
            tls.sendall(piece)


def _receive(connected: socket.socket, context: ssl.SSLContext, size: int, _directory: Path) -> None:
    with context.wrap_socket(connected, server_hostname="localhost") as tls:
        buffer = bytearray(RECEIVED_AT_ONCE)
        while size > 0:
            size -= tls.recv_into(buffer)


def _fetch(connected: socket.socket, context: ssl.SSLContext, size: int, _directory: Path) -> None:
    with context.wrap_socket(connected, server_hostname="localhost") as tls:
        request, buffer = bytes(REQUEST_BYTES), bytearray(RECEIVED_AT_ONCE)
        for _ in range(size // RANGE_BYTES):
            tls.sendall(request)
            left = HEADER_BYTES + RANGE_BYTES
            while left:
                received = tls.recv_into(buffer, left)
                assert received, "the server closed the connection"
                left -= received


def _flood(connected: socket.socket, context: ssl.SSLContext, size: int, directory: Path) -> None:
    from tests.support.tls_records import DATA, RecordClient, Records13

    client = RecordClient.shake_hands(connected, context, directory, version=ssl.TLSVersion.TLSv1_3)
    records = client.records
    assert isinstance(records, Records13)
    content = b"".join(records.key_update() for _ in range(FLOOD_MESSAGES)) + records.record(DATA, bytes(size))
    with connected:
        connected.setblocking(True)
        try:
            connected.sendall(content)
            connected.recv(1)
        except ConnectionError:
            pass  # it was closed for that


LOADS: dict[str, Callable[[socket.socket, ssl.SSLContext, int, Path], None]] = {
    READ: _send,
    WRITE: _receive,
    FETCH: _fetch,
    FLOOD: _flood,
}


def _measure(checkout: Path, kind: str, size: int, directory: Path) -> dict[str, float]:
    from tests.support.certificates import Authority, client_context

    command = [str(checkout / ".venv/bin/python"), "-P", __file__, "--serve", kind, str(size), str(directory / "server.pem")]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    with subprocess.Popen(command, cwd=checkout, env=environment, stdout=subprocess.PIPE, encoding="utf-8") as server:
        assert server.stdout is not None
        connected = socket.create_connection(("127.0.0.1", int(server.stdout.readline())))
        LOADS[kind](connected, client_context(Authority(directory)), size, directory)
        figures: dict[str, float] = json.loads(server.stdout.readline())
    return figures


def tls(mb: int, rounds: int, parent: Path | None, only: str = "") -> list[dict[str, object]]:
    from tests.support.certificates import make_authority

    sides = {"penstock": ROOT, **({"parent": parent} if parent is not None else {})}
    lines: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        make_authority(directory).sign("server", "/O=Penstock/CN=server")
        for kind in filter(only.__contains__, LOADS) if only else LOADS:
            size = 1 if kind == FLOOD else mb << 20
            taken: dict[str, list[float]] = {name: [] for name in sides}
            for _ in range(rounds):
                for name, checkout in sides.items():
                    figures = _measure(checkout, kind, size, directory)
                    value = figures["longest_turn_ms"] if kind == FLOOD else figures["cpu_s"] * 1e9 / size
                    taken[name].append(value)
            unit = f"ms of CPU, longest turn, {FLOOD_MESSAGES} KeyUpdate messages" if kind == FLOOD else "CPU s/GB"
            medians = {name: round(statistics.median(values), 3) for name, values in taken.items()}
            least = {name: round(min(values), 3) for name, values in taken.items()}
            lines.append({"name": f"tls-{kind}", **medians, "least": least, "unit": unit, "rounds": rounds})
    return lines


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--serve"]:
        kind, size, keystore = arguments[1:]
        watch = TurnWatch()
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(watch)) as runner:
            runner.run(_serve(kind, int(size), keystore, watch))
        return 0
    parser = argparse.ArgumentParser(prog="tests.bench.tls", description="The CPU of TLS, as JSON lines.")
    parser.add_argument("--mb", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="kinds, set apart by commas, of: " + ", ".join(LOADS))
    parser.add_argument("--parent", type=Path, help="a checkout of another commit")
    options = parser.parse_args(arguments)
    for line in tls(options.mb, options.rounds, options.parent and options.parent.resolve(), options.only):
        print(json.dumps(line), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
