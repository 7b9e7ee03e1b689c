"""Who may call what: the table, and what of it a server lets through to its handlers."""

import asyncio
import logging
import socket
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

import pytest

from libs.roles import CONTROLLER, GATEWAY, QUOTA_MANAGER, ROLES, STORAGE
from libs.rpc import contracts
from libs.rpc.client.rpc_client import RpcClient
from libs.rpc.contracts.callers import CALLERS, Callers
from libs.rpc.contracts.controller import CREATE_TOPICS, HEARTBEAT
from libs.rpc.contracts.peers import IMAGE, IMAGE_AT
from libs.rpc.contracts.replication import PROGRESS, PULL
from libs.rpc.contracts.storage import APPEND, LOG_ENDS, OPEN_FILE
from libs.rpc.messages.envelope import Hello
from libs.rpc.messages.errors import CLUSTER_AUTHORIZATION_FAILED, Disconnected, RpcError, RpcFailure
from libs.rpc.server.call import Call, Peer
from libs.rpc.server.denied_calls import DeniedCalls
from libs.rpc.server.rpc_server import RpcServer
from libs.rpc.transport.socket_transport import SocketTransport
from tests.rpc.conftest import Network
from tests.support.polling import until

CLUSTER = "c"


def methods_of_contracts() -> Iterator[str]:
    """The names of all methods: what a module of contracts calls by a name in capitals, and has a dot."""
    for module in iter_modules(contracts.__path__):
        for name, value in vars(import_module(f"{contracts.__name__}.{module.name}")).items():
            if name.isupper() and isinstance(value, str) and "." in value:
                yield value


class Recorded:
    """A server with a handler for every method, and the calls that reached one."""

    def __init__(self, network: Network, address: str, server: RpcServer) -> None:
        self.network, self.address, self.server = network, address, server
        self.reached: list[str] = []

    async def client(self, hello: Hello) -> RpcClient:
        return await self.network.client(self.address, hello=hello)

    async def try_all(self, hello: Hello) -> set[str]:
        """The methods that answer a caller. Those that end its connection count as denied."""
        client = await self.client(hello)
        self.reached.clear()
        answered, codes = set(), set()
        for method in CALLERS:
            try:
                await client.call(method, [], timeout_s=30)
            except RpcError as error:
                codes.add(error.code)
            except Disconnected:
                assert not hello.cluster_id
            else:
                answered.add(method)
        assert set(self.reached) == answered
        assert codes <= {CLUSTER_AUTHORIZATION_FAILED}
        return answered


async def recorded(network: Network, address: str, *, cluster_id: str = CLUSTER) -> Recorded:
    def accept(call: Call) -> None:
        record.reached.append(call.method)
        call.reply([])

    hello = Hello(STORAGE, 1, 1, "test", 1, cluster_id)
    server, at = await network.serve(address, dict.fromkeys(CALLERS, accept), hello=hello, callers=CALLERS)
    record = Recorded(network, at, server)
    return record


def test_every_method_of_every_contract_has_a_row() -> None:
    methods = list(methods_of_contracts())
    assert len(methods) > 40
    assert set(methods) == set(CALLERS)


def test_rows_name_roles_that_there_are() -> None:
    assert all(row.roles and row.roles <= ROLES for row in CALLERS.values())


def test_a_server_does_not_serve_a_method_that_the_table_lacks() -> None:
    with pytest.raises(ValueError, match=r"nobody may call storage\.new: libs"):
        RpcServer(Hello(STORAGE, 1, 1, "test", 1), {"storage.new": lambda call: None}, transport=SocketTransport())


def test_descriptors_of_files_are_for_gateways_and_followers() -> None:
    assert CALLERS[OPEN_FILE].roles == {GATEWAY, STORAGE}


# The impostor's trial: every role, and every method


@pytest.mark.parametrize("role", sorted(ROLES))
async def test_a_role_reaches_what_the_table_allows_it_and_nothing_else(network: Network, short_dir: str, role: str) -> None:
    record = await recorded(network, f"unix:{short_dir}/s")
    allowed = {method for method, row in CALLERS.items() if role in row.roles}
    assert await record.try_all(Hello(role, 1, 1 << 60, "test", 1, CLUSTER)) == allowed
    denied = set(CALLERS) - allowed
    assert record.server.denied.denied == {(role, method): 1 for method in denied}


@pytest.mark.parametrize("role", sorted(ROLES))
async def test_who_names_no_node_reaches_questions_only(network: Network, short_dir: str, role: str) -> None:
    record = await recorded(network, f"unix:{short_dir}/s")
    expected = {method for method, row in CALLERS.items() if role in row.roles and row.without_node_id}
    assert await record.try_all(Hello(role, -1, 1, "test", 1, CLUSTER)) == expected
    assert not expected & {APPEND, PULL, OPEN_FILE, HEARTBEAT, CREATE_TOPICS}


@pytest.mark.parametrize("node_id", [1, -1])
async def test_who_does_not_name_the_cluster_may_borrow_its_image_only(network: Network, short_dir: str, node_id: int) -> None:
    record = await recorded(network, f"unix:{short_dir}/s")
    for role in ROLES:
        client = await record.client(Hello(role, node_id, 1, "test", 1, ""))
        for method in (IMAGE_AT, IMAGE):
            await client.call(method, [], timeout_s=30)
        with pytest.raises(Disconnected):
            await client.call(HEARTBEAT if node_id >= 0 else LOG_ENDS, [], timeout_s=30)
    assert set(record.reached) == {IMAGE_AT, IMAGE}


async def test_a_stranger_without_the_cluster_id_ends_nobody(network: Network, short_dir: str) -> None:
    record = await recorded(network, f"unix:{short_dir}/s")
    gateway = await record.client(Hello(GATEWAY, 1, 7, "test", 1, CLUSTER))
    stranger = await record.client(Hello(GATEWAY, 1, 1 << 60, "test", 1, ""))
    with pytest.raises(Disconnected):
        await stranger.call(APPEND, [], timeout_s=30)
    assert record.reached == []
    await gateway.call(APPEND, [], timeout_s=30)
    again = await record.client(Hello(GATEWAY, 1, 7, "test", 1, CLUSTER))
    await again.call(APPEND, [], timeout_s=30)


async def test_no_other_role_is_heard(network: Network, short_dir: str) -> None:
    record = await recorded(network, f"unix:{short_dir}/s")
    client = await network.client(record.address, hello=Hello("tool", 1, 1, "test", 1, CLUSTER), ready=False)
    with pytest.raises(RpcFailure):
        await client.call(IMAGE_AT, [], timeout_s=30)
    assert record.reached == []
    assert record.server.refused == 1


# A cluster that has no id yet


async def test_processes_of_a_cluster_that_is_new_talk_before_it_has_an_id(network: Network, short_dir: str) -> None:
    known = [""]
    calls: list[str] = []

    def accept(call: Call) -> None:
        calls.append(call.peer.cluster_id)
        call.reply([])

    server, at = await network.serve(
        f"unix:{short_dir}/s", {HEARTBEAT: accept}, hello=lambda: Hello(CONTROLLER, 1, 1, "test", 1, known[0]), callers=CALLERS
    )
    client = await network.client(at, hello=lambda: Hello(STORAGE, 1, 1, "test", 1, known[0]))
    await client.call(HEARTBEAT, [], timeout_s=30)
    known[0] = CLUSTER
    with pytest.raises(Disconnected):  # from now on its hello has to name the cluster, and the next connection's does
        await client.call(HEARTBEAT, [], timeout_s=30)
    await client.call(HEARTBEAT, [], timeout_s=30)
    assert calls == ["", CLUSTER]
    assert server.refused == 0


async def test_the_table_holds_while_a_cluster_has_no_id(network: Network, short_dir: str) -> None:
    record = await recorded(network, f"unix:{short_dir}/s", cluster_id="")
    client = await record.client(Hello(QUOTA_MANAGER, 1, 1, "test", 1, ""))
    with pytest.raises(RpcError, match=r"quota_manager 1 may not call storage\.append"):
        await client.call(APPEND, [], timeout_s=30)
    await client.call(HEARTBEAT, [], timeout_s=30)
    assert record.reached == [HEARTBEAT]


# What a denied caller and an operator hear


async def test_a_denied_call_is_answered_counted_and_logged_once_in_a_while(
    network: Network, short_dir: str, caplog: pytest.LogCaptureFixture
) -> None:
    record = await recorded(network, f"unix:{short_dir}/s")
    client = await record.client(Hello(QUOTA_MANAGER, 3, 1, "test", 1, CLUSTER))
    with caplog.at_level(logging.WARNING, "network"):
        for _ in range(20):
            with pytest.raises(RpcError, match=r"quota_manager 3 may not call storage\.append \(error 31\)"):
                await client.call(APPEND, [], timeout_s=30)
    assert record.server.denied.denied == {(QUOTA_MANAGER, APPEND): 20}
    assert [line.getMessage() for line in caplog.records] == ["call denied"]


async def test_a_one_way_message_that_its_sender_may_not_send_reaches_no_handler(network: Network, short_dir: str) -> None:
    record = await recorded(network, f"unix:{short_dir}/s")
    client = await record.client(Hello(GATEWAY, 3, 1, "test", 1, CLUSTER))
    assert client.oneway(PROGRESS, [])
    await until(lambda: record.server.denied.denied == {(GATEWAY, PROGRESS): 1})
    assert record.reached == []


async def test_a_body_that_names_another_sender_is_denied_and_counted(network: Network, short_dir: str) -> None:
    def accept(call: Call) -> None:
        call.peer.require_sender(2, 1)

    denied = DeniedCalls()
    _, at = await network.serve(
        f"unix:{short_dir}/s", {PULL: accept}, hello=Hello(STORAGE, 9, 1, "test", 1, CLUSTER), callers=CALLERS, denied=denied
    )
    own = await network.client(at, hello=Hello(STORAGE, 1, 1, "test", 1, CLUSTER))
    with pytest.raises(RpcError, match="storage 1 in incarnation 1 speaks for storage 2 in incarnation 1"):
        await own.call(PULL, [], timeout_s=30)
    assert denied.denied == {(STORAGE, PULL): 1}


@pytest.mark.parametrize(("node_id", "incarnation", "role"), [(1, 8, STORAGE), (2, 7, STORAGE), (1, 7, GATEWAY)])
def test_a_caller_speaks_for_itself_only(node_id: int, incarnation: int, role: str) -> None:
    peer = Peer(STORAGE, 1, 7, "test", 1, CLUSTER, None, "somewhere", 1)
    peer.require_sender(1, 7)
    peer.require_sender(1, 7, STORAGE)
    with pytest.raises(RpcError, match="storage 1 in incarnation 7 speaks for"):
        peer.require_sender(node_id, incarnation, role)


async def test_a_long_frame_before_the_hello_is_refused(network: Network, short_dir: str) -> None:
    server, _ = await network.serve(f"unix:{short_dir}/s", {"echo": lambda call: call.reply([])}, max_frame=1 << 30)
    connected = socket.socket(socket.AF_UNIX)
    with connected:
        connected.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(connected, f"{short_dir}/s")
        await loop.sock_sendall(connected, (1 << 20).to_bytes(4, "big"))
        await until(lambda: server.refused == 1)


def test_a_row_is_of_known_flags() -> None:
    """A hello without a cluster id, or without a node id, opens no method that changes anything."""
    open_ones = {method for method, row in CALLERS.items() if row.without_cluster_id or row.without_node_id}
    assert open_ones == {IMAGE_AT, IMAGE, "traces.list", "traces.spans", LOG_ENDS}
    assert CALLERS[IMAGE] == Callers(ROLES, True, True)
