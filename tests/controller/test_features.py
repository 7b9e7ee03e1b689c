"""UpdateFeatures at the controller: which levels may be set, and that they are stored."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from libs.cluster import keys
from libs.cluster.image import ClusterImage
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.records import ElectedController
from libs.rpc.contracts.controller import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE, FeatureUpdate, UpdateFeatures
from libs.wire.errors import ErrorCode
from services.controller.administration.features import change_features
from services.controller.core.administration.features import update_features
from services.controller.core.model.refusal import Refused
from services.controller.term import writes
from services.controller.term.fenced_writer import Conflict
from tests.controller.running_controller import running_controller, story

GROUPS, TRANSACTIONS = "group.version", "transaction.version"
FAILED = "The update failed for all features since the following feature had an error: Invalid update version "
ONLY_UP = "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
ONLY_DOWN = "Can't downgrade to a newer version."
NO_TYPE = "The controller does not support the given upgrade type."
NEGATIVE = "A feature version cannot be less than 0."
UNKNOWN = "Local controller 5 does not support this feature."
GROUP_LEVELS = "Local controller 5 only supports versions 1-1"
TRANSACTION_LEVELS = "Local controller 5 only supports versions 0-2"


def image(**levels: int) -> ClusterImage:
    changed: Mapping[str, int] = {name.replace("_", "."): level for name, level in levels.items()}
    return replace(ClusterImage(), finalized_features=changed, controller=ElectedController(5, 1))


@pytest.mark.parametrize("kind", [UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE])
def test_a_finalized_level_may_be_set_again_by_any_type_and_changes_nothing(kind: int) -> None:
    assert update_features(image(), [FeatureUpdate(GROUPS, 1, kind), FeatureUpdate(TRANSACTIONS, 2, kind)]) == {}


@pytest.mark.parametrize("kind", [SAFE_DOWNGRADE, UNSAFE_DOWNGRADE])
@pytest.mark.parametrize("level", [0, 1])
def test_a_level_is_lowered_by_both_downgrades(kind: int, level: int) -> None:
    assert update_features(image(), [FeatureUpdate(TRANSACTIONS, level, kind)]) == {TRANSACTIONS: level}


@pytest.mark.parametrize(("before", "after"), [(0, 1), (0, 2), (1, 2)])
def test_a_level_is_raised_by_an_upgrade(before: int, after: int) -> None:
    update = FeatureUpdate(TRANSACTIONS, after, UPGRADE)
    assert update_features(image(transaction_version=before), [update]) == {TRANSACTIONS: after}


@pytest.mark.parametrize(
    ("name", "level", "kind", "reason"),
    [
        (GROUPS, 2, UPGRADE, GROUP_LEVELS),
        (GROUPS, 0, SAFE_DOWNGRADE, GROUP_LEVELS),
        (TRANSACTIONS, 3, UPGRADE, TRANSACTION_LEVELS),
        (TRANSACTIONS, 3, SAFE_DOWNGRADE, TRANSACTION_LEVELS),
        (TRANSACTIONS, 0, UPGRADE, ONLY_UP),
        (TRANSACTIONS, 2, SAFE_DOWNGRADE, ONLY_DOWN),
        (TRANSACTIONS, 2, UNSAFE_DOWNGRADE, ONLY_DOWN),
        (TRANSACTIONS, -1, UNSAFE_DOWNGRADE, NEGATIVE),
        (TRANSACTIONS, 1, 0, NO_TYPE),
        (TRANSACTIONS, -1, 9, NO_TYPE),
        ("metadata.version", 29, UPGRADE, UNKNOWN),
        ("", 1, UPGRADE, UNKNOWN),
        ("no.such", 0, SAFE_DOWNGRADE, "Feature no.such not found."),
    ],
)
def test_any_other_update_is_refused_as_a_whole(name: str, level: int, kind: int, reason: str) -> None:
    fine = FeatureUpdate(GROUPS, 1, UPGRADE)
    with pytest.raises(Refused) as refused:
        update_features(image(transaction_version=1), [fine, FeatureUpdate(name, level, kind)])
    assert refused.value.error == ErrorCode.INVALID_UPDATE_VERSION
    assert refused.value.message == f"{FAILED}{level} for feature {name}. {reason}"


def test_of_two_updates_to_a_feature_the_last_counts() -> None:
    updates = [FeatureUpdate(TRANSACTIONS, 9, UPGRADE), FeatureUpdate(TRANSACTIONS, 0, SAFE_DOWNGRADE)]
    assert update_features(image(), updates) == {TRANSACTIONS: 0}


@story
async def test_a_level_is_stored_and_the_next_controller_knows_it() -> None:
    store = MemoryStore()

    async with running_controller(store) as running:
        await running.elected()
        lowered = UpdateFeatures((FeatureUpdate(TRANSACTIONS, 1, SAFE_DOWNGRADE),))
        validated = await running.controller.administer(
            lambda a, term: change_features(a, term, replace(lowered, validate_only=True))
        )
        assert (validated.changed, running.image.finalized_features) == ((), {})
        reply = await running.controller.administer(lambda a, term: change_features(a, term, lowered))
        assert reply.changed == ((TRANSACTIONS, 1),)
        assert running.image.mod_revision(keys.feature(TRANSACTIONS)) == reply.revision > validated.revision
        again = await running.controller.administer(lambda a, term: change_features(a, term, lowered))
        assert again.changed == ()
    async with running_controller(store.peer(), 2) as running:
        await running.elected()
        assert running.image.finalized_features == {TRANSACTIONS: 1}
        raised = UpdateFeatures((FeatureUpdate(TRANSACTIONS, 2, UPGRADE),))
        reply = await running.controller.administer(lambda a, term: change_features(a, term, raised))
        assert reply.changed == ((TRANSACTIONS, 2),)


@story
async def test_a_change_that_was_decided_on_an_older_level_conflicts() -> None:
    async with running_controller(MemoryStore()) as running:
        await running.elected()
        before = running.image
        term = running.controller.active_term()
        await term.commit(writes.feature_levels(before, {TRANSACTIONS: 1}))
        with pytest.raises(Conflict):
            await term.commit(writes.feature_levels(before, {TRANSACTIONS: 0}))
        assert running.image.finalized_features == {TRANSACTIONS: 1}
