"""What kube-proxy does, as a relay: connections to a Service's address go to its ready pods in turn."""

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Sequence

from tests.deploy.chart.pods import Pod
from tests.deploy.chart.rendering import Object

CHUNK = 1 << 18


class ServiceProxy:
    """`serve` listens at `address` until it is cancelled."""

    def __init__(self, service: Object, address: str, endpoints: Callable[[], Sequence[Pod]]) -> None:
        self._ports = {port["port"]: port["targetPort"] for port in service["spec"]["ports"]}
        self._address, self._endpoints = address, endpoints
        self._turn = itertools.count()
        self._relays: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            for port, target in self._ports.items():
                server = await asyncio.start_server(self._accept(target), self._address, port)
                stack.push_async_callback(_close, server)
            await asyncio.Event().wait()

    def _accept(self, target: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            relay = asyncio.ensure_future(self._relay(target, reader, writer))
            self._relays.add(relay)
            relay.add_done_callback(self._relays.discard)

        return accept

    async def _relay(self, target: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pods = self._endpoints()
        try:
            if not pods:
                raise ConnectionRefusedError("no pod is ready")
            pod = pods[next(self._turn) % len(pods)]
            to_pod = await asyncio.open_connection(pod.address, target)
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(_copy(reader, to_pod[1]), _copy(to_pod[0], writer))


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while chunk := await source.read(CHUNK):
            target.write(chunk)
            await target.drain()
    except OSError:
        pass
    finally:
        target.close()


async def _close(server: asyncio.Server) -> None:
    server.close()
