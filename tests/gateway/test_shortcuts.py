"""Answers are byte for byte the same with shortcuts and without, and with them every shortcut is taken."""

import gc
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from libs.cluster import keys
from libs.cluster.records import TRANSACTION_COORDINATOR, InSync, Member, PartitionState, Replica, Topic
from libs.cluster.shard_owners import Owner
from libs.rpc.contracts.storage import Fetched as Result
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    consumer_group_heartbeat,
    end_txn,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_offsets,
    offset_commit,
    offset_fetch,
    sync_group,
    txn_offset_commit,
)
from services.gateway.core.coordinator_shards import TRANSACTIONS
from services.gateway.service import Gateway
from services.gateway.shortcuts.fetch_shortcut import FetchShortcut
from services.gateway.shortcuts.list_offsets_shortcut import ListOffsetsShortcut
from services.gateway.shortcuts.produce_shortcut import ProduceShortcut
from services.gateway.shortcuts.relay_shortcut import RelayShortcut
from tests.gateway.backlogs import BATCH, fill
from tests.gateway.conftest import HOST_ID, TOPIC, TOPIC_ID, Rig
from tests.gateway.fake_coordinator import FakeCoordinator
from tests.gateway.fake_groups import Groups, request_body, send
from tests.gateway.kafka_client import RawClient, fetch_body, produce_body
from tests.gateway.kafka_client import Topic as TopicKey
from tests.gateway.produce_requests import BATCH as SENT
from tests.gateway.produce_requests import idempotent
from tests.support.polling import until
from tests.support.ports import Reservation, reserve_ports

TRANSACTIONS_ID = bytes(range(32, 48))
GROUP, TRANSACTION = "some group", "some transaction"

Asked = tuple[ApiKey, int, bytes]
"""An API, a version, and the body of a request."""
Before = Callable[["Cluster"], None]
"""What a test changes before some of the requests."""
Script = list[Asked | Before]


class Cluster:
    """A rig with coordinators of groups and of transactions."""

    def __init__(self, ports: Reservation, directory: Path) -> None:
        self.rig = Rig(ports, directory)
        self.groups = Groups(self.rig)
        self.transactions = FakeCoordinator(1, directory, TRANSACTIONS)

    async def start(self, *, shortcuts: bool) -> None:
        await self.groups.start(shortcuts=shortcuts)
        await self.transactions.start()
        member = Member(TRANSACTION_COORDINATOR, 1, 1, HOST_ID, unix_address=self.transactions.address)
        rig, gateway = self.rig, self.rig.gateway
        assert gateway is not None
        await rig.put(keys.member(TRANSACTION_COORDINATOR, 1), member)
        await rig.put(keys.topic(TRANSACTIONS.topic), Topic(TRANSACTIONS.topic, TRANSACTIONS_ID.hex(), 1, internal=True))
        state = PartitionState((Replica(1, ""),), 1, 1, 0, 0, (InSync(1, 1),), owner=str(Owner(1, 1)))
        await rig.put(keys.partition(TRANSACTIONS_ID, 0), state)
        await self.groups.settled()
        coordinators, nodes = gateway.data_path.transaction_coordinators, gateway.data_path.nodes
        await until(lambda: (owner := coordinators.owner(0)) is not None and owner.client.connected)
        await until(lambda: nodes.ready(1) is not None and nodes.ready(2) is not None)
        fill(rig, 40)

    async def stop(self) -> None:
        await self.rig.stop()
        await self.groups.stop()
        await self.transactions.stop()

    def refuse_lookups(self, error: ErrorCode) -> None:
        """From now on. After an error of the leader, the shortcut leaves the request to the handler, which asks again."""
        self.rig.nodes[1].lookup_errors += [error] * 100

    def refuse_in_coordinators(self, error: ErrorCode) -> None:
        self.transactions.error = error
        for coordinator in self.groups.coordinators.values():
            coordinator.error = error


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> dict[type, int]:
    """How many requests each kind of shortcut has begun."""
    counts: dict[type, int] = {}

    def count(kind: Any) -> None:
        begin = kind.begin

        def counted(self: object, *arguments: object) -> bool:
            begun: bool = begin(self, *arguments)
            counts[kind] = counts.get(kind, 0) + begun
            return begun

        monkeypatch.setattr(kind, "begin", counted)

    for kind in (ProduceShortcut, FetchShortcut, RelayShortcut, ListOffsetsShortcut):
        count(kind)
    return counts


async def answers(script: Script, *, shortcuts: bool, ports: Reservation) -> list[bytes]:
    """The answers of one connection, whole. An empty one: the gateway closed it, and the rest goes over another."""
    directory = Path(tempfile.mkdtemp(prefix="pst"))
    cluster, received = Cluster(ports, directory), []
    try:
        await cluster.start(shortcuts=shortcuts)
        client: RawClient | None = None
        for number, step in enumerate(script):
            if callable(step):
                step(cluster)
                continue
            client = client or await cluster.rig.client(1)
            key, version, body = step
            send(client, key, version, body, correlation_id=number)
            try:
                received.append(bytes((await client.answer())[1].view))
            except EOFError:
                received.append(b"")
                client = None
    finally:
        await cluster.stop()
        shutil.rmtree(directory)
    return received


async def same_both_ways(script: Script, taken: dict[type, int], kind: type) -> list[bytes]:
    ports = reserve_ports(10)
    try:
        without = await answers(script, shortcuts=False, ports=ports)
        assert taken == {}
        with_shortcuts = await answers(script, shortcuts=True, ports=ports)
    finally:
        ports.release()
    assert with_shortcuts == without
    assert list(taken) == [kind]
    assert taken[kind] > 0
    return without


def versions(key: ApiKey) -> range:
    return range(APIS[key].min_version, APIS[key].max_version + 1)


def topic_in(key: ApiKey, version: int) -> TopicKey:
    return TOPIC_ID if version >= 13 and key in (ApiKey.PRODUCE, ApiKey.FETCH) else TOPIC


def produce(version: int, batch: bytes = SENT, *, partition: int = 0, topic: TopicKey = "", acks: int = -1) -> Asked:
    topic = topic or topic_in(ApiKey.PRODUCE, version)
    return ApiKey.PRODUCE, version, produce_body(version, [(topic, [(partition, batch)])], acks=acks)


@pytest.mark.parametrize("version", versions(ApiKey.PRODUCE))
async def test_produces(version: int, taken: dict[type, int]) -> None:
    def refuse(error: ErrorCode, *, hint: tuple[int, int] = (-1, -1)) -> Before:
        def change(cluster: Cluster) -> None:
            cluster.rig.nodes[1].refuse_with, cluster.rig.nodes[1].hint = error, hint

        return change

    again = [produce(version)] * 3
    script: Script = [
        *again,
        *(produce(version, idempotent(number)) for number in range(3)),
        produce(version, partition=2),
        produce(version, partition=9),
        *(produce(version, acks=1),) * 3,
        refuse(ErrorCode.MESSAGE_TOO_LARGE),
        *again,
        refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER, hint=(2, 5)),
        *(produce(version, acks=0, partition=1),) * 2,
        refuse(ErrorCode.NONE),
        *again,
    ]
    if version < 13:
        script += [produce(version, topic="__consumer_offsets")] * 2 + [produce(version, topic="absent")] * 2 + again
    script += [(key, number, body[:-1]) for key, number, body in again]
    received = await same_both_ways(script, taken, ProduceShortcut)
    assert received[-1] == b""
    assert len({received[0], received[7], received[11]}) == 3, "stored, unknown and refused"


def fetch(version: int, offset: int, *, isolation: int = 0, partition: int = 0, limit: int = 2 * BATCH, epoch: int = -1) -> Asked:
    topics = [(topic_in(ApiKey.FETCH, version), [(partition, offset)])]
    body = fetch_body(
        version,
        topics,
        max_wait_ms=1,
        max_bytes=limit,
        partition_max_bytes=limit,
        isolation=isolation,
        leader_epoch=epoch,
    )
    return ApiKey.FETCH, version, body


@pytest.mark.parametrize("version", [each for each in versions(ApiKey.FETCH) if each > 4])
@pytest.mark.parametrize("isolation", [0, 1])
async def test_fetches(version: int, isolation: int, taken: dict[type, int]) -> None:
    def result(given: Result | None) -> Before:
        def change(cluster: Cluster) -> None:
            node = cluster.rig.nodes[1]
            node.fetch_result, node.backlog = given, {} if given is not None else backlogs[0]

        return change

    backlogs: list[dict[int, int]] = []

    def keep(cluster: Cluster) -> None:
        backlogs[:] = [cluster.rig.nodes[1].backlog]

    script: Script = [
        keep,
        *(fetch(version, offset, isolation=isolation) for offset in (0, 2, 4, 8, 10, 40, 42, 12, 14)),
        *(fetch(version, offset, isolation=isolation, limit=10) for offset in (0, 2, 4)),
        fetch(version, 0, isolation=isolation, partition=2),
        fetch(version, 0, isolation=isolation, partition=9),
        result(Result(ErrorCode.OFFSET_OUT_OF_RANGE)),
        *(fetch(version, 900, isolation=isolation),) * 2,
        result(Result(ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=2, leader_epoch=7)),
        *(fetch(version, 0, isolation=isolation),) * 2,
        result(None),
        fetch(version, 0, isolation=isolation),
        (ApiKey.FETCH, version, fetch(version, 0)[2][:-1]),
    ]
    received = await same_both_ways(script, taken, FetchShortcut)
    assert received[-1] == b""
    assert len(received[0]) > BATCH


@pytest.mark.parametrize("version", versions(ApiKey.LIST_OFFSETS))
async def test_offsets(version: int, taken: dict[type, int]) -> None:
    def listed(timestamp: int, *, topic: str = TOPIC, partition: int = 0, isolation: int = 0) -> Asked:
        wanted = list_offsets.ListOffsetsTopic(topic, [list_offsets.ListOffsetsPartition(partition, -1, timestamp)])
        request = list_offsets.ListOffsetsRequest(-1, isolation, [wanted], timeout_ms=1000)
        return ApiKey.LIST_OFFSETS, version, request_body(ApiKey.LIST_OFFSETS, version, request)

    script: Script = [
        *(listed(timestamp) for timestamp in (-1, -2, -3, -4, -5, -6, -7, 0, 5)),
        *(listed(-1, partition=partition) for partition in (1, 2, 9)),
        listed(-1, topic="absent"),
        listed(-1, isolation=1),
        listed(-1, isolation=2),
        lambda cluster: cluster.refuse_lookups(ErrorCode.UNKNOWN_LEADER_EPOCH),
        listed(-1),
        listed(-1),
    ]
    received = await same_both_ways(script, taken, ListOffsetsShortcut)
    assert b"" not in received


RELAYED: dict[ApiKey, Callable[[int], object]] = {
    ApiKey.OFFSET_COMMIT: lambda number: offset_commit.OffsetCommitRequest(GROUP, number, "m"),
    ApiKey.OFFSET_FETCH: lambda _: offset_fetch.OffsetFetchRequest(group_id=GROUP),
    ApiKey.HEARTBEAT: lambda number: heartbeat.HeartbeatRequest(GROUP, number, "m"),
    ApiKey.JOIN_GROUP: lambda number: join_group.JoinGroupRequest(GROUP, 1000 + number, protocol_type="consumer"),
    ApiKey.SYNC_GROUP: lambda number: sync_group.SyncGroupRequest(GROUP, number, "m"),
    ApiKey.LEAVE_GROUP: lambda number: leave_group.LeaveGroupRequest(GROUP, member_id=f"m{number}"),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: lambda n: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(GROUP, "m", n),
    ApiKey.TXN_OFFSET_COMMIT: lambda number: txn_offset_commit.TxnOffsetCommitRequest(TRANSACTION, GROUP, number),
    ApiKey.INIT_PRODUCER_ID: lambda number: init_producer_id.InitProducerIdRequest(TRANSACTION, 1000 + number),
    ApiKey.ADD_PARTITIONS_TO_TXN: lambda number: add_partitions_to_txn.AddPartitionsToTxnRequest([], TRANSACTION, number),
    ApiKey.ADD_OFFSETS_TO_TXN: lambda number: add_offsets_to_txn.AddOffsetsToTxnRequest(TRANSACTION, number, 0, GROUP),
    ApiKey.END_TXN: lambda number: end_txn.EndTxnRequest(TRANSACTION, number, 0, bool(number % 2)),
}
NAMED_IN_A_LIST = {ApiKey.OFFSET_FETCH: 8, ApiKey.ADD_PARTITIONS_TO_TXN: 4}
"""From that version on, a request names several, and has no shortcut."""


@pytest.mark.parametrize("key", RELAYED, ids=lambda key: key.name)
async def test_requests_to_coordinators(key: ApiKey, taken: dict[type, int]) -> None:
    """The fake coordinators answer with the request's own bytes."""

    def asked(version: int, number: int) -> Asked:
        return key, version, request_body(key, version, RELAYED[key](number))

    script: Script = []
    for version in versions(key):
        if version < NAMED_IN_A_LIST.get(key, 99):
            script += [asked(version, number) for number in range(3)]
            script += [lambda cluster: cluster.refuse_in_coordinators(ErrorCode.GROUP_AUTHORIZATION_FAILED), asked(version, 3)]
            script += [lambda cluster: cluster.refuse_in_coordinators(ErrorCode.NONE), asked(version, 4)]
    script += [lambda cluster: cluster.refuse_in_coordinators(ErrorCode.INVALID_REQUEST), asked(APIS[key].min_version, 5)]
    received = await same_both_ways(script, taken, RelayShortcut)
    assert received[-1] == b""
    assert received[0] != received[3], "answered and refused"


async def test_a_topic_that_is_made_anew_is_written_and_read_by_its_new_id(rig: Rig) -> None:
    gateway = await rig.start()
    fill(rig, 4)
    client, (node, _) = await rig.client(1), rig.nodes.values()
    written, read = produce(9)[2], fetch(12, 0)[2]

    async def ids() -> tuple[bytes, bytes]:
        await client.produce(9, written)
        await client.fetch(12, read)
        return node.appends[-1].partitions[0].topic_id, node.fetches[-1].partitions[0].topic_id

    assert [await ids() for _ in range(3)] == [(TOPIC_ID, TOPIC_ID)] * 3
    another = bytes(reversed(TOPIC_ID))
    await rig.put(keys.topic(TOPIC), Topic(TOPIC, another.hex(), 1))
    await rig.lead(0, 1, topic_id=another)
    assert await gateway.wait_for_revision(rig.store.keyspace.revision, 10)
    assert [await ids() for _ in range(2)] == [(another, another)] * 2
    assert {type(each) for each in shortcuts_of(gateway)} == {ProduceShortcut, FetchShortcut}


async def test_an_idle_connection_holds_no_former_image() -> None:
    """A consumer joins once, and its connection lives for days."""
    ports, directory = reserve_ports(10), Path(tempfile.mkdtemp(prefix="pst"))
    cluster = Cluster(ports, directory)
    try:
        await cluster.start(shortcuts=True)
        rig, gateway = cluster.rig, cluster.rig.gateway
        assert gateway is not None
        client = await rig.client(1)
        for key, version, body in (
            produce(9),
            fetch(12, 0),
            (ApiKey.SYNC_GROUP, 5, request_body(ApiKey.SYNC_GROUP, 5, RELAYED[ApiKey.SYNC_GROUP](0))),
        ):
            send(client, key, version, body)
            await client.answer()
        assert {type(each) for each in shortcuts_of(gateway)} == {ProduceShortcut, FetchShortcut, RelayShortcut}
        former = gateway.data_path.routes
        member = Member(TRANSACTION_COORDINATOR, 1, 2, HOST_ID, unix_address=cluster.transactions.address)
        await rig.put(keys.member(TRANSACTION_COORDINATOR, 1), member)
        await until(lambda: gateway.data_path.routes.image.members(TRANSACTION_COORDINATOR)[1].incarnation == 2)
        gc.collect()
        assert sys.getrefcount(former) == 2, "this test's own, and the argument's"
    finally:
        await cluster.stop()
        shutil.rmtree(directory)
        ports.release()


def shortcuts_of(gateway: Gateway) -> Iterator[object]:
    for connection in gateway.connections:
        yield from connection.shortcuts.by_api.values()
