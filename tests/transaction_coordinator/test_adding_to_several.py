"""AddPartitionsToTxn from version 4 on: several transactions of a shard, some of them only verified."""

import pytest

from libs.cluster.topic_names import GROUP_TOPIC
from libs.coordinator.core.shard_hashing import shard_of
from libs.wire.errors import ErrorCode
from libs.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from services.transaction_coordinator.core.requests import (
    AddPartitions,
    AddToSeveral,
    PartitionsReply,
    SeveralReply,
    VerifyPartitions,
)
from services.transaction_coordinator.core.states import State
from services.transaction_coordinator.core.transaction import Producer
from services.transaction_coordinator.gauges import open_transactions
from tests.storage.cluster import StorageCluster
from tests.transaction_coordinator.data_topic import DATA, ID, SHARD, SHARDS
from tests.transaction_coordinator.processes import Coordinator, Refused, TransactionalClient
from tests.transaction_coordinator.stage import TransactionStage

NONE, FENCED = ErrorCode.NONE, ErrorCode.PRODUCER_FENCED
OTHER = next(name for number in range(100) if shard_of(name := f"other {number}", SHARDS) == SHARD)
ELSEWHERE = next(name for number in range(100) if shard_of(name := f"elsewhere {number}", SHARDS) != SHARD)


def partitions(*indexes: int) -> frozenset[tuple[str, int]]:
    return frozenset(("a", index) for index in indexes)


def test_each_is_decided_on_top_of_those_before_it_and_all_share_an_append() -> None:
    stage = TransactionStage()
    first, second = stage.init("t").producer, stage.init("u").producer
    before = len(stage.log)
    reply = stage.ask(
        AddToSeveral(
            (
                AddPartitions("t", first, partitions(0), 0),
                AddPartitions("u", second, partitions(0), 2),
                AddPartitions("t", first, partitions(1), 0),
                VerifyPartitions("t", first, partitions(0, 2)),
                AddPartitions("t", Producer(first.producer_id, 1), partitions(3), 0),
            )
        )
    ).reply
    verified = PartitionsReply(NONE, {("a", 0): NONE, ("a", 2): ErrorCode.TRANSACTION_ABORTABLE})
    added = PartitionsReply(NONE)
    assert reply == SeveralReply((added, added, added, verified, PartitionsReply(FENCED)))
    assert stage.transactions["t"].partitions == partitions(0, 1)
    assert (stage.transactions["u"].partitions, stage.transactions["u"].client_version) == (partitions(0), 2)
    assert len(stage.log) - before == 2


def test_their_timeouts_run() -> None:
    stage = TransactionStage()
    producers = [stage.init(name, timeout_ms=1000).producer for name in ("t", "u")]
    added = [AddPartitions(name, producer, partitions(0), 0) for name, producer in zip(("t", "u"), producers, strict=True)]
    stage.ask(AddToSeveral(tuple(added)))
    stage.wait(1000)
    assert {stage.transactions[name].state for name in ("t", "u")} == {State.PREPARE_ABORT}


async def ask(client: TransactionalClient, version: int, *wanted: tuple[str, Producer, bool, str, list[int]]) -> list[list[int]]:
    """The errors of the partitions of each transaction."""
    transactions = [
        AddPartitionsToTxnTransaction(name, *producer, verify, [AddPartitionsToTxnTopic(topic, indexes)])
        for name, producer, verify, topic, indexes in wanted
    ]
    answer = await client.ask(AddPartitionsToTxnRequest(transactions), version)
    assert not answer.error_code
    assert [result.transactional_id for result in answer.results_by_transaction] == [each[0] for each in wanted]
    return [
        [each.partition_error_code for each in result.topic_results[0].results_by_partition]
        for result in answer.results_by_transaction
    ]


@pytest.mark.parametrize("version", [4, 5])
async def test_what_one_transaction_is_refused_the_others_do_not_hear(
    node: StorageCluster, data: bytes, owner: Coordinator, version: int
) -> None:
    clients = {name: TransactionalClient(owner, SHARD, name, 5) for name in (ID, OTHER)}
    for client in clients.values():
        assert await client.init() == 0
    one, other = (client.producer for client in clients.values())
    answered = await ask(
        clients[ID],
        version,
        (ID, one, False, DATA, [0]),
        (OTHER, other, False, DATA, [0, 7]),
        (OTHER, other, True, DATA, [0]),
        (OTHER, other, True, GROUP_TOPIC, [0]),
        (OTHER, other, False, "__transaction_state", [0]),
    )
    assert answered == [
        [0],
        [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        [ErrorCode.TRANSACTION_ABORTABLE],
        [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        [ErrorCode.TOPIC_AUTHORIZATION_FAILED],
    ]
    assert list(open_transactions(owner.running, 0)) == [ID]
    assert await clients[ID].end(commit=True) == 0


async def test_ids_of_another_shard_are_not_decided(node: StorageCluster, data: bytes, owner: Coordinator) -> None:
    client = TransactionalClient(owner, SHARD, ID, 5)
    assert await client.init() == 0
    with pytest.raises(Refused) as refused:
        await ask(client, 4, (ID, client.producer, False, DATA, [0]), (ELSEWHERE, client.producer, False, DATA, [0]))
    assert refused.value.args == (ErrorCode.NOT_COORDINATOR,)
    assert not open_transactions(owner.running, 0)


async def test_an_id_without_a_name_is_refused_by_itself(node: StorageCluster, data: bytes, owner: Coordinator) -> None:
    client = TransactionalClient(owner, shard_of("", SHARDS), "", 5)
    assert await ask(client, 5, ("", Producer(7, 0), False, DATA, [0])) == [[ErrorCode.INVALID_REQUEST]]
    assert owner.running.meters.requests["add_partitions_to_txn", ErrorCode.INVALID_REQUEST] == 1
