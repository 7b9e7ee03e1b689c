"""TLS between processes: who shows which certificate, and what it must name."""

import asyncio
import logging
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from libs.pem_files import Unusable
from libs.roles import CONTROLLER, GATEWAY, STORAGE
from libs.rpc.client.probe import refuses
from libs.rpc.client.rpc_client import RpcClient
from libs.rpc.contracts.callers import CALLERS
from libs.rpc.contracts.controller import HEARTBEAT
from libs.rpc.contracts.peers import IMAGE_AT
from libs.rpc.contracts.storage import APPEND
from libs.rpc.messages.envelope import Hello, pack_hello
from libs.rpc.messages.errors import EnvelopeError, RpcFailure
from libs.rpc.messages.peer_names import PeerName, names_in, require_named
from libs.rpc.server.call import Call
from libs.rpc.server.rpc_server import RpcServer
from libs.rpc.transport.peer_tls import PeerTls, PeerTlsFiles, peer_contexts
from libs.rpc.transport.socket_transport import SocketTransport
from tests.support.certificates import Authority, certified, make_authority
from tests.support.polling import until
from tests.support.printed_blocks import blocks_of, section_of
from tests.support.requirements import ROOT

CLUSTER = "cLuster-1"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Callable[..., PeerTlsFiles]:
    made: dict[tuple[str, ...], PeerTlsFiles] = {}

    def of(*uris: str) -> PeerTlsFiles:
        if uris not in made:
            made[uris] = certified(authority, tmp_path_factory.mktemp("peer"), *uris)
        return made[uris]

    return of


class Host:
    """Processes that each have a certificate, and their connections over TCP."""

    def __init__(self) -> None:
        self.peers: list[PeerTls] = []
        self.servers: list[RpcServer] = []
        self.clients: list[RpcClient] = []
        self.reached: list[tuple[str, int, str]] = []

    def transport(self, files: PeerTlsFiles | None) -> SocketTransport:
        if files is None:
            return SocketTransport()
        self.peers.append(PeerTls(files))
        return SocketTransport(peer_tls=self.peers[-1])

    async def serve(self, files: PeerTlsFiles, address: str = "tcp:127.0.0.1:0") -> str:
        def accept(call: Call) -> None:
            self.reached.append((call.peer.role, call.peer.node_id, call.method))
            call.reply([], [bytes(1 << 20)])

        server = RpcServer(
            Hello(STORAGE, 1, 1, "test", 1, CLUSTER), dict.fromkeys(CALLERS, accept), transport=self.transport(files)
        )
        self.servers.append(server)
        return await server.listen(address)

    def client(self, address: str, files: PeerTlsFiles | None, hello: Hello) -> RpcClient:
        client = RpcClient(address, hello, self.transport(files), connect_timeout_s=5.0)
        self.clients.append(client)
        return client

    async def close(self) -> None:
        for client in self.clients:
            await client.close()
        for server in self.servers:
            await server.close(0.1)
        for peer in self.peers:
            peer.close()


@asynccontextmanager
async def running() -> AsyncIterator[Host]:
    host = Host()
    try:
        yield host
    finally:
        await host.close()


def hello(role: str = GATEWAY, node_id: int = 1, cluster_id: str = CLUSTER) -> Hello:
    return Hello(role, node_id, 7, "test", 1, cluster_id)


Certificates = Callable[..., PeerTlsFiles]
STORAGE_1, GATEWAY_1 = f"penstock://{CLUSTER}/storage/1", f"penstock://{CLUSTER}/gateway/1"


async def test_processes_with_certificates_call_each_other(certificates: Certificates) -> None:
    async with running() as host:
        client = host.client(await host.serve(certificates(STORAGE_1)), certificates(GATEWAY_1), hello())
        response = await client.call(APPEND, [], [bytes(1 << 20)], timeout_s=30)
        assert bytes(response.payload) == bytes(1 << 20)
        assert host.reached == [(GATEWAY, 1, APPEND)]


@pytest.mark.parametrize(
    ("said", "named"),
    [
        (hello(GATEWAY, 2), GATEWAY_1),
        (hello(CONTROLLER, 1), GATEWAY_1),
        (hello(), f"penstock://another/{GATEWAY}/1"),
        (hello(), "https://example.org/gateway/1"),
        (hello(CONTROLLER, -1), GATEWAY_1),
    ],
    ids=["another node", "another role", "another cluster", "no name of ours", "another role without a node id"],
)
async def test_a_hello_that_the_certificate_does_not_name_is_refused(certificates: Certificates, said: Hello, named: str) -> None:
    async with running() as host:
        client = host.client(await host.serve(certificates(STORAGE_1)), certificates(named), said)
        for method in (HEARTBEAT, IMAGE_AT):
            with pytest.raises(RpcFailure):
                await client.call(method, [], timeout_s=1)
        assert host.reached == []
        assert host.servers[0].refused


async def test_a_caller_refuses_a_server_that_the_certificate_does_not_name(certificates: Certificates) -> None:
    async with running() as host:
        client = host.client(await host.serve(certificates(f"penstock://{CLUSTER}/storage/2")), certificates(GATEWAY_1), hello())
        with pytest.raises(RpcFailure):
            await client.call(APPEND, [], timeout_s=1)
        assert client.peer is None
        assert host.reached == []


async def test_who_has_no_certificate_of_the_authority_hears_no_hello(certificates: Certificates, tmp_path: Path) -> None:
    strangers = certified(make_authority(tmp_path / "another"), tmp_path / "stranger", GATEWAY_1)
    async with running() as host:
        address = await host.serve(certificates(STORAGE_1))
        port = int(address.rpartition(":")[2])
        stranger = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
        impostor = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        impostor.check_hostname, impostor.verify_mode = False, ssl.CERT_NONE
        impostor.load_cert_chain(strangers.certificate, strangers.key)
        for context in (None, stranger, impostor):
            assert await heard(port, context) == b""
        assert host.reached == []
        await host.client(address, certificates(GATEWAY_1), hello()).call(APPEND, [], timeout_s=30)


async def heard(port: int, context: ssl.SSLContext | None) -> bytes:
    """What the server says to someone who says hello."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        writer.write(pack_hello(hello()))
        return await asyncio.wait_for(reader.read(), 30)
    except (ssl.SSLError, ConnectionError):
        return b""
    finally:
        writer.transport.abort()


async def test_sockets_of_one_host_stay_as_they_are(certificates: Certificates, short_dir: str) -> None:
    async with running() as host:
        address = await host.serve(certificates(STORAGE_1), f"unix:{short_dir}/s")
        await host.client(address, None, hello()).call(APPEND, [], timeout_s=30)


async def test_a_probe_is_not_refused_by_a_port_with_tls(certificates: Certificates) -> None:
    async with running() as host:
        address = await host.serve(certificates(STORAGE_1))
        assert not await refuses(host.transport(certificates(GATEWAY_1)), address, 5.0)


async def test_a_new_certificate_is_used_without_a_restart(
    authority: Authority, certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = certified(authority, tmp_path / "node", STORAGE_1)
    async with running() as host:
        address = await host.serve(files)
        old = host.client(address, certificates(GATEWAY_1), hello())
        await old.call(APPEND, [], timeout_s=30)
        peer, before = host.peers[0], host.peers[0].server.context
        await peer.look()
        assert peer.server.context is before
        certified(authority, tmp_path / "node", STORAGE_1)
        await peer.look()
        after = peer.server.context
        assert after is not before
        await old.call(APPEND, [], timeout_s=30)
        new = host.client(address, certificates(f"penstock://{CLUSTER}/gateway/2"), hello(node_id=2))
        await new.call(APPEND, [], timeout_s=30)
        # What cannot be used leaves the former one in force, and is said once.
        with caplog.at_level(logging.WARNING, "network"):
            await asyncio.to_thread(Path(files.certificate).write_text, "nothing", encoding="utf-8")
            await peer.look()
            await peer.look()
            certified(authority, tmp_path / "node", GATEWAY_1)
            await peer.look()
        assert peer.server.context is after
        assert [line.getMessage() for line in caplog.records] == ["new certificate of this process not used"] * 2


async def test_files_are_looked_at_again_and_again(authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("libs.followed_files.LOOK_S", 0.01)
    peer = PeerTls(certified(authority, tmp_path / "node", STORAGE_1))
    before = peer.server.context
    following = asyncio.create_task(peer.follow())
    certified(authority, tmp_path / "node", STORAGE_1)
    await until(lambda: peer.server.context is not before)
    following.cancel()
    peer.close()


def test_a_certificate_that_its_own_authority_does_not_trust_is_refused(authority: Authority, tmp_path: Path) -> None:
    files = certified(authority, tmp_path / "node", STORAGE_1)
    Path(files.authorities).write_bytes(make_authority(tmp_path / "another").certificate.read_bytes())
    with pytest.raises(Unusable, match=r"certificate.pem is not trusted by .*ca.pem"):
        peer_contexts(files)


def test_a_certificate_says_whose_it_is(certificates: Certificates) -> None:
    assert list(peer_contexts(certificates(STORAGE_1, GATEWAY_1)).uris) == [STORAGE_1, GATEWAY_1]


def test_a_certificate_made_as_the_page_prints_names_its_process(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    script = "".join(block.text for block in blocks_of(section_of(page, "Between hosts")) if block.language == "sh")
    subprocess.run(["bash", "-euc", script], cwd=tmp_path, check=True, capture_output=True)
    files = PeerTlsFiles(*(str(tmp_path / each) for each in ("storage-1.crt", "storage-1.key", "peers-ca.pem")))
    assert list(names_in(peer_contexts(files).uris)) == [PeerName("", STORAGE, 1)]


def test_names_are_read_from_uris_of_ours_only() -> None:
    uris = [
        STORAGE_1,
        "penstock:///gateway/12",
        "penstock://c/gateway/x",
        "penstock://c/gateway",
        "https://c/gateway/1",
        "penstock://c/a/1/2",
        "penstock://c/gateway/" + 5000 * "9",
    ]
    assert list(names_in(uris)) == [PeerName(CLUSTER, STORAGE, 1), PeerName("", GATEWAY, 12)]


@pytest.mark.parametrize("said", [hello(), hello(node_id=-1), hello(cluster_id="")])
def test_a_certificate_may_be_older_than_its_cluster(said: Hello) -> None:
    require_named(said, ["penstock:///gateway/1"])
    with pytest.raises(EnvelopeError, match="the certificate is of penstock:///gateway/2"):
        require_named(hello(), ["penstock:///gateway/2"])
