"""What a request of an old client does that comes amid its next transaction, with the same epoch (docs/transactions.md)."""

import pytest

from libs.wire.errors import ErrorCode
from services.transaction_coordinator.gauges import open_transactions
from tests.storage.cluster import StorageCluster
from tests.support.polling import until
from tests.transaction_coordinator.data_topic import (
    ID,
    OLD_GENERATIONS,
    Generation,
    MakeClient,
    is_open,
    is_stable,
    markers,
    produce,
)
from tests.transaction_coordinator.processes import Coordinator

old_generations = pytest.mark.parametrize("generation", OLD_GENERATIONS, ids=lambda generation: generation.name)


@old_generations
@pytest.mark.parametrize("commit", [True, False])
async def test_a_late_end_ends_the_next_transaction_where_it_stands_and_the_rest_is_refused(
    node: StorageCluster, data: bytes, make_client: MakeClient, generation: Generation, commit: bool
) -> None:
    client = await make_client(generation)
    assert await client.begin() == [0]
    assert (await client.send(0)).error == 0
    await client.finish(commit=commit)
    assert await client.begin() == [0]
    assert (await client.send(1)).error == 0
    await client.finish(commit=commit)  # the late one
    assert (await client.send(2)).error == generation.not_in_transaction
    assert await client.end(commit=not commit) == ErrorCode.INVALID_TXN_STATE
    assert is_stable(node, data)


@old_generations
async def test_a_late_commit_tears_a_transaction_that_goes_on_in_another_partition(
    node: StorageCluster, data: bytes, owner: Coordinator, make_client: MakeClient, generation: Generation
) -> None:
    """The addition of that partition begins a transaction of its own, and the client's abort ends only that one."""
    client = await make_client(generation)
    other = await node.topic("other")
    await until(lambda: "other" in owner.running.image.topics)
    assert await client.begin() == [0]
    assert (await client.send(0)).error == 0
    await client.finish(commit=True)
    assert await client.begin() == [0]
    assert (await client.send(1)).error == 0
    await client.finish(commit=True)  # the late one
    assert await client.add("other", 0) == [0]
    assert (await produce(node, other, client.producer, 0, generation.produce_version)).error == 0
    await client.finish(commit=False)
    assert [marker.aborts for _, marker in await markers(node, data)] == [False, False]
    assert [marker.aborts for _, marker in await markers(node, other)] == [True]


@old_generations
async def test_a_late_addition_begins_a_transaction_that_holds_up_no_reader(
    node: StorageCluster, data: bytes, owner: Coordinator, make_client: MakeClient, generation: Generation
) -> None:
    client = await make_client(generation)
    assert await client.begin() == [0]
    assert (await client.send(0)).error == 0
    await client.finish(commit=True)
    assert await client.begin() == [0]  # the late one
    assert open_transactions(owner.running, 0)[ID]["state"] == "Ongoing"
    assert is_stable(node, data)


@old_generations
async def test_a_late_batch_joins_the_next_transaction_if_its_sequence_fits(
    node: StorageCluster, data: bytes, make_client: MakeClient, generation: Generation
) -> None:
    client = await make_client(generation)
    assert await client.begin() == [0]
    assert (await client.send(0)).error == 0
    await client.finish(commit=False)
    assert await client.begin() == [0]
    assert (await client.send(5)).error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not is_open(node, data)
    assert (await client.send(1)).error == 0
    assert is_open(node, data)


@old_generations
async def test_a_late_batch_of_a_client_with_a_new_epoch_is_refused(
    node: StorageCluster, data: bytes, make_client: MakeClient, generation: Generation
) -> None:
    """Java's and librdkafka's clients take one after an abort amid batches without answers."""
    client = await make_client(generation)
    assert await client.begin() == [0]
    assert (await client.send(0)).error == 0
    former = client.producer
    await client.finish(commit=False)
    assert await client.init() == 0
    assert await client.begin() == [0]
    assert (await client.send(1, former)).error == ErrorCode.INVALID_PRODUCER_EPOCH
    assert not is_open(node, data)
