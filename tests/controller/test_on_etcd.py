"""The controller's process on a real etcd, with requests by RPC as gateways send them."""

import asyncio
import os
import signal
import sys
import tempfile
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from libs.cluster import keys
from libs.cluster.etcd.etcd_store import EtcdStore
from libs.cluster.image_follower import ImageFollower
from libs.cluster.membership import Membership
from libs.cluster.records import CONTROLLER, GATEWAY
from libs.rpc.client.rpc_client import RpcClient
from libs.rpc.contracts.controller import (
    ALLOCATE_PRODUCER_IDS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    AllocateProducerIds,
    CreateTopics,
    DeleteTopics,
    NewTopic,
    ProducerIdBlock,
    TopicRef,
    TopicsReply,
)
from libs.rpc.messages.envelope import Hello
from libs.rpc.messages.errors import RpcError, RpcFailure
from libs.rpc.messages.schema import unpack
from libs.rpc.transport.peer_tls import PeerTls
from libs.rpc.transport.socket_transport import SocketTransport
from libs.wire.errors import ErrorCode
from tests.cluster.conftest import EtcdServer
from tests.controller.images import storage
from tests.support.certificates import Authority, certified
from tests.support.polling import until
from tests.support.ports import reserve_ports

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]


class Process:
    """`python -m services.controller`, and a client of it."""

    def __init__(self, node_id: int, etcd: EtcdServer, folder: Path, follower: ImageFollower, **settings: str) -> None:
        self.follower = follower
        self._socket = str(folder / f"c{node_id}.sock")
        self._ports = reserve_ports(1)
        self._admin = self._ports.first
        self._environment = {
            **os.environ,
            "PENSTOCK_NODE_ID": str(node_id),
            "PENSTOCK_DATA_DIR": str(folder / f"c{node_id}"),
            "PENSTOCK_ETCD": etcd.endpoint,
            "PENSTOCK_RPC_UNIX": self._socket,
            "PENSTOCK_ADMIN_PORT": str(self._admin),
            **settings,
        }
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "services.controller", env=self._environment, cwd=ROOT
        )
        await until_ready(self)

    async def end(self, number: signal.Signals) -> int:
        assert self.process is not None
        if self.process.returncode is None:
            self.process.send_signal(number)
        return await self.process.wait()

    def close(self) -> None:
        self._ports.release()

    async def page(self, path: str) -> str:
        def read() -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._admin}{path}", timeout=60) as answer:
                return str(answer.read().decode())

        return await asyncio.to_thread(read)

    async def ask(self, method: str, body: object, reply_type: type[T]) -> T:
        await until(lambda: bool(self.follower.image.cluster_id))
        hello = Hello("gateway", 1, 1, "test", 1, self.follower.image.cluster_id)
        client = RpcClient(f"unix:{self._socket}", hello, SocketTransport())
        try:
            return unpack(reply_type, (await client.call(method, body, timeout_s=60)).body)
        finally:
            await client.close()


async def until_ready(controller: Process) -> None:
    async def is_ready() -> bool:
        try:
            await controller.page("/readyz")
        except OSError:
            return False
        return True

    await until(is_ready)


@asynccontextmanager
async def cluster(etcd: EtcdServer, **settings: str) -> AsyncIterator[tuple[Process, ImageFollower, EtcdStore]]:
    """A controller, one storage node that is a registration only, and our own image."""
    with tempfile.TemporaryDirectory() as folder:
        store = EtcdStore([etcd.endpoint])
        follower = ImageFollower(store)
        member = Membership(store, storage(1), 10)
        controller = Process(1, etcd, Path(folder), follower, **settings)
        try:
            await follower.start()
            await member.start()
            await controller.start()
            yield controller, follower, store
        finally:
            await controller.end(signal.SIGKILL)
            controller.close()
            await member.close()
            await follower.close()
            await store.close()


async def test_topics_are_created_seen_and_deleted(own_etcd: EtcdServer) -> None:
    async with cluster(own_etcd) as (controller, follower, store):
        created = await controller.ask(CREATE_TOPICS, CreateTopics((NewTopic("t", 150, 1), NewTopic("u", 3, 2))), TopicsReply)
        assert [r.error for r in created.topics] == [0, ErrorCode.INVALID_REPLICATION_FACTOR]
        image = await follower.wait_for(created.revision, 60)
        assert [state is not None and state.leader for state in image.partitions_of(created.topics[0].topic_id)] == [1] * 150
        assert "activecontrollercount 1.0" in await controller.page("/metrics")
        assert "globalpartitioncount 150.0" in await controller.page("/metrics")
        deleted = await controller.ask(DELETE_TOPICS, DeleteTopics((TopicRef("t"),)), TopicsReply)
        assert [r.error for r in deleted.topics] == [0]
        assert (await store.range(keys.PARTITIONS)).items == ()


async def test_a_killed_controller_is_succeeded_and_gives_no_producer_id_twice(own_etcd: EtcdServer) -> None:
    async with cluster(own_etcd) as (controller, follower, _store):
        first = await controller.ask(ALLOCATE_PRODUCER_IDS, AllocateProducerIds(), ProducerIdBlock)
        created = await controller.ask(CREATE_TOPICS, CreateTopics((NewTopic("t", 1, 1),)), TopicsReply)
        await controller.end(signal.SIGKILL)
        await controller.start()
        second = await controller.ask(ALLOCATE_PRODUCER_IDS, AllocateProducerIds(), ProducerIdBlock)
        assert second.first >= first.first + first.count
        image = await follower.wait_for(created.revision, 60)
        assert image.topics["t"].topic_id == created.topics[0].topic_id.hex()


async def test_a_stopping_controller_resigns_at_once(own_etcd: EtcdServer) -> None:
    async with cluster(own_etcd) as (controller, follower, _store):
        await until(lambda: follower.image.controller is not None)
        assert await controller.end(signal.SIGTERM) == 0
        await until(lambda: follower.image.controller is None)
        await until(lambda: 1 not in follower.image.members("controller"))


async def test_bad_requests_are_answered_and_harm_nobody(own_etcd: EtcdServer) -> None:
    async with cluster(own_etcd) as (controller, _follower, _store):
        with pytest.raises(RpcError) as refused:
            await controller.ask(CREATE_TOPICS, ["not a topic"], TopicsReply)
        assert refused.value.code == ErrorCode.INVALID_REQUEST
        with pytest.raises(RpcError):
            await controller.ask("controller.no_such_method", [], TopicsReply)
        created = await controller.ask(CREATE_TOPICS, CreateTopics((NewTopic("t", 1, 1),)), TopicsReply)
        assert created.topics[0].error == 0


async def test_a_port_with_tls_lets_named_processes_in(own_etcd: EtcdServer, authority: Authority, tmp_path: Path) -> None:
    own = certified(authority, tmp_path / "controller", "penstock:///controller/1")
    names = {"CERTIFICATE": own.certificate, "KEY": own.key, "CA": own.authorities}
    settings = {f"PENSTOCK_RPC_TLS_{name}": path for name, path in names.items()}
    tls = PeerTls(certified(authority, tmp_path / "gateway", "penstock:///gateway/1"))
    async with cluster(own_etcd, PENSTOCK_RPC_TCP="127.0.0.1:0", **settings) as (_controller, follower, _store):
        await until(lambda: 1 in follower.image.members(CONTROLLER) and bool(follower.image.cluster_id))
        address = follower.image.members(CONTROLLER)[1].tcp_address
        for node_id, is_named in ((1, True), (2, False)):
            hello = Hello(GATEWAY, node_id, 1, "test", 1, follower.image.cluster_id)
            client = RpcClient(address, hello, SocketTransport(peer_tls=tls), expected=(CONTROLLER, 1))
            try:
                await client.call(ALLOCATE_PRODUCER_IDS, AllocateProducerIds(), timeout_s=60)
                assert is_named
            except RpcFailure:
                assert not is_named
            finally:
                await client.close()
    tls.close()
