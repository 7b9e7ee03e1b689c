"""UpdateFeatures, and the levels that a feature has."""

import pytest

from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from services.gateway.handlers import SERVED
from tests.gateway.fake_gateway import Cluster, FakeGateway, context

UPGRADE, SAFE, UNSAFE = 1, 2, 3
GROUP_VERSION = "group.version"
FAILED = "The update failed for all features since the following feature had an error: Invalid update version "


async def update(*updates: FeatureUpdateKey, version: int = 2, elected: int = 5) -> UpdateFeaturesResponse:
    served = SERVED[ApiKey.UPDATE_FEATURES]
    gateway = FakeGateway(Cluster(controllers=(5,), elected=elected))
    response: UpdateFeaturesResponse = await served.handle(gateway, context(version), UpdateFeaturesRequest(0, [*updates]))
    assert served.written(version, 1, response)
    return response


@pytest.mark.parametrize("kind", [UPGRADE, SAFE, UNSAFE])
@pytest.mark.parametrize("version", [0, 1, 2])
async def test_the_level_in_force_may_be_set(version: int, kind: int) -> None:
    response = await update(FeatureUpdateKey(GROUP_VERSION, 1, kind, kind > UPGRADE), version=version)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    assert [(result.feature, result.error_code) for result in response.results] == [(GROUP_VERSION, ErrorCode.NONE)]


async def test_nothing_is_updated_without_an_error() -> None:
    response = await update(version=1)
    assert (response.error_code, response.results) == (ErrorCode.NONE, [])


@pytest.mark.parametrize(
    ("name", "level", "kind", "reason"),
    [
        (GROUP_VERSION, 2, UPGRADE, "Local controller 5 only supports versions 1-1"),
        (GROUP_VERSION, 0, SAFE, "Local controller 5 only supports versions 1-1"),
        (GROUP_VERSION, -1, UNSAFE, "A feature version cannot be less than 0."),
        (GROUP_VERSION, 1, 0, "The controller does not support the given upgrade type."),
        (GROUP_VERSION, 1, 9, "The controller does not support the given upgrade type."),
        ("metadata.version", 29, UPGRADE, "Local controller 5 does not support this feature."),
        ("", 1, UPGRADE, "Local controller 5 does not support this feature."),
    ],
)
async def test_any_other_update_is_refused_as_a_whole(name: str, level: int, kind: int, reason: str) -> None:
    fine = FeatureUpdateKey(GROUP_VERSION, 1, UPGRADE)
    response = await update(fine, FeatureUpdateKey(name, level, kind))
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert response.error_message == f"{FAILED}{level} for feature {name}. {reason}"
    assert response.results == []


async def test_version_0_has_no_types_and_needs_none() -> None:
    response = await update(FeatureUpdateKey(GROUP_VERSION, 1, 9), version=0)
    assert response.error_code == ErrorCode.NONE


async def test_while_nobody_is_elected_the_answer_is_the_same() -> None:
    response = await update(FeatureUpdateKey(GROUP_VERSION, 2, UPGRADE), elected=-1)
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
