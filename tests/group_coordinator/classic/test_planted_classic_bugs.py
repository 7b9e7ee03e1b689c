"""Rules of classic groups broken on purpose: the model test must notice."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from libs.coordinator.core.decisions import Decision
from libs.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from services.group_coordinator.core.classic import changes, classic_groups, expiries, joins, rebalances, syncs
from services.group_coordinator.core.classic.classic_groups import ClassicGroups
from services.group_coordinator.core.classic.group import Group
from services.group_coordinator.core.classic.group_decision import GroupDecision
from services.group_coordinator.core.classic.states import State
from tests.group_coordinator.classic.classic_model import random_run

Plant = Callable[[pytest.MonkeyPatch], None]

SEEDS = 400


def any_member_may_assign(patch: pytest.MonkeyPatch) -> None:
    real = syncs.decide_sync

    def decide(group_decision: GroupDecision, request: Any) -> Any:
        if group_decision.group.state is State.COMPLETING_REBALANCE and request.assignments:
            return syncs._assign(group_decision, request)
        return real(group_decision, request)

    def error(group: Group, request: Any) -> int:
        return (
            0 if group.state is State.COMPLETING_REBALANCE and request.member_id in group.members else sync_error(group, request)
        )

    sync_error = syncs.sync_error
    patch.setattr(syncs, "decide_sync", decide)
    patch.setattr(syncs, "sync_error", error)


def heartbeats_of_any_generation_are_good(patch: pytest.MonkeyPatch) -> None:
    def beat(self: ClassicGroups, sent: Any, request: HeartbeatRequest, now_ms: int) -> Any:
        group = self.groups.get(request.group_id)
        if group is None or request.member_id not in group.members:
            return Decision(HeartbeatResponse(error_code=25))
        return Decision(HeartbeatResponse(), timers=self.session_timers(request.group_id, request.member_id, now_ms))

    patch.setattr(ClassicGroups, "decide_heartbeat", beat)


def who_syncs_is_forgotten_when_a_rebalance_begins(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupDecision, "wake_sync", lambda self, member_id, error: None)


def who_joins_is_forgotten_when_it_is_removed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupDecision, "wake_join", lambda self, member_id, error, answer: None)


def the_former_asker_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    real = GroupDecision.parked

    def parked(self: GroupDecision, key: Any, to_former: Any) -> Any:
        decision = real(self, key, to_former)
        return decision._replace(wakes=decision.wakes[1:])

    patch.setattr(GroupDecision, "parked", parked)


def an_asker_is_parked_after_its_own_answer(patch: pytest.MonkeyPatch) -> None:
    def parked(self: GroupDecision, key: Any, to_former: Any) -> Any:
        return Decision(None, self.records, self.timers, key, [(key, to_former), *self.wakes])

    patch.setattr(GroupDecision, "parked", parked)


def sessions_do_not_begin_with_a_generation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupDecision, "schedule_session_timeout", lambda self, member: None)


def pending_members_never_expire(patch: pytest.MonkeyPatch) -> None:
    real = expiries.on_session_timeout
    patch.setattr(
        expiries,
        "on_session_timeout",
        lambda group_decision, who: Decision() if who in group_decision.group.pending else real(group_decision, who),
    )


def nobody_waits_for_syncs_in_time(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(classic_groups._DUE, "syncs", lambda group_decision: Decision())


def a_rebalance_never_ends(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rebalances, "complete_join_phase", lambda group_decision: None)
    patch.setattr(expiries, "complete_join_phase", lambda group_decision: None)


def the_generation_stays(patch: pytest.MonkeyPatch) -> None:
    real = GroupDecision.put

    def put(self: GroupDecision, change: Any) -> None:
        if isinstance(change, changes.GenerationBegun) and self.group.facts.generation > 0:
            change = replace(change, generation=self.group.facts.generation)
        real(self, change)

    patch.setattr(GroupDecision, "put", put)


def a_replaced_static_member_stays(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Group, "_replace", lambda self, old_id, member: self._put(member))


def a_static_members_return_is_not_logged(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-10284."""
    patch.setattr(joins, "_log_members", lambda group_decision: None)


def the_stranded_are_not_looked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClassicGroups, "_strand_requests", lambda self, group: None)


def a_load_sets_no_sessions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClassicGroups, "timers", lambda self, now_ms: iter(()))


def what_was_loaded_before_stays(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-5600."""
    real = Group.load

    def load(self: Group, record: Any) -> None:
        before = list(self.members.values())
        real(self, record)
        for member in before:
            if member.member_id not in self.members:
                self._put(member)

    patch.setattr(Group, "load", load)


PLANTED: list[Plant] = [
    any_member_may_assign,
    heartbeats_of_any_generation_are_good,
    who_syncs_is_forgotten_when_a_rebalance_begins,
    who_joins_is_forgotten_when_it_is_removed,
    the_former_asker_is_forgotten,
    an_asker_is_parked_after_its_own_answer,
    sessions_do_not_begin_with_a_generation,
    pending_members_never_expire,
    nobody_waits_for_syncs_in_time,
    a_rebalance_never_ends,
    the_generation_stays,
    a_replaced_static_member_stays,
    the_stranded_are_not_looked_for,
    a_load_sets_no_sessions,
    what_was_loaded_before_stays,
    a_static_members_return_is_not_logged,
]


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in range(SEEDS):
        try:
            random_run(seed)
        except Exception:
            return
    raise AssertionError("not found")
