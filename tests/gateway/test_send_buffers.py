"""Send buffers of client connections: Kafka's default size, another one, or the kernel's choice."""

import dataclasses
import socket
from typing import Any

import pytest

from libs.rpc.transport.socket_stream import SocketStream
from libs.rpc.transport.transport import KERNELS_CHOICE
from tests.gateway.conftest import Rig

KERNEL_ADDS = 2
"""Linux takes twice what it is asked for, for its own books."""


def kernels_choice() -> int:
    with socket.socket() as fresh:
        return fresh.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The send buffers of the TCP streams that the gateway accepted."""
    found: list[int] = []

    def made(connected: socket.socket, **how: Any) -> SocketStream:
        if connected.family == socket.AF_INET:
            found.append(connected.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF))
        return SocketStream(connected, **how)

    monkeypatch.setattr("libs.rpc.transport.socket_transport.SocketStream", made)
    return found


@pytest.mark.parametrize("broker_id", [0, 1], ids=["bootstrap", "broker"])
@pytest.mark.parametrize("asked", [None, 40_000, KERNELS_CHOICE])
async def test_a_client_connection_has_the_send_buffer_that_is_set(
    rig: Rig, sizes: list[int], broker_id: int, asked: int | None
) -> None:
    await rig.start(**({} if asked is None else {"socket_send_buffer_bytes": asked}))
    client = await rig.client(broker_id)
    await client.close()
    (size,) = sizes
    if asked == KERNELS_CHOICE:
        assert size >= kernels_choice()
    else:
        assert size == KERNEL_ADDS * (asked or 102_400)


@pytest.mark.parametrize("asked", [0, -2])
def test_a_buffer_without_room_is_refused(rig: Rig, asked: int) -> None:
    config = dataclasses.replace(rig.config, socket_send_buffer_bytes=asked)
    assert "PENSTOCK_SOCKET_SEND_BUFFER_BYTES" in str(config.problem())
