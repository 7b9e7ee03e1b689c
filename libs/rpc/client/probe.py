"""A probe of whether a process listens at an address: the cheapest sign of a process that has ended."""

from libs.rpc.transport.transport import Stream, Transport


async def refuses(transport: Transport, address: str, timeout_s: float) -> bool:
    """Whether an address refuses connections, so no process listens there. No answer proves nothing, and a process that is
    stopping may accept for a moment."""
    try:
        stream = await transport.connect(address, _Probe, timeout_s)
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    stream.close()
    return False


class _Probe:
    """The receiver of a probe's connection. It reads nothing, since the probe only asks whether a connection can be made."""

    def __init__(self, stream: Stream) -> None:
        self._buffer = memoryview(bytearray(4096))

    def get_buffer(self) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        pass

    def descriptors_received(self, fds: list[int] | None) -> None:
        pass

    def write_ready(self) -> None:
        pass

    def connection_lost(self, reason: Exception | None) -> None:
        pass
