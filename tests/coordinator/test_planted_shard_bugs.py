"""Each rule of coordinators (docs/rules.md) broken on purpose: the model test must notice."""

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from libs.coordinator.core import pending, shard
from libs.coordinator.core.pending import Pending
from libs.coordinator.core.shard import PlannedAppend, Shard
from libs.coordinator.core.states import State
from libs.coordinator.core.tables import Journal
from libs.coordinator.core.timers import Timers
from tests.coordinator.shard_model import Leader, ShardMachine, random_run

Plant = Callable[[pytest.MonkeyPatch], None]

SEEDS = 2000
"""Most are found in the first ten, the last around the 170th."""


def reads_do_not_wait(patch: pytest.MonkeyPatch) -> None:
    group_for = Pending.group_for
    patch.setattr(
        Pending,
        "group_for",
        lambda self, *rest, append, transaction: group_for(self, *rest, append=True) if append else None,
    )


def answers_when_replayed(patch: pytest.MonkeyPatch) -> None:
    reply = Pending._reply

    def at_once(self: Pending[Any, Any], group: Any, answer: Any) -> None:
        reply(self, None, answer)

    patch.setattr(Pending, "_reply", at_once)


def a_failed_append_leaves_the_tables(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "revert_to", lambda self, mark: self._notes.clear())


def only_the_failed_group_is_taken_back(patch: pytest.MonkeyPatch) -> None:
    def drop(self: Pending[Any, Any], first: int, error: int) -> Any:
        if not self.groups or first:
            return real(self, first, error)
        rest = deque(list(self.groups)[1:])
        self.groups = deque([self.groups[0]])
        marks = real(self, 0, error)
        self.groups = rest
        return marks

    real = Pending.drop
    patch.setattr(Pending, "drop", drop)


def unknown_is_taken_for_refused(patch: pytest.MonkeyPatch) -> None:
    def outcome_unknown(self: Any, error: int = 15) -> None:
        self._revert(error)
        if self.state is State.UNLOADING:
            self._close(shard.Event.OUTCOME_UNKNOWN)
        elif self.state is not State.SERVING and self.state is not State.CLOSED:
            self._become(shard.Event.OUTCOME_UNKNOWN)

    patch.setattr(Shard, "outcome_unknown", outcome_unknown)


def unknown_is_taken_for_stored(patch: pytest.MonkeyPatch) -> None:
    real = Shard.outcome_unknown

    def outcome_unknown(self: Any, error: int = 15) -> None:
        if self._pending.sent:
            self.appended()
        real(self, error)

    patch.setattr(Shard, "outcome_unknown", outcome_unknown)


def a_claim_does_not_read_again(patch: pytest.MonkeyPatch) -> None:
    real = Shard.claimed

    def claimed(self: Any, log_start: int, log_end: int) -> None:
        real(self, log_start, log_end)
        self.loaded(log_end, 0)

    patch.setattr(Shard, "claimed", claimed)


def serves_while_loading(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(shard, "_ERROR_WHILE", {State.CLAIMING: 14, State.UNLOADING: 16, State.CLOSED: 16})


def the_woken_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pending.Parked, "stays", False)


def those_who_wait_are_never_refused(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pending.Parked, "stays", True)


def timers_are_not_taken_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Timers, "revert_to", lambda self, mark: None)


def nothing_is_forgotten_before_it_is_committed_but_all_after(patch: pytest.MonkeyPatch) -> None:
    def settled(self: Any) -> None:
        self._journal.forget_to(self._journal.mark)
        self._timers.forget_to(self._timers.mark)

    patch.setattr(Shard, "_forget_committed", settled)


def a_removal_is_not_noted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("libs.coordinator.core.tables.Table.pop", dict.pop)


class LeaderWithoutOwnerEpochs(Leader):
    """*Offset alone is not enough*: the claim and the epoch are not looked at."""

    def append(self, plan: PlannedAppend) -> int:
        if plan.offset != len(self.log) or plan.fence.leader_epoch != self.epoch:
            return 1
        self.log += plan.records
        return 0


def offsets_alone_fence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ShardMachine, "leaders", LeaderWithoutOwnerEpochs)


def loading_does_not_wait_for_the_end(patch: pytest.MonkeyPatch) -> None:
    real = Shard.loaded

    def loaded(self: Any, position: int, now_ms: int) -> None:
        self._loading = shard.Progress(0, position, position, 0)
        real(self, position, now_ms)

    patch.setattr(Shard, "loaded", loaded)


PLANTED: list[Plant] = [
    reads_do_not_wait,
    answers_when_replayed,
    a_failed_append_leaves_the_tables,
    only_the_failed_group_is_taken_back,
    unknown_is_taken_for_refused,
    unknown_is_taken_for_stored,
    a_claim_does_not_read_again,
    serves_while_loading,
    the_woken_are_forgotten,
    those_who_wait_are_never_refused,
    timers_are_not_taken_back,
    a_removal_is_not_noted,
    nothing_is_forgotten_before_it_is_committed_but_all_after,
    offsets_alone_fence,
    loading_does_not_wait_for_the_end,
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
