"""An etcd server of our own, a proxy that loses what it should carry, and virtual time."""

import asyncio
import os
import selectors
import shutil
import signal
import subprocess
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.support.certificates import Authority
from tests.support.ports import reserve_ports

T = TypeVar("T")
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def etcd_binary() -> str:
    candidates = [os.environ.get("PENSTOCK_TEST_ETCD_BIN"), REPOSITORY / ".tools/etcd/etcd", shutil.which("etcd")]
    for candidate in candidates:
        if candidate and Path(candidate).is_file():
            return str(candidate)
    pytest.fail("no etcd: set PENSTOCK_TEST_ETCD_BIN, or put the binary at .tools/etcd/etcd or on the PATH")


class EtcdServer:
    """An etcd server of one member on ports of its own. Its data survive `stop` and `start`.

    With an authority it serves clients with a certificate of it, and nobody else.
    """

    def __init__(self, binary: str, folder: Path, authority: Authority | None = None) -> None:
        self._binary = binary
        self._folder = folder
        self.tls: dict[str, object] = {}
        if authority is not None:
            own = authority.sign("etcd", "/O=etcd", usages="serverAuth,clientAuth")
            self.tls = {"cert-file": own, "key-file": own, "trusted-ca-file": authority.certificate, "client-cert-auth": "true"}
        self._ports = reserve_ports(2)
        self._client_port, self._peer_port = self._ports.first, self._ports.first + 1
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self._client_port}"

    def proxy(self) -> "LossyProxy":
        return LossyProxy(self.endpoint)

    def start(self) -> None:
        client, peer = f"{'https' if self.tls else 'http'}://{self.endpoint}", f"http://127.0.0.1:{self._peer_port}"
        flags = {
            "data-dir": self._folder / "data",
            "log-level": "error",
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
            "heartbeat-interval": 10,
            "election-timeout": 100,
            **self.tls,
        }
        arguments = ["--unsafe-no-fsync", *(f"--{name}={value}" for name, value in flags.items())]
        with open(self._folder / "etcd.log", "ab") as log:
            self._process = subprocess.Popen([self._binary, *arguments], stdout=log, stderr=log)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        self.stop()
        self._ports.release()

    def wipe(self) -> None:
        shutil.rmtree(self._folder / "data")

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)  # each of its threads stands still then

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


@pytest.fixture(scope="session")
def shared_etcd(etcd_binary: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    """An etcd server for tests that leave it running and use keys of their own."""
    server = EtcdServer(etcd_binary, tmp_path_factory.mktemp("etcd"))
    server.start()
    yield server
    server.close()


@pytest.fixture
def own_etcd(etcd_binary: str, tmp_path: Path) -> Iterator[EtcdServer]:
    """An etcd server for tests that stop it, wipe it or compact it."""
    server = EtcdServer(etcd_binary, tmp_path)
    server.start()
    yield server
    server.close()


class LossyProxy:
    """A TCP proxy that can lose bytes. It reads and drops the bytes that a test has it lose, and the connection stays open: the
    worst kind of loss."""

    def __init__(self, target: str) -> None:
        self._host, _, self._port = target.partition(":")
        self._server: asyncio.Server | None = None
        self._pumps: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self.swallow_requests = False
        self.swallow_replies = False
        self.endpoint = ""
        self.requested = 0
        """How many bytes of clients it has passed on."""

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.endpoint = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            to_reader, to_writer = await asyncio.open_connection(self._host, int(self._port))
        except OSError:
            writer.close()
            return
        self._writers += [writer, to_writer]
        for source, sink, is_request in ((reader, to_writer, True), (to_reader, writer, False)):
            pump = asyncio.get_running_loop().create_task(self._pump(source, sink, is_request=is_request))
            self._pumps.add(pump)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, is_request: bool) -> None:
        try:
            while data := await source.read(65536):
                if not (self.swallow_requests if is_request else self.swallow_replies):
                    sink.write(data)
                    self.requested += len(data) if is_request else 0
        except OSError:
            pass
        finally:
            sink.close()

    async def reset_connections(self) -> None:
        """Resets connections. This also ends the loss: new connections carry everything."""
        self.swallow_requests = self.swallow_replies = False
        writers, self._writers = self._writers, []
        for writer in writers:
            writer.transport.abort()
        pumps, self._pumps = self._pumps, set()
        await asyncio.gather(*pumps, return_exceptions=True)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        await self.reset_connections()


class _SkippingSelector(selectors.DefaultSelector):
    """A selector that advances the clock where a real one would wait."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "everything waits for something that will never happen"
            self.loop.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time, which passes only when there is nothing else to do."""

    now = 0.0

    def __init__(self) -> None:
        selector = _SkippingSelector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


@pytest.fixture(scope="session")
def virtually() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Runs a coroutine in virtual time: `virtually(scenario())`."""
    return run_virtually
