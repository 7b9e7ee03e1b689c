"""A node that starts again takes the listening socket that a sibling kept, if its settings still ask for that address."""

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import cast

import pytest

from libs.clock import SystemClock
from libs.rpc.transport.socket_transport import SocketTransport
from services.gateway.config import GatewayConfig
from services.gateway.gateway_meters import GatewayMeters
from services.gateway.net.client_listeners import ClientListeners
from services.gateway.net.connections import Connections
from services.gateway.peers.scram_credentials import CredentialFollower
from services.node.sibling_link import copies
from tests.support.ports import reserve_ports

BROKER = 1


class NoConnections:
    def accept(self, *_: object) -> None:
        raise AssertionError("nobody connects")

    def accept_wait_s(self, _broker_id: int) -> float:
        return 0.0


class NoCredentials:
    async def start(self) -> None: ...

    async def close(self) -> None: ...


def listeners_of(host: str, port: int, name: str = "PLAINTEXT", sasl_listener: str = "") -> ClientListeners:
    return ClientListeners(
        GatewayConfig(
            node_id=BROKER,
            etcd=(),
            data_dir="",
            listen_host=host,
            port_base=port - BROKER,
            listener_name=name,
            sasl_listener=sasl_listener,
        ),
        SocketTransport(),
        cast("Connections", NoConnections()),
        cast("CredentialFollower", NoCredentials()),
        cast("GatewayMeters", None),
        SystemClock(),
        frozenset([BROKER]),
    )


@asynccontextmanager
async def started(
    inherited: Mapping[str, socket.socket], host: str, port: int, name: str = "PLAINTEXT"
) -> AsyncIterator[socket.socket]:
    """The socket that a node of these settings then has."""

    async def inherit() -> Mapping[str, socket.socket]:
        return inherited

    listeners = listeners_of(host, port, name)
    listeners.inherit = inherit
    await listeners.start({BROKER})
    try:
        assert listeners.sockets(BROKER).keys() == {name}
        yield listeners.sockets(BROKER)[name]
    finally:
        listeners.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("name", ["PLAINTEXT", "INTERNAL"])
async def test_a_socket_at_the_address_of_the_settings_is_taken_whatever_its_listener_was_called(host: str, name: str) -> None:
    inherited = socket.create_server(("127.0.0.1", 0))
    inherited.setblocking(False)
    with copies({"kept": inherited})["kept"]:  # a sibling has it, too
        async with started({"PLAINTEXT": inherited}, host, inherited.getsockname()[1], name) as listening:
            assert listening is inherited


async def test_a_socket_that_siblings_know_by_two_names_is_taken_once() -> None:
    inherited = socket.create_server(("127.0.0.1", 0))
    inherited.setblocking(False)
    again = copies({"FORMER": inherited})
    async with started({"PLAINTEXT": inherited, **again}, "127.0.0.1", inherited.getsockname()[1]) as listening:
        assert listening is inherited
        assert listening.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
    assert again["FORMER"].fileno() == -1


async def test_a_socket_at_a_former_address_is_closed_in_all_processes() -> None:
    """One that listened on all addresses does not outlive a change to loopback, nor a former port that to another one."""
    ports = reserve_ports(2)
    try:
        for former_host, port in (("0.0.0.0", ports.first), ("127.0.0.1", ports.first + 1)):
            former = socket.create_server((former_host, ports.first))
            with copies({"kept": former})["kept"] as kept:
                async with started({"PLAINTEXT": former}, "127.0.0.1", port) as listening:
                    assert listening.getsockname() == ("127.0.0.1", port)
                assert former.fileno() == -1
                assert kept.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 0
    finally:
        ports.release()


async def test_a_sibling_takes_a_port_over_whose_listener_has_another_name() -> None:
    """As while the nodes of a host are restarted one by one with a new name."""
    with socket.create_server(("127.0.0.1", 0)) as port, socket.create_server(("127.0.0.1", 0)) as elsewhere:
        sibling = listeners_of("127.0.0.1", port.getsockname()[1] - 1)
        sibling.take(BROKER + 1, {"RENAMED": port, "UNKNOWN": elsewhere})
        assert sibling.sockets(BROKER + 1) == {"PLAINTEXT": port}
        assert elsewhere.fileno() == -1
        sibling.close()


@pytest.mark.parametrize("names", [("PLAINTEXT", "SASL_PLAINTEXT"), ("FORMER", "OTHER")])
async def test_a_sibling_takes_the_sockets_of_two_listeners_at_one_port_of_different_hosts(names: tuple[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as plaintext:
        port = plaintext.getsockname()[1]
        with socket.create_server(("127.0.0.2", port)) as sasl:
            sibling = listeners_of("127.0.0.1", port - 1, sasl_listener=f"SASL_PLAINTEXT://127.0.0.2:{port - 1 - BROKER}")
            sibling.take(BROKER + 1, dict(zip(names, (plaintext, sasl), strict=True)))
            assert sibling.sockets(BROKER + 1) == {"PLAINTEXT": plaintext, "SASL_PLAINTEXT": sasl}
            sibling.close()


async def test_a_socket_goes_to_the_listener_at_its_address_where_settings_name_hosts() -> None:
    """Clients of a listener with SASL must not come to the one that asks nobody."""
    ports = reserve_ports(2)
    sibling = listeners_of("127.0.0.2", ports.first, sasl_listener=f"SASL_PLAINTEXT://localhost:{ports.first - BROKER}")
    try:
        await sibling.start({BROKER})
        sasl, plaintext = (socket.create_server((host, ports.first + 1)) for host in ("127.0.0.1", "127.0.0.2"))
        with sasl, plaintext:
            sibling.take(BROKER + 1, {"FORMER": sasl, "OTHER": plaintext})
            assert sibling.sockets(BROKER + 1) == {"PLAINTEXT": plaintext, "SASL_PLAINTEXT": sasl}
    finally:
        sibling.close()
        await sibling.closed()
        ports.release()


async def test_a_socket_is_closed_where_any_of_two_listeners_could_have_it() -> None:
    with socket.create_server(("127.0.0.3", 0)) as unknown:
        port = unknown.getsockname()[1]
        sibling = listeners_of("127.0.0.2", port - 1, sasl_listener=f"SASL_PLAINTEXT://localhost:{port - 1 - BROKER}")
        sibling.take(BROKER + 1, {"FORMER": unknown})
        assert sibling.sockets(BROKER + 1) == {}
        assert unknown.fileno() == -1
        sibling.close()


async def test_a_socket_that_was_taken_by_its_name_says_nothing_about_its_listeners_address() -> None:
    """Another sibling had the two names the other way round."""
    ports = reserve_ports(3)
    sibling = listeners_of("127.0.0.2", ports.first, sasl_listener=f"SASL_PLAINTEXT://localhost:{ports.first - BROKER}")
    try:
        await sibling.start({BROKER})
        swapped, sasl = (socket.create_server(("127.0.0.1", ports.first + number)) for number in (1, 2))
        with swapped, sasl:
            sibling.take(BROKER + 1, {"PLAINTEXT": swapped})
            sibling.take(BROKER + 2, {"FORMER": sasl})
            assert sibling.sockets(BROKER + 2) == {"SASL_PLAINTEXT": sasl}
    finally:
        sibling.close()
        await sibling.closed()
        ports.release()
