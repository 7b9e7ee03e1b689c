"""Transactions that were left torn or hanging in Kafka, as KIP-890 and Kafka's issues tell of them, for each client generation.

The coordinator and the storage node are whole processes. What the network delays, the test delays.
"""

import asyncio

import pytest

from libs.transactions import question
from libs.transactions.transaction_coordinators import TransactionCoordinators
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.markers import Marker
from services.transaction_coordinator.gauges import open_transactions
from tests.storage.cluster import StorageCluster
from tests.support.polling import until
from tests.transaction_coordinator.data_topic import (
    GENERATIONS,
    ID,
    OLD_GENERATIONS,
    SHARD,
    TV2,
    Begin,
    Generation,
    GenerationClient,
    MakeClient,
    is_open,
    is_stable,
    markers,
    take_all,
)
from tests.transaction_coordinator.delays import DelayedAnswers, DelayedMarkers
from tests.transaction_coordinator.processes import Coordinator, Refused

LATE = ErrorCode.INVALID_REQUEST
COMMIT, ABORT = Marker(False, 1), Marker(True, 1)

each_generation = pytest.mark.parametrize("generation", GENERATIONS, ids=lambda generation: generation.name)
old_generations = pytest.mark.parametrize("generation", OLD_GENERATIONS, ids=lambda generation: generation.name)


# -- batches that come late


@each_generation
@pytest.mark.parametrize("before", [0, 1])
async def test_kip_890_a_batch_after_the_abort(
    node: StorageCluster, data: bytes, make_client: MakeClient, generation: Generation, before: int
) -> None:
    """A batch came when its transaction was aborted already. It began another one that nobody ended, and readers of committed
    records stood still. `before`: how many batches came in time."""
    client = await make_client(generation)
    assert await client.begin() == [0]
    for sequence in range(before):
        assert (await client.send(sequence)).error == 0
    producer = client.producer
    await client.finish(commit=False)
    expected = ErrorCode.INVALID_PRODUCER_EPOCH if generation is TV2 else generation.not_in_transaction
    assert (await client.send(before, producer)).error == expected
    assert is_stable(node, data)
    assert await client.begin() == [0]
    assert (await client.send(before * generation.second_sequence)).error == 0, "the next transaction goes on"
    await client.finish(commit=True)
    assert (await markers(node, data))[-1][1] == COMMIT


@each_generation
async def test_kip_890_a_batch_after_the_timeout(
    node: StorageCluster, data: bytes, make_client: MakeClient, generation: Generation
) -> None:
    """The same, where the coordinator had aborted the transaction since it took too long."""
    client = await make_client(generation, timeout_ms=100)
    assert await client.begin() == [0]
    assert (await client.send(0)).error == 0
    await client.ended()
    assert (await client.send(1)).error == ErrorCode.INVALID_PRODUCER_EPOCH
    assert is_stable(node, data)


@old_generations
async def test_kafka_14402_a_batch_for_a_partition_that_was_never_added(
    node: StorageCluster, data: bytes, make_client: MakeClient, generation: Generation
) -> None:
    """A client wrote to a partition before it added it, or without. The coordinator did not know the partition, so it got no
    marker."""
    client = await make_client(generation)
    assert (await client.send(0)).error == generation.not_in_transaction
    assert is_stable(node, data)


@each_generation
async def test_kafka_14884_the_transaction_ends_between_the_answer_and_the_append(
    node: StorageCluster, data: bytes, make_client: MakeClient, generation: Generation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader had verified the transaction. Before it appended the batch the marker came, and then the batch hung."""
    client = await make_client(generation)
    assert await client.begin() == [0]
    answers = DelayedAnswers(monkeypatch)
    late = asyncio.ensure_future(client.send(0))
    await answers.kept()
    await client.finish(commit=False)
    answers.release()
    assert (await late).error == generation.not_in_transaction
    assert is_stable(node, data)


@each_generation
async def test_kafka_14920_no_batch_overtakes_one_whose_verification_failed(
    node: StorageCluster, data: bytes, make_client: MakeClient, generation: Generation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator could not answer about the first batch, and could about the second. As the partition knew nothing of the
    producer it took the second. Then the first was out of order for ever."""
    client = await make_client(generation)
    assert await client.begin() == [0]
    with monkeypatch.context() as patched:
        patched.setattr(question, "UNAVAILABLE_S_MAX", 0)
        patched.setattr(TransactionCoordinators, "ask", lambda *_: int(ErrorCode.NOT_COORDINATOR))
        assert (await client.send(0)).error == ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await client.send(1)).error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [(await client.send(sequence)).error for sequence in range(2)] == [0, 0]
    await client.finish(commit=True)


# -- markers that come late


@each_generation
async def test_kip_890_a_late_marker_leaves_the_next_transaction_whole(
    node: StorageCluster, data: bytes, make_client: MakeClient, generation: Generation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A marker was slow, and its coordinator sent another. The slow one came when the next transaction had begun, with the same
    epoch: it committed the half that was there, and the rest was aborted."""
    client = await make_client(generation)
    delayed = DelayedMarkers(monkeypatch)
    assert await client.begin() == [0]
    assert (await client.send(0)).error == 0
    await client.finish(commit=True)
    assert await client.begin() == [0]
    assert (await client.send(generation.second_sequence)).error == 0
    assert await delayed.arrive() == LATE
    assert is_open(node, data)
    await client.finish(commit=False)
    assert [marker for _, marker in await markers(node, data)] == [COMMIT, ABORT]


@each_generation
async def test_kip_890_a_late_marker_of_a_former_coordinator(
    node: StorageCluster,
    topic: bytes,
    data: bytes,
    owner: Coordinator,
    make_client: MakeClient,
    begin: Begin,
    generation: Generation,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same, where the coordinator had paused amid its markers, and another one had taken over."""
    client = await make_client(generation)
    delayed = DelayedMarkers(monkeypatch, hangs=True)
    assert await client.begin() == [0]
    assert (await client.send(0)).error == 0
    assert await client.end(commit=True) == 0
    await delayed.kept()
    successor = await begin(2)
    await take_all(node, topic, successor, 2)
    other = GenerationClient(node, successor, data, generation)
    other.producer = client.producer
    await other.ended()
    assert await other.begin() == [0]
    assert (await other.send(generation.second_sequence)).error == 0
    assert await delayed.arrive() == LATE
    assert is_open(node, data)
    await other.finish(commit=False)
    assert [marker for _, marker in await markers(node, data)] == [Marker(False, 2), Marker(True, 2)]


@each_generation
async def test_kip_890_a_late_marker_of_a_former_leader_epoch(
    node: StorageCluster, data: bytes, make_client: MakeClient, generation: Generation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same, where the partition had got another leader meanwhile, which has seen no number of a request."""
    client = await make_client(generation)
    delayed = DelayedMarkers(monkeypatch)
    assert await client.begin() == [0]
    assert (await client.send(0)).error == 0
    await node.state(data, epoch=1)
    await node.leads(data, epoch=1)
    await client.finish(commit=True)
    await node.state(data, epoch=2)
    await node.leads(data, epoch=2)
    assert await client.begin() == [0]
    assert (await client.send(generation.second_sequence)).error == 0
    assert await delayed.arrive() == LATE
    assert is_open(node, data)


# -- requests that come late


@pytest.mark.parametrize("commit", [True, False])
async def test_kip_890_a_late_end_acts_on_no_later_transaction(
    node: StorageCluster, data: bytes, owner: Coordinator, make_client: MakeClient, commit: bool
) -> None:
    """An EndTxn was delayed, and the client's retry ended the transaction. When the delayed one came it ended the next one. From
    `transaction.version` 2 on it has an old epoch. Before it cannot be told from a new one (docs/transactions.md)."""
    client = await make_client(TV2)
    assert (await client.send(0)).error == 0
    first = client.producer
    await client.finish(commit=commit)
    assert (await client.send(0)).error == 0
    second, client.producer = client.producer, first
    assert await client.end(commit=commit) == ErrorCode.PRODUCER_FENCED
    assert open_transactions(owner.running, 0)[ID]["state"] == "Ongoing"
    client.producer = second
    await client.finish(commit=True)


@each_generation
@pytest.mark.parametrize("commit", [True, False])
async def test_kip_890_an_end_that_comes_twice_ends_nothing_more(
    node: StorageCluster, data: bytes, make_client: MakeClient, generation: Generation, commit: bool
) -> None:
    """The delayed EndTxn comes before the client has begun its next transaction: it is answered as its first copy was."""
    client = await make_client(generation)
    assert await client.begin() == [0]
    assert (await client.send(0)).error == 0
    first = client.producer
    await client.finish(commit=commit)
    second, client.producer = client.producer, first
    assert await client.end(commit=commit) == 0
    assert client.producer == second
    client.producer = first
    assert await client.end(commit=not commit) == ErrorCode.INVALID_TXN_STATE
    assert len(await markers(node, data)) == 1


@each_generation
async def test_kafka_21181_a_demoted_coordinator_answers_nothing_from_its_cache(
    node: StorageCluster,
    topic: bytes,
    data: bytes,
    owner: Coordinator,
    make_client: MakeClient,
    begin: Begin,
    generation: Generation,
) -> None:
    """A coordinator that did not know yet of its successor took the commit of the second transaction for a repeated one of the
    first, and answered that it is done. Then the second transaction took too long, and was aborted."""
    client = await make_client(generation)
    assert await client.begin() == [0]
    assert (await client.send(0)).error == 0
    await client.finish(commit=True)
    owner.store.unavailable = True
    successor = await begin(2)
    await take_all(node, topic, successor, 2)
    other = GenerationClient(node, successor, data, generation)
    other.producer = client.producer
    assert await other.begin() == [0]
    assert (await other.send(generation.second_sequence)).error == 0
    assert SHARD in owner.running.shards.owned, "it does not know"
    with pytest.raises(Refused) as refused:
        await client.end(commit=True)
    assert refused.value.args == (ErrorCode.NOT_COORDINATOR,)
    await other.finish(commit=True)


# -- coordinators and leaders that fail


@each_generation
async def test_a_begin_outlives_the_coordinator(
    node: StorageCluster,
    topic: bytes,
    data: bytes,
    make_client: MakeClient,
    begin: Begin,
    generation: Generation,
) -> None:
    """Systems that begin transactions in memory lost that at a failover. The commit succeeded, without the data."""
    client = await make_client(generation)
    assert await client.begin() == [0]
    assert (await client.send(0)).error == 0
    successor = await begin(2)
    await take_all(node, topic, successor, 2)
    other = GenerationClient(node, successor, data, generation)
    other.producer = client.producer
    await other.finish(commit=True)
    assert [marker for _, marker in await markers(node, data)] == [Marker(False, 2)]
    assert is_stable(node, data)


@each_generation
async def test_kafka_9777_a_prepared_transaction_is_completed_once_its_leader_is_back(
    node: StorageCluster,
    topic: bytes,
    data: bytes,
    owner: Coordinator,
    make_client: MakeClient,
    generation: Generation,
) -> None:
    """A transaction stayed in PrepareCommit, since the event that should have completed it was missed. Here its owner loses the
    shard amid the markers, and gets it back. Meanwhile the producer is told to wait, and nothing else."""
    client = await make_client(generation)
    assert await client.begin() == [0]
    assert (await client.send(0)).error == 0
    first = client.producer
    await node.state(data, epoch=1, leader=-1)
    assert await client.end(commit=True) == 0
    second, client.producer = client.producer, first
    assert await client.end(commit=True) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert await client.end(commit=False) == ErrorCode.INVALID_TXN_STATE
    await take_all(node, topic, owner, 2)
    await until(lambda: owner.running.shards.owned[SHARD].owner_epoch == 2)
    await owner.serves(SHARD)
    await node.state(data, epoch=2)
    await client.ended()
    assert [marker for _, marker in await markers(node, data)] == [Marker(False, 2)]
    client.producer = second
    assert await client.begin() == [0]
    assert (await client.send(generation.second_sequence)).error == 0
    await client.finish(commit=True)


# -- transactions that are no trouble


@old_generations
@pytest.mark.parametrize("commit", [True, False])
async def test_a_transaction_without_batches_ends_as_any_other(
    node: StorageCluster, data: bytes, make_client: MakeClient, generation: Generation, commit: bool
) -> None:
    """A partition that was added gets its marker, and readers learn of nothing aborted."""
    client = await make_client(generation)
    assert await client.begin() == [0]
    await client.finish(commit=commit)
    assert await markers(node, data) == [(0, COMMIT if commit else ABORT)]
    reply = await node.fetch(data, 0, isolation=1)
    assert not reply.aborted
    assert is_stable(node, data)


@each_generation
async def test_the_end_of_an_older_producer_leaves_the_newer_ones_transaction_open(
    node: StorageCluster, data: bytes, owner: Coordinator, make_client: MakeClient, generation: Generation
) -> None:
    """An abort by a producer that was fenced aborted the transaction of the producer that had fenced it."""
    older = await make_client(generation)
    newer = await make_client(generation)
    assert await newer.begin() == [0]
    assert (await newer.send(0)).error == 0
    assert await older.end(commit=False) == ErrorCode.PRODUCER_FENCED
    assert await older.end(commit=True) == ErrorCode.PRODUCER_FENCED
    assert (await older.send(0)).error == ErrorCode.INVALID_PRODUCER_EPOCH
    assert is_open(node, data)
    await newer.finish(commit=True)
    assert [marker for _, marker in await markers(node, data)] == [COMMIT]
