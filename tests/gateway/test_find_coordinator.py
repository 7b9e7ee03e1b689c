"""FindCoordinator while there are no coordinators: clear answers, and silence for those that only have a group.id."""

import pytest

from libs.wire.errors import ErrorCode
from libs.wire.messages.find_coordinator import FindCoordinatorRequest
from services.gateway.handlers import find_coordinator
from tests.gateway.fake_gateway import Cluster, FakeGateway, context

GROUP, TRANSACTION, SHARE = 0, 1, 2


@pytest.mark.parametrize(
    ("version", "key_type", "error"),
    [
        (0, GROUP, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (2, GROUP, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (3, GROUP, ErrorCode.UNSUPPORTED_VERSION),
        (1, TRANSACTION, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (3, TRANSACTION, ErrorCode.UNSUPPORTED_VERSION),
        (3, SHARE, ErrorCode.INVALID_REQUEST),
        (1, 9, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_one_key_is_answered_at_the_top_level(version: int, key_type: int, error: ErrorCode) -> None:
    request = FindCoordinatorRequest(key="a", key_type=key_type)
    response = await find_coordinator.handle(FakeGateway(Cluster()), context(version), request)
    assert (response.error_code, response.node_id, response.host, response.port) == (error, -1, "", -1)
    assert response.error_message


@pytest.mark.parametrize(
    ("version", "key_type", "error"),
    [
        (4, GROUP, ErrorCode.UNSUPPORTED_VERSION),
        (6, TRANSACTION, ErrorCode.UNSUPPORTED_VERSION),
        (6, SHARE, ErrorCode.UNSUPPORTED_VERSION),
        (5, SHARE, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_each_of_many_keys_has_its_answer(version: int, key_type: int, error: ErrorCode) -> None:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["a", "b"])
    response = await find_coordinator.handle(FakeGateway(Cluster()), context(version), request)
    assert [(found.key, found.error_code, found.node_id) for found in response.coordinators] == [
        ("a", error, -1),
        ("b", error, -1),
    ]
    assert all(found.error_message for found in response.coordinators)
