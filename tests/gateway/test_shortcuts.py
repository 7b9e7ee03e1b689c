"""Answers are byte for byte the same with shortcuts and without, and with them every shortcut is taken."""

import gc
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from libs.cluster import keys
from libs.cluster.records import TRANSACTION_COORDINATOR, Member, Topic
from libs.rpc.contracts.storage import Fetched as Result
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from services.gateway.service import Gateway
from services.gateway.shortcuts.fetch_shortcut import FetchShortcut
from services.gateway.shortcuts.list_offsets_shortcut import ListOffsetsShortcut
from services.gateway.shortcuts.produce_shortcut import ProduceShortcut
from services.gateway.shortcuts.relay_shortcut import RelayShortcut
from tests.gateway.backlogs import BATCH, fill
from tests.gateway.conftest import HOST_ID, TOPIC, TOPIC_ID, Rig
from tests.gateway.fake_groups import request_body, send
from tests.gateway.kafka_client import RawClient
from tests.gateway.produce_requests import idempotent
from tests.gateway.whole_rig import NAMED_IN_A_LIST, RELAYED, Asked, Cluster, fetch, listed, produce, versions
from tests.support.polling import until
from tests.support.ports import Reservation, reserve_ports

Before = Callable[["Cluster"], None]
"""What a test changes before some of the requests."""
Script = list[Asked | Before]


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
    script: Script = [
        *(listed(version, timestamp) for timestamp in (-1, -2, -3, -4, -5, -6, -7, 0, 5)),
        *(listed(version, -1, partition=partition) for partition in (1, 2, 9)),
        listed(version, -1, topic="absent"),
        listed(version, -1, isolation=1),
        listed(version, -1, isolation=2),
        lambda cluster: cluster.refuse_lookups(ErrorCode.UNKNOWN_LEADER_EPOCH),
        listed(version, -1),
        listed(version, -1),
    ]
    received = await same_both_ways(script, taken, ListOffsetsShortcut)
    assert b"" not in received


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
