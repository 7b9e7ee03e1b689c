"""UpdateFeatures: what the controller is asked, and how its answer is told."""

import pytest

from libs.rpc.contracts.controller import FeatureUpdate, UpdateFeatures, UpdateFeaturesReply
from libs.rpc.messages.errors import RpcError
from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from services.gateway.exchange.request_context import ControllerUnavailable
from services.gateway.handlers import SERVED
from tests.gateway.fake_gateway import Cluster, FakeGateway, context

UPGRADE, SAFE, UNSAFE = 1, 2, 3
TRANSACTIONS = "transaction.version"


async def update(gateway: FakeGateway, request: UpdateFeaturesRequest, version: int = 2) -> UpdateFeaturesResponse:
    served = SERVED[ApiKey.UPDATE_FEATURES]
    response: UpdateFeaturesResponse = await served.handle(gateway, context(version), request)
    assert served.written(version, 1, response)
    return response


def gateway_with(reply: UpdateFeaturesReply | Exception) -> FakeGateway:
    gateway = FakeGateway(Cluster())

    def answer(method: str, body: object) -> UpdateFeaturesReply:
        if isinstance(reply, Exception):
            raise reply
        return reply

    gateway.on_controller = answer
    return gateway


@pytest.mark.parametrize("kind", [UPGRADE, SAFE, UNSAFE])
@pytest.mark.parametrize("validate_only", [False, True])
async def test_the_controller_decides_and_the_client_then_reads_its_own_change(kind: int, validate_only: bool) -> None:
    gateway = gateway_with(UpdateFeaturesReply(7, ((TRANSACTIONS, 1),)))
    updates = [FeatureUpdateKey(TRANSACTIONS, 1, kind), FeatureUpdateKey("group.version", 1, UPGRADE)]
    response = await update(gateway, UpdateFeaturesRequest(9000, updates, validate_only), version=1)
    asked = UpdateFeatures((FeatureUpdate(TRANSACTIONS, 1, kind), FeatureUpdate("group.version", 1, UPGRADE)), validate_only)
    assert gateway.requests == [("controller.update_features", asked, 9.0)]
    assert gateway.waited_for == [7]
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    results = [(result.feature, result.error_code, result.error_message) for result in response.results]
    assert results == [(TRANSACTIONS, 0, "NONE"), ("group.version", 0, "NONE")]


@pytest.mark.parametrize("leave", [True, False])
async def test_in_version_0_each_update_is_an_upgrade_as_in_kafka(leave: bool) -> None:
    gateway = gateway_with(UpdateFeaturesReply(7))
    await update(gateway, UpdateFeaturesRequest(9000, [FeatureUpdateKey(TRANSACTIONS, 1, 9, leave)]), version=0)
    assert gateway.requests[0][1] == UpdateFeatures((FeatureUpdate(TRANSACTIONS, 1, UPGRADE),))


async def test_a_refusal_is_told_as_the_controller_words_it() -> None:
    gateway = gateway_with(RpcError(ErrorCode.INVALID_UPDATE_VERSION, "No."))
    response = await update(gateway, UpdateFeaturesRequest(9000, [FeatureUpdateKey(TRANSACTIONS, 3)]), version=1)
    assert (response.error_code, response.error_message) == (ErrorCode.INVALID_UPDATE_VERSION, "No.")
    assert response.results == []


async def test_while_no_controller_is_elected_the_request_times_out() -> None:
    gateway = gateway_with(ControllerUnavailable())
    response = await update(gateway, UpdateFeaturesRequest(9000, [FeatureUpdateKey(TRANSACTIONS, 1)]))
    assert response.error_code == ErrorCode.REQUEST_TIMED_OUT
