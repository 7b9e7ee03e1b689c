"""AddPartitionsToTxn about several transactions: split by shard, and answered in the order of the request."""

import pytest

from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages import add_partitions_to_txn
from libs.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from libs.wire.primitives import Reader
from libs.wire.transaction_refusals import added_to_several
from services.gateway.handlers import add_partitions_to_txn as handler
from tests.gateway.fake_gateway import Cluster, FakeGateway, context
from tests.gateway.fake_groups import response_body

KEY = ApiKey.ADD_PARTITIONS_TO_TXN
NAMES = [f"id {number}" for number in range(12)] + ["id 3"]
"""Of all shards, and one of them twice."""


@pytest.fixture
def gateway() -> FakeGateway:
    return FakeGateway(Cluster(topics={"__transaction_state": (1, 2, 3, 1)}, owners={0: "1@1", 1: "2@1", 2: "1@1", 3: "2@1"}))


def request(*names: str) -> AddPartitionsToTxnRequest:
    topics = [AddPartitionsToTxnTopic("t", [0, 1])]
    return AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction(name, 7, 0, True, topics) for name in names])


def results(response: AddPartitionsToTxnResponse) -> list[tuple[str, list[int]]]:
    """The transactional id and the errors of each result."""
    return [
        (result.transactional_id, [each.partition_error_code for each in result.topic_results[0].results_by_partition])
        for result in response.results_by_transaction
    ]


@pytest.mark.parametrize("version", [4, 5])
async def test_each_transaction_is_decided_by_its_own_coordinator(gateway: FakeGateway, version: int) -> None:
    def on_shard(shard: int, body: bytes) -> tuple[int, bytes]:
        asked = add_partitions_to_txn.read_request(Reader(memoryview(body)), version)
        assert {gateway.transaction_shards.of(each.transactional_id) for each in asked.transactions} == {shard}
        assert all(each.verify_only for each in asked.transactions)
        return 0, response_body(KEY, version, added_to_several(asked, lambda place, topic, index: shard * 10 + index))

    gateway.on_shard = on_shard
    response = await handler.handle(gateway, context(version), request(*NAMES))
    shards = [gateway.transaction_shards.of(name) for name in NAMES]
    assert set(shards) == {0, 1, 2, 3}
    assert results(response) == [(name, [shard * 10, shard * 10 + 1]) for name, shard in zip(NAMES, shards, strict=True)]
    assert (response.error_code, len(gateway.requests)) == (0, 4)


async def test_a_coordinator_that_does_not_answer_fails_its_own_transactions_only(gateway: FakeGateway) -> None:
    def on_shard(shard: int, body: bytes) -> tuple[int, bytes]:
        if shard == 2:
            return ErrorCode.NOT_COORDINATOR, b""
        asked = add_partitions_to_txn.read_request(Reader(memoryview(body)), 4)
        return 0, response_body(KEY, 4, added_to_several(asked, lambda place, topic, index: 0))

    gateway.on_shard = on_shard
    response = await handler.handle(gateway, context(4), request(*NAMES))
    expected = [(name, [ErrorCode.NOT_COORDINATOR * (gateway.transaction_shards.of(name) == 2)] * 2) for name in NAMES]
    assert results(response) == expected


async def test_an_id_without_a_name_is_refused_whoever_answers(gateway: FakeGateway) -> None:
    gateway.on_shard = lambda shard, body: (ErrorCode.NOT_COORDINATOR, b"")
    response = await handler.handle(gateway, context(5), request(""))
    assert results(response) == [("", [ErrorCode.INVALID_REQUEST] * 2)]


async def test_no_transactions_are_nobodys(gateway: FakeGateway) -> None:
    response = await handler.handle(gateway, context(4), AddPartitionsToTxnRequest())
    assert response == AddPartitionsToTxnResponse()
    assert gateway.requests == []
