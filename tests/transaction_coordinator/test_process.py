"""A transaction coordinator process: it decides for clients and leaders, and has the markers written."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from libs.cluster import keys
from libs.cluster.codec import decode, encode
from libs.cluster.health import MARKERS, TRANSACTION
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.records import PartitionState
from libs.cluster.store import KeyValue
from libs.cluster.topic_names import GROUP_TOPIC
from libs.coordinator.core.shard import PlannedAppend
from libs.coordinator.core.shard_hashing import shard_of
from libs.coordinator.log.internal_log import Cancel, Unknown
from libs.coordinator.log.internal_log import Refused as LogRefused
from libs.coordinator.log.storage_log import StorageLog
from libs.coordinator.requests import client_requests
from libs.roles import TRANSACTION_COORDINATOR
from libs.rpc.client.rpc_client import Response, RpcClient
from libs.rpc.contracts.ownership import CLAIM, Claim, Claimed
from libs.rpc.contracts.transactions import ADD_PARTITIONS, WRITE_MARKERS, AddPartitions, PartitionsAdded
from libs.rpc.contracts.transactions import Marker as WantedMarker
from libs.rpc.messages.schema import unpack
from libs.telemetry.tracing.span import SpanContext
from libs.wire.errors import ErrorCode
from libs.wire.messages.list_transactions import ListTransactionsRequest
from libs.wire.record_batches.markers import Marker
from services.transaction_coordinator import coordinator
from services.transaction_coordinator.core.transaction import Producer
from services.transaction_coordinator.gauges import open_transactions
from services.transaction_coordinator.protocol import completions
from tests.storage.cluster import CALLER, WAIT_S, StorageCluster, partition_of
from tests.support.polling import until
from tests.transaction_coordinator.data_topic import DATA, ID, SHARD, SHARDS, Begin, is_open, markers, produce, take_all
from tests.transaction_coordinator.processes import (
    Coordinator,
    FakeGroupCoordinator,
    ProducerIdController,
    Refused,
    TransactionalClient,
)

OLD, NEW = 4, 5
"""Versions of EndTxn: before and since KIP-890."""


async def test_a_transaction_of_an_old_client(node: StorageCluster, data: bytes, owner: Coordinator) -> None:
    client = TransactionalClient(owner, SHARD, ID, OLD)
    assert await client.init() == 0
    assert (await produce(node, data, client.producer, 0)).error == ErrorCode.INVALID_TXN_STATE, "the partition was not added"
    assert await client.add(DATA, 0) == [0]
    assert (await produce(node, data, client.producer, 0)).error == 0
    seen = open_transactions(owner.running, 0)
    assert list(seen) == [ID]
    assert (seen[ID]["client_id"], seen[ID]["client_host"], seen[ID]["partitions"]) == ("a client", "/127.0.0.1", [f"{DATA}-0"])
    assert await client.end(commit=True) == 0
    await until(lambda: not open_transactions(owner.running, 0))
    assert await markers(node, data) == [(0, Marker(False, 1))]
    assert await client.add(DATA, 0) == [0], "the next transaction has the same epoch"


async def test_the_trace_of_an_end_that_was_refused_has_no_later_end(
    node: StorageCluster, data: bytes, owner: Coordinator
) -> None:
    client = TransactionalClient(owner, SHARD, ID, OLD)
    assert await client.init() == 0
    client.span = SpanContext(11, 12)
    assert await client.end(commit=True) == ErrorCode.INVALID_TXN_STATE, "nothing was begun"
    client.span = None
    for _ in range(2):  # the spans of the first are made before the second ends
        assert await client.add(DATA, 0) == [0]
        assert await client.end(commit=True) == 0
        await until(lambda: not open_transactions(owner.running, 0))
    kept = owner.world.tracing.ring.find(11)
    assert kept is not None
    assert not {"write markers", "complete"} & {span.name for span in kept.spans}


async def test_a_transaction_of_a_client_that_leaves_adding_to_leaders(
    node: StorageCluster, data: bytes, owner: Coordinator
) -> None:
    client = TransactionalClient(owner, SHARD, ID, NEW)
    assert await client.init() == 0
    for epoch, commit in enumerate((True, False)):
        assert client.producer.epoch == epoch
        assert (await produce(node, data, client.producer, 0, version=12)).error == 0
        assert await client.end(commit=commit) == 0
        await until(lambda: not open_transactions(owner.running, 0))
    assert await markers(node, data) == [(1, Marker(False, 1)), (2, Marker(True, 1))]


async def test_unknown_partitions_are_not_added(node: StorageCluster, data: bytes, owner: Coordinator) -> None:
    client = TransactionalClient(owner, SHARD, ID, OLD)
    assert await client.init() == 0
    assert await client.add(DATA, 0, 1) == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert not open_transactions(owner.running, 0)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
async def test_timeouts_out_of_bounds_are_refused(node: StorageCluster, owner: Coordinator, timeout_ms: int) -> None:
    client = TransactionalClient(owner, SHARD, ID, OLD)
    assert await client.init(timeout_ms) == ErrorCode.INVALID_TRANSACTION_TIMEOUT


async def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(
    node: StorageCluster, data: bytes, owner: Coordinator
) -> None:
    client = TransactionalClient(owner, SHARD, ID, OLD)
    assert await client.init(100) == 0
    assert await client.add(DATA, 0) == [0]
    assert (await produce(node, data, client.producer, 0)).error == 0
    await until(lambda: bool(partition_of(node, data).log.producers.entries) and not open_transactions(owner.running, 0))
    assert await markers(node, data) == [(1, Marker(True, 1))]
    assert await client.end(commit=True) == ErrorCode.PRODUCER_FENCED
    assert (await produce(node, data, client.producer, 1)).error == ErrorCode.INVALID_PRODUCER_EPOCH


async def test_the_next_owner_writes_the_markers_of_a_prepared_transaction(
    node: StorageCluster, topic: bytes, data: bytes, owner: Coordinator, begin: Begin
) -> None:
    client = TransactionalClient(owner, SHARD, ID, OLD)
    assert await client.init() == 0
    assert await client.add(DATA, 0) == [0]
    assert (await produce(node, data, client.producer, 0)).error == 0
    await node.state(data, epoch=1, leader=-1)  # nobody can take the marker
    await until(lambda: owner.running.image.partition(data, 0).leader == -1)  # type: ignore[union-attr]
    assert await client.end(commit=True) == 0
    assert len(owner.running.markers) == 1
    successor = await begin(2)
    await take_all(node, topic, successor, 2)
    assert len(successor.running.markers) == 1
    await node.state(data, epoch=2)
    await until(lambda: not open_transactions(successor.running, 0))
    assert await markers(node, data) == [(0, Marker(False, 2))]
    await until(lambda: len(successor.running.markers) == 0)  # once the completion is committed


async def test_a_topic_that_was_deleted_needs_no_marker(node: StorageCluster, data: bytes, owner: Coordinator) -> None:
    client = TransactionalClient(owner, SHARD, ID, OLD)
    assert await client.init() == 0
    assert await client.add(DATA, 0) == [0]
    await node.write(keys.topic(DATA), None)
    await until(lambda: DATA not in owner.running.image.topics)
    assert await client.end(commit=True) == 0
    await until(lambda: not open_transactions(owner.running, 0))


async def test_a_transaction_that_begins_at_once_waits_for_the_markers_of_the_last_one(
    node: StorageCluster, data: bytes, owner: Coordinator
) -> None:
    client = TransactionalClient(owner, SHARD, ID, OLD)
    assert await client.init() == 0
    for _ in range(10):
        assert await client.add(DATA, 0) == [0], "not CONCURRENT_TRANSACTIONS"
        assert await client.end(commit=True) == 0
    assert await client.init() == 0
    assert len(owner.running.completions) == 0


async def test_the_wait_for_markers_is_bounded(node: StorageCluster, data: bytes, owner: Coordinator) -> None:
    client = TransactionalClient(owner, SHARD, ID, OLD)
    assert await client.init() == 0
    assert await client.add(DATA, 0) == [0]
    await node.state(data, epoch=1, leader=-1)  # nobody can take the marker
    await until(lambda: owner.running.image.partition(data, 0).leader == -1)  # type: ignore[union-attr]
    assert await client.end(commit=True) == 0
    assert await client.add(DATA, 0) == [ErrorCode.CONCURRENT_TRANSACTIONS]
    assert await client.init() == ErrorCode.CONCURRENT_TRANSACTIONS
    assert len(owner.running.completions) == 0


async def test_markers_are_not_begun_anew_before_the_end_of_their_transaction_is_known(
    node: StorageCluster, data: bytes, owner: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outcome of the append that completes it is unknown. A second round of markers would end the next transaction."""
    client = TransactionalClient(owner, SHARD, ID, OLD)
    assert await client.init() == 0
    assert await client.add(DATA, 0) == [0]
    assert (await produce(node, data, client.producer, 0)).error == 0
    appends: list[PlannedAppend] = []
    append = StorageLog.append

    def lost_once(
        log: StorageLog, planned: PlannedAppend, now_ms: int, on_result: Callable[..., None], traces: Sequence[SpanContext]
    ) -> Cancel:
        appends.append(planned)
        if len(appends) == 2:  # after the one that prepares it
            return asyncio.get_running_loop().call_soon(on_result, Unknown("lost")).cancel
        return append(log, planned, now_ms, on_result, traces)

    monkeypatch.setattr(StorageLog, "append", lost_once)
    assert await client.end(commit=True) == 0
    await until(lambda: len(appends) > 2 and not len(owner.running.markers))
    await owner.serves(SHARD)
    assert not open_transactions(owner.running, 0)
    assert await client.add(DATA, 0) == [0]
    assert (await produce(node, data, client.producer, 1)).error == 0
    assert is_open(node, data)


async def test_an_answer_to_a_former_owner_epoch_begins_no_markers_of_the_next(
    node: StorageCluster, topic: bytes, data: bytes, owner: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The append that prepares a transaction is answered when the same process owns the shard anew, and has completed it. The
    producer keeps its epoch, so markers would end its next transaction."""
    client = TransactionalClient(owner, SHARD, ID, OLD)
    assert await client.init() == 0
    assert await client.add(DATA, 0) == [0]
    assert (await produce(node, data, client.producer, 0)).error == 0
    late: list[Callable[[], None]] = []
    append = StorageLog.append

    def answered_late(
        log: StorageLog, planned: PlannedAppend, now_ms: int, on_result: Callable[..., None], traces: Sequence[SpanContext]
    ) -> Cancel:
        if late:
            return append(log, planned, now_ms, on_result, traces)
        return append(log, planned, now_ms, lambda outcome: late.append(lambda: on_result(outcome)), traces)

    monkeypatch.setattr(StorageLog, "append", answered_late)
    ending = asyncio.ensure_future(client.end(commit=True))
    await until(lambda: bool(late))
    await take_all(node, topic, owner, 2)
    await until(lambda: not open_transactions(owner.running, 0) and not len(owner.running.markers))
    assert await client.add(DATA, 0) == [0]
    assert (await produce(node, data, client.producer, 1)).error == 0
    late[0]()
    assert len(owner.running.markers) == 0
    assert is_open(node, data)
    await ending


async def test_a_client_that_ends_in_the_old_way_what_its_leader_added(
    node: StorageCluster, data: bytes, owner: Coordinator
) -> None:
    client = TransactionalClient(owner, SHARD, ID, OLD)
    assert await client.init() == 0
    assert (await produce(node, data, client.producer, 0, version=12)).error == 0
    assert await client.end(commit=True) == 0
    await until(lambda: not open_transactions(owner.running, 0))
    assert not is_open(node, data)


async def test_partitions_of_internal_topics_are_not_added(node: StorageCluster, data: bytes, owner: Coordinator) -> None:
    client = TransactionalClient(owner, SHARD, ID, OLD)
    assert await client.init() == 0
    assert await client.add("__transaction_state", 0) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert not open_transactions(owner.running, 0)


async def test_a_node_that_hangs_delays_no_marker_whose_partition_has_another_leader(
    node: StorageCluster, data: bytes, owner: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = TransactionalClient(owner, SHARD, ID, OLD)
    assert await client.init() == 0
    assert await client.add(DATA, 0) == [0]
    call = RpcClient.call
    hanging = asyncio.Event()

    async def hang(rpc: RpcClient, method: str, *others: Any, **named: Any) -> Response:
        if method == WRITE_MARKERS and not hanging.is_set():
            hanging.set()
            await asyncio.Event().wait()
        return await call(rpc, method, *others, **named)

    monkeypatch.setattr(RpcClient, "call", hang)
    assert await client.end(commit=True) == 0
    await hanging.wait()
    await node.state(data, epoch=1, leader=99)
    await node.state(data, epoch=2)
    async with asyncio.timeout(2):  # far below the timeout of a request
        await until(lambda: not open_transactions(owner.running, 0))


async def test_many_transactions_that_end_together_share_requests(
    node: StorageCluster, data: bytes, owner: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [name for number in range(40) if shard_of(name := f"id {number}", SHARDS) == SHARD]
    clients = [TransactionalClient(owner, SHARD, name, OLD) for name in ids]
    assert set(await asyncio.gather(*[client.init() for client in clients])) == {0}
    await asyncio.gather(*[client.add(DATA, 0) for client in clients])
    requests = []
    call = RpcClient.call

    def counted(rpc: RpcClient, method: str, *others: Any, **named: Any) -> Any:
        requests.append(method)
        return call(rpc, method, *others, **named)

    monkeypatch.setattr(RpcClient, "call", counted)
    assert set(await asyncio.gather(*[client.end(commit=True) for client in clients])) == {0}
    await until(lambda: not open_transactions(owner.running, 0))
    assert len(await markers(node, data)) == len(ids)
    assert requests.count(WRITE_MARKERS) <= len(ids) // 3


@pytest.fixture
async def groups(node: StorageCluster) -> AsyncIterator[FakeGroupCoordinator]:
    coordinator = FakeGroupCoordinator(node)
    yield coordinator
    await coordinator.close()


@pytest.mark.parametrize(
    "refused", [[], [int(ErrorCode.NOT_COORDINATOR), int(ErrorCode.INVALID_REQUEST)]], ids=["at once", "later"]
)
async def test_a_group_coordinator_gets_the_markers_of_its_shards(
    node: StorageCluster, owner: Coordinator, groups: FakeGroupCoordinator, short_dir: Path, refused: list[int]
) -> None:
    """It names the owner epoch of the shard, and is asked again until it has written the marker."""
    client = TransactionalClient(owner, SHARD, ID, OLD)
    assert await client.init() == 0
    assert await client.add_offsets("g") == ErrorCode.COORDINATOR_NOT_AVAILABLE, "there is no such topic yet"
    topic_id = await groups.own(short_dir, shards=3, owner_epoch=6)
    groups.errors = [*refused, 0]
    await until(lambda: GROUP_TOPIC in owner.running.image.topics)
    assert await client.add_offsets("g") == 0
    assert await client.end(commit=True) == 0
    await until(lambda: not open_transactions(owner.running, 0))
    place = topic_id, shard_of("g", 3), 6
    sent = WantedMarker(*place, *client.producer, commits=True, raises_epoch=False, shard=SHARD, coordinator_epoch=1)
    assert groups.markers == [sent] * (len(refused) + 1)
    assert await client.add_offsets("g") == 0, "the next transaction"


def wanted_marker(topic_id: bytes, shard: int, owner_epoch: int, producer: Producer) -> WantedMarker:
    return WantedMarker(
        topic_id, shard, owner_epoch, *producer, commits=True, raises_epoch=False, shard=SHARD, coordinator_epoch=1
    )


async def test_offsets_are_added_to_a_known_transaction_alone(
    node: StorageCluster, owner: Coordinator, groups: FakeGroupCoordinator, short_dir: Path
) -> None:
    await groups.own(short_dir, shards=3, owner_epoch=6)
    await until(lambda: GROUP_TOPIC in owner.running.image.topics)
    client = TransactionalClient(owner, SHARD, ID, OLD)
    assert await client.add_offsets("g") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await client.init() == 0
    zombie, client.producer = client.producer, Producer(client.producer.producer_id, client.producer.epoch + 1)
    assert await client.add_offsets("g") == ErrorCode.PRODUCER_FENCED
    client.producer = zombie
    assert await client.add_offsets("g") == 0
    assert open_transactions(owner.running, 0)[ID]["partitions"] == [f"{GROUP_TOPIC}-{shard_of('g', 3)}"]


async def test_a_transactional_id_without_a_name_is_refused(node: StorageCluster, owner: Coordinator) -> None:
    client = TransactionalClient(owner, shard_of("", SHARDS), "", OLD)
    assert await client.add_offsets("g") == ErrorCode.INVALID_REQUEST
    assert await client.add(DATA, 0) == [ErrorCode.INVALID_REQUEST]
    assert await client.end(commit=True) == ErrorCode.INVALID_REQUEST


async def test_the_next_transaction_begins_in_the_append_that_completes_the_last_one(
    node: StorageCluster, owner: Coordinator, groups: FakeGroupCoordinator, short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first request has waited for the markers. It need not wait for the record that they are written, too."""
    await groups.own(short_dir, shards=1, owner_epoch=6)
    await until(lambda: GROUP_TOPIC in owner.running.image.topics)
    client = TransactionalClient(owner, SHARD, ID, OLD)
    assert await client.init() == 0
    assert await client.add_offsets("g") == 0
    groups.released.clear()
    assert await client.end(commit=True) == 0
    appends: list[PlannedAppend] = []
    append = StorageLog.append

    def noted(
        log: StorageLog, planned: PlannedAppend, now_ms: int, on_result: Callable[..., None], traces: Sequence[SpanContext]
    ) -> Cancel:
        appends.append(planned)
        return append(log, planned, now_ms, on_result, traces)

    monkeypatch.setattr(StorageLog, "append", noted)
    monkeypatch.setattr(completions, "WAIT_S_MAX", WAIT_S)
    next_one = asyncio.ensure_future(client.add_offsets("g"))
    await until(lambda: len(owner.running.completions) == 1)
    groups.released.set()
    assert await next_one == 0
    assert [len(planned.records) for planned in appends] == [2]
    assert open_transactions(owner.running, 0)[ID]["state"] == "Ongoing"


async def test_heartbeats_name_transactions_that_should_have_ended(
    node: StorageCluster,
    owner: Coordinator,
    controller: ProducerIdController,
    groups: FakeGroupCoordinator,
    short_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One waits for its markers. The other is past its timeout, and the log takes no record of its abort."""
    monkeypatch.setattr(coordinator, "MARGIN_MS", 50)
    await groups.own(short_dir, shards=1, owner_epoch=6)
    await until(lambda: GROUP_TOPIC in owner.running.image.topics)
    prepared = TransactionalClient(owner, SHARD, ID, OLD)
    assert await prepared.init() == 0
    assert await prepared.add_offsets("g") == 0
    groups.released.clear()
    assert await prepared.end(commit=True) == 0
    await until(lambda: controller.findings == {(MARKERS, ID)})
    late = TransactionalClient(owner, SHARD, other_id := same_shard_as(ID), OLD)
    assert await late.init(timeout_ms=200) == 0
    assert await late.add(DATA, 0) == [0]

    def refuse(
        log: StorageLog, planned: PlannedAppend, now_ms: int, on_result: Callable[..., None], traces: Sequence[SpanContext]
    ) -> Cancel:
        asyncio.get_running_loop().call_soon(on_result, LogRefused(ErrorCode.NOT_ENOUGH_REPLICAS))
        return lambda: None

    with monkeypatch.context() as patched:
        patched.setattr(StorageLog, "append", refuse)
        await until(lambda: (TRANSACTION, other_id) in controller.findings)
    groups.released.set()


async def test_a_long_listing_is_that_of_one_turn(
    node: StorageCluster, owner: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [name for each in range(40) if shard_of(name := f"t{each}", SHARDS) == SHARD]
    for name in ids:
        assert await TransactionalClient(owner, SHARD, name, OLD).init() == 0
    client = TransactionalClient(owner, SHARD, ids[0], OLD)
    filters = [
        ListTransactionsRequest(),
        ListTransactionsRequest(["Empty"], [], -1, "t[0-9]"),
        ListTransactionsRequest(["Ongoing"]),
    ]
    at_once = [await client.ask(each, 2) for each in filters]
    assert [state.transactional_id for state in at_once[0].transaction_states] == ids
    monkeypatch.setattr(client_requests, "LISTED_AT_ONCE", 3)
    assert [await client.ask(each, 2) for each in filters] == at_once
    refused = await client.ask(ListTransactionsRequest([], [], -1, "("), 2)
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def same_shard_as(transactional_id: str) -> str:
    shard = shard_of(transactional_id, SHARDS)
    return next(name for each in range(1000) if shard_of(name := f"other{each}", SHARDS) == shard)


async def claim_elsewhere(node: StorageCluster, topic: bytes) -> None:
    """Another owner claims the shard. The store names it when the leader asks, and no image tells of it."""
    key = keys.partition(topic, SHARD)

    async def named(asked: str) -> KeyValue | None:
        found = await MemoryStore.get(node.store, asked)
        if found is None or asked != key:
            return found
        state = replace(decode(PartitionState, found.value), owner=str(CALLER), owner_epoch=2)
        return replace(found, value=encode(state))

    with pytest.MonkeyPatch.context() as given:
        given.setattr(node.store, "get", named)
        response = await node.caller(TRANSACTION_COORDINATOR).call(CLAIM, Claim(topic, SHARD, 0, 2, 1), timeout_s=WAIT_S)
    assert not unpack(Claimed, response.body).error


async def verified(owner: Coordinator, client: TransactionalClient, coordinator_epoch: int = -1) -> int:
    """A leader asks whether the partition belongs to the transaction. `coordinator_epoch`: of the last marker that it has."""
    asked = AddPartitions(ID, *client.producer, True, ((DATA, 0),), coordinator_epoch)
    response = await owner.storage_node.call(ADD_PARTITIONS, asked, timeout_s=WAIT_S)
    return unpack(PartitionsAdded, response.body).errors[0]


@pytest.mark.parametrize("newer", [False, True], ids=["same-epoch", "newer-epoch"])
@pytest.mark.parametrize("request_name", ["commit", "abort", "add", "verify"])
async def test_a_former_owner_neither_confirms_nor_refuses(
    node: StorageCluster, topic: bytes, data: bytes, owner: Coordinator, request_name: str, newer: bool
) -> None:
    """It takes the transaction before for the last one. So it would confirm a commit that nobody carries out, and fence a
    producer whose epoch has risen since."""
    client = TransactionalClient(owner, SHARD, ID, OLD)
    assert await client.init() == 0
    assert await client.add(DATA, 0) == [0]
    assert await client.end(commit=True) == 0
    await until(lambda: not open_transactions(owner.running, 0))
    await claim_elsewhere(node, topic)
    if newer:
        client.producer = Producer(client.producer.producer_id, client.producer.epoch + 1)
    if request_name == "verify":
        assert await verified(owner, client) == ErrorCode.NOT_COORDINATOR
        return
    asked: Awaitable[object] = client.add(DATA, 0) if request_name == "add" else client.end(commit=request_name == "commit")
    with pytest.raises(Refused) as refusal:
        await asked
    assert refusal.value.args == (ErrorCode.NOT_COORDINATOR,)


@pytest.mark.parametrize("coordinator_epoch", [-1, 0, 1, 2])
async def test_a_leader_that_has_a_marker_of_the_owner_or_an_earlier_one_needs_no_confirmation(
    node: StorageCluster, topic: bytes, data: bytes, owner: Coordinator, coordinator_epoch: int
) -> None:
    """A newer owner would have ended the transaction there with a marker of its own, before the next one."""
    client = TransactionalClient(owner, SHARD, ID, OLD)
    assert await client.init() == 0
    assert await client.add(DATA, 0) == [0]
    assert await verified(owner, client, coordinator_epoch) == 0
    await claim_elsewhere(node, topic)
    expected = 0 if coordinator_epoch in (0, 1) else ErrorCode.NOT_COORDINATOR
    assert await verified(owner, client, coordinator_epoch) == expected
