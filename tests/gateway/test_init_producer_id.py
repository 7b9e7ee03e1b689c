"""InitProducerId: ids for idempotent producers. Requests with a transactional id are relayed."""

import pytest

from libs.rpc.messages.errors import RpcError
from libs.wire.errors import ErrorCode
from libs.wire.messages.init_producer_id import InitProducerIdRequest
from services.gateway.exchange.request_context import ControllerUnavailable
from services.gateway.handlers import init_producer_id
from tests.gateway.fake_gateway import Cluster, FakeGateway, context


async def test_an_idempotent_producer_gets_an_id_and_epoch_0() -> None:
    gateway = FakeGateway(Cluster())
    gateway.producer_ids = lambda: 4000
    # Without a transactional id the timeout means nothing, and clients send any value.
    response = await init_producer_id.handle(gateway, context(5), InitProducerIdRequest(None, transaction_timeout_ms=-1))
    assert (response.error_code, response.producer_id, response.producer_epoch) == (0, 4000, 0)


@pytest.mark.parametrize("failure", [ControllerUnavailable(), RpcError(7, "late")])
async def test_no_id_at_hand_means_ask_again(failure: Exception) -> None:
    gateway = FakeGateway(Cluster())

    def fail() -> int:
        raise failure

    gateway.producer_ids = fail
    response = await init_producer_id.handle(gateway, context(5), InitProducerIdRequest())
    assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert (response.producer_id, response.producer_epoch) == (-1, -1)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (InitProducerIdRequest("", 1000), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest("id", 0), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (InitProducerIdRequest("id", 900_001), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (InitProducerIdRequest(None, 1000, producer_id=5), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest(None, 1000, producer_epoch=5), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_an_impossible_request_is_refused_without_spending_an_id(request_: InitProducerIdRequest, error: ErrorCode) -> None:
    response = await init_producer_id.handle(FakeGateway(Cluster()), context(5), request_)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (error, -1, -1)
