"""Rules of groups of the consumer protocol broken on purpose: the model test must notice."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from libs.coordinator.core.decisions import Decision
from services.group_coordinator.core.consumer import expiries, heartbeats, leaves, reconciliation, subscriptions, target
from services.group_coordinator.core.consumer.group import Group
from services.group_coordinator.core.consumer.group_decision import GroupDecision
from services.group_coordinator.core.consumer.member import Member
from services.group_coordinator.core.consumer.partitions import NONE
from services.group_coordinator.core.model.records import MemberState, RegularExpressionRemoved, TargetAssignmentRemoved
from tests.group_coordinator.consumer.consumer_model import random_run

Plant = Callable[[pytest.MonkeyPatch], None]

SEEDS = 300


def partitions_are_given_before_others_gave_them_up(patch: pytest.MonkeyPatch) -> None:
    real = reconciliation.reconciled
    patch.setattr(reconciliation, "reconciled", lambda member, aim, owned, holder: real(member, aim, owned, lambda _: None))


def who_does_not_say_what_it_owns_owns_nothing(patch: pytest.MonkeyPatch) -> None:
    real = reconciliation.owns_any
    patch.setattr(reconciliation, "owns_any", lambda owned, given_up: owned is not None and real(owned, given_up))


def what_is_to_be_given_up_is_not_kept(patch: pytest.MonkeyPatch) -> None:
    real = reconciliation.reconciled
    patch.setattr(
        reconciliation, "reconciled", lambda member, aim, owned, holder: replace(real(member, aim, owned, holder), pending=NONE)
    )


def any_epoch_is_good(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(heartbeats, "_fenced", lambda member, request: None)


def sessions_do_not_go_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupDecision, "schedule_session_timeout", lambda self, member_id: None)


def nobody_has_to_give_up_in_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupDecision, "schedule_rebalance_timeout", lambda self, member: None)


def who_is_silent_stays(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(expiries, "on_session_timeout", lambda group_decision, member_id: Decision())


def what_a_member_had_is_held_when_it_is_gone(patch: pytest.MonkeyPatch) -> None:
    real = Group._hold

    def hold(self: Group, before: Member | None, after: Member | None) -> None:
        if after is not None and after.epoch >= 0:
            real(self, before, after)

    patch.setattr(Group, "_hold", hold)


def nobody_looks_at_topics_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(subscriptions, "is_current", lambda group, topics, now_ms: True)


def others_get_nothing_of_who_left(patch: pytest.MonkeyPatch) -> None:
    def fence(group_decision: GroupDecision, member: Member, why: str, reason: str) -> None:
        leaves.remove(group_decision, member, why)
        subscriptions.without(group_decision, member)

    patch.setattr(leaves, "fence", fence)
    patch.setattr(expiries, "fence", fence)


def a_static_member_that_comes_back_is_there_twice(patch: pytest.MonkeyPatch) -> None:
    real = heartbeats.replace_static_member

    def replace_static_member(group_decision: GroupDecision, former: Member, member_id: str) -> Member:
        with pytest.MonkeyPatch.context() as within:
            within.setattr(leaves, "remove", lambda group_decision, member, why: None)
            return real(group_decision, former, member_id)

    patch.setattr(heartbeats, "replace_static_member", replace_static_member)


def only_who_joins_hears_what_it_has(patch: pytest.MonkeyPatch) -> None:
    real = heartbeats.answer
    patch.setattr(
        heartbeats, "answer", lambda group_decision, request, member, told: real(group_decision, request, member, told=False)
    )


def regular_expressions_stay_for_ever(patch: pytest.MonkeyPatch) -> None:
    real = GroupDecision.put
    patch.setattr(
        GroupDecision, "put", lambda self, record: None if isinstance(record, RegularExpressionRemoved) else real(self, record)
    )


def targets_of_who_left_stay(patch: pytest.MonkeyPatch) -> None:
    real = GroupDecision.put
    patch.setattr(
        GroupDecision, "put", lambda self, record: None if isinstance(record, TargetAssignmentRemoved) else real(self, record)
    )


def a_target_is_made_for_who_asks_alone(patch: pytest.MonkeyPatch) -> None:
    """And those who had it before keep theirs."""
    real = target.make

    def make(group_decision: GroupDecision) -> None:
        with pytest.MonkeyPatch.context() as within:
            put = GroupDecision.put
            within.setattr(
                GroupDecision, "put", lambda self, record: put(self, record) if getattr(record, "assigned", 1) else None
            )
            real(group_decision)

    patch.setattr(target, "make", make)


def who_waits_for_others_is_done(patch: pytest.MonkeyPatch) -> None:
    real = reconciliation.reconciled

    def reconciled(*how: Any) -> Member:
        member = real(*how)
        return replace(member, state=MemberState.STABLE) if member.state is MemberState.UNRELEASED_PARTITIONS else member

    patch.setattr(reconciliation, "reconciled", reconciled)


PLANTS: list[Plant] = [
    partitions_are_given_before_others_gave_them_up,
    who_does_not_say_what_it_owns_owns_nothing,
    what_is_to_be_given_up_is_not_kept,
    any_epoch_is_good,
    sessions_do_not_go_on,
    nobody_has_to_give_up_in_time,
    who_is_silent_stays,
    what_a_member_had_is_held_when_it_is_gone,
    nobody_looks_at_topics_again,
    others_get_nothing_of_who_left,
    a_static_member_that_comes_back_is_there_twice,
    only_who_joins_hears_what_it_has,
    regular_expressions_stay_for_ever,
    targets_of_who_left_stay,
    a_target_is_made_for_who_asks_alone,
    who_waits_for_others_is_done,
]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_noticed(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in range(SEEDS):
        try:
            random_run(seed)
        except Exception:
            return
    raise AssertionError("not noticed")
