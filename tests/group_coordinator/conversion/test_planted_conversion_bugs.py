"""Rules of groups that change their protocol broken on purpose: the model test must notice."""

from collections.abc import Callable
from typing import Any

import pytest

from services.group_coordinator.core.consumer import heartbeats
from services.group_coordinator.core.consumer.partitions import NONE
from services.group_coordinator.core.group_machine import GroupMachine
from services.group_coordinator.core.migration import classic_members, downgrade, mixed_groups, upgrade
from services.group_coordinator.core.migration.mixed_groups import MixedGroups
from services.group_coordinator.core.model.records import MemberState
from tests.group_coordinator.conversion.mixed_model import random_run

Plant = Callable[[pytest.MonkeyPatch], None]

SEEDS = 300


def what_classic_members_have_is_forgotten_by_the_upgrade(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(upgrade, "_by_id", lambda named, topics: NONE)


def who_waits_is_forgotten_by_the_upgrade(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(upgrade, "wakes", lambda group: [])


def the_log_does_not_hear_that_the_classic_group_is_gone(patch: pytest.MonkeyPatch) -> None:
    real = upgrade.tombstones

    def tombstones(group: Any) -> list[object]:
        return real(group)[1:]

    patch.setattr(upgrade, "tombstones", tombstones)


def cooperative_members_are_taken_to_own_nothing_when_they_join(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(classic_members, "owned_by", lambda subscription, topics: [])


def cooperative_members_are_taken_to_own_everything_when_they_join(patch: pytest.MonkeyPatch) -> None:
    real = heartbeats.reconcile

    def reconcile(group_decision: Any, member: Any, owned: Any, *, changed: str) -> Any:
        return real(group_decision, member, None if member.classic else owned, changed=changed)

    patch.setattr(heartbeats, "reconcile", reconcile)


def classic_members_are_told_their_target_before_it_is_free(patch: pytest.MonkeyPatch) -> None:
    real = classic_members.assignment

    def decide(self: MixedGroups, sent: Any, request: Any, now_ms: int) -> Any:
        group = self._consumer.groups.get(request.group_id)
        if group is None:
            return sync(self, sent, request, now_ms)
        target = group.target(request.member_id)
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(classic_members, "assignment", lambda assigned, topics, data: real(target, topics, data))
            return sync(self, sent, request, now_ms)

    sync = MixedGroups.decide_sync
    patch.setattr(MixedGroups, "decide_sync", decide)


def classic_members_never_hear_that_they_are_to_join_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(classic_members, "is_to_join", lambda group, member: False)


def classic_members_do_not_hear_that_they_are_to_give_something_up(patch: pytest.MonkeyPatch) -> None:
    def is_to_join(group: Any, member: Any) -> bool:
        return bool(member.state is not MemberState.UNREVOKED_PARTITIONS and member.epoch < group.facts.epoch)

    patch.setattr(classic_members, "is_to_join", is_to_join)


def the_group_stays_when_the_last_member_of_the_consumer_protocol_goes(patch: pytest.MonkeyPatch) -> None:
    """Not wrong, but classic members alone have to be served on: this one must not be noticed."""
    patch.setattr(downgrade, "may_be_due", lambda before, decided: False)


def a_downgrade_begins_no_rebalance(patch: pytest.MonkeyPatch) -> None:
    """As Kafka does where a static member is replaced."""
    real = downgrade.first_rebalance

    def begin(*args: Any) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(downgrade.rebalances, "prepare_rebalance", lambda group_decision, reason: None)
            return real(*args)

    patch.setattr(downgrade, "first_rebalance", begin)


def a_downgrade_leaves_the_consumer_group_in_the_log(patch: pytest.MonkeyPatch) -> None:
    real = mixed_groups.ConsumerGroups.tombstones

    def tombstones(self: Any, name: str, group: Any = None) -> Any:
        return real(self, name, group)[:-1]

    patch.setattr(mixed_groups.ConsumerGroups, "tombstones", tombstones)


def a_downgrade_assigns_what_others_may_still_own(patch: pytest.MonkeyPatch) -> None:
    """As Kafka does."""
    real = downgrade.classic_group

    def classic_group(group: Any, epoch: int, topics: Any, now_ms: int) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(downgrade, "_held", lambda member: group.target(member.member_id))
            return real(group, epoch, topics, now_ms)

    patch.setattr(downgrade, "classic_group", classic_group)


def a_downgrade_forgets_the_generation(patch: pytest.MonkeyPatch) -> None:
    real = downgrade.classic_group

    def classic_group(group: Any, epoch: int, topics: Any, now_ms: int) -> Any:
        return real(group, 0, topics, now_ms)

    patch.setattr(downgrade, "classic_group", classic_group)


def who_is_to_join_again_is_waited_for_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MixedGroups, "_arrived", lambda self, decision, expected: decision)


def a_downgrade_that_cannot_be_written_is_given_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupMachine, "decide_smaller", lambda self, event, now_ms: None)


def a_timer_whose_decision_cannot_be_written_has_no_smaller_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupMachine, "_expired_smaller", lambda self, key, now_ms: None)


PLANTED: list[Plant] = [
    a_downgrade_that_cannot_be_written_is_given_up,
    a_timer_whose_decision_cannot_be_written_has_no_smaller_one,
    what_classic_members_have_is_forgotten_by_the_upgrade,
    who_waits_is_forgotten_by_the_upgrade,
    the_log_does_not_hear_that_the_classic_group_is_gone,
    cooperative_members_are_taken_to_own_nothing_when_they_join,
    cooperative_members_are_taken_to_own_everything_when_they_join,
    classic_members_are_told_their_target_before_it_is_free,
    classic_members_never_hear_that_they_are_to_join_again,
    classic_members_do_not_hear_that_they_are_to_give_something_up,
    a_downgrade_begins_no_rebalance,
    a_downgrade_leaves_the_consumer_group_in_the_log,
    a_downgrade_assigns_what_others_may_still_own,
    a_downgrade_forgets_the_generation,
    who_is_to_join_again_is_waited_for_for_ever,
]


def noticed(seeds: int) -> bool:
    for seed in range(seeds):
        try:
            random_run(seed)
        except Exception:
            return True
    return False


@pytest.mark.parametrize("plant", PLANTED)
def test_a_planted_bug_is_noticed(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert noticed(SEEDS)


def test_groups_that_are_never_downgraded_serve_their_classic_members_on(monkeypatch: pytest.MonkeyPatch) -> None:
    the_group_stays_when_the_last_member_of_the_consumer_protocol_goes(monkeypatch)
    for seed in range(20):
        random_run(seed)
