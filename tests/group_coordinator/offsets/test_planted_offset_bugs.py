"""Rules of offsets broken on purpose: the model test must notice."""

from collections.abc import Callable
from typing import Any

import pytest

from libs.wire.errors import ErrorCode
from services.group_coordinator.core.administration import group_deletions
from services.group_coordinator.core.classic.classic_groups import ClassicGroups
from services.group_coordinator.core.model.group_kind import SINCE_COMMIT
from services.group_coordinator.core.offsets import commits, committed_offsets, deletions, expiries, fetches
from services.group_coordinator.core.offsets.committed_offsets import Offsets
from services.group_coordinator.core.offsets.offset_table import OffsetTable
from tests.group_coordinator.offsets.offsets_model import random_run

Plant = Callable[[pytest.MonkeyPatch], None]

SEEDS = 300


def fetches_are_answered_from_memory(patch: pytest.MonkeyPatch) -> None:
    """The present owner of the shard."""
    real = fetches.decided
    patch.setattr(fetches, "decided", lambda groups, version: real(groups, version)._replace(current=False))


def tombstones_are_not_replayed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OffsetTable, "remove", lambda self, removed: None)


def the_first_offset_stays(patch: pytest.MonkeyPatch) -> None:
    real = OffsetTable.put

    def put(self: OffsetTable, committed: Any) -> None:
        if self.get(committed.group, committed.topic, committed.partition) is None:
            real(self, committed)

    patch.setattr(OffsetTable, "put", put)


def a_change_is_not_noted_in_the_journal(patch: pytest.MonkeyPatch) -> None:
    """Failed decisions are not reverted."""
    real = OffsetTable.put

    def put(self: OffsetTable, committed: Any) -> None:
        journal, before = self._journal, self._journal.recording
        journal.recording = before and self.get(committed.group, committed.topic, committed.partition) is None
        real(self, committed)
        journal.recording = before

    patch.setattr(OffsetTable, "put", put)


def half_of_a_commit_is_kept(patch: pytest.MonkeyPatch) -> None:
    real = commits.decide_commit
    patch.setattr(commits, "decide_commit", lambda *args: (lambda done: done._replace(records=done.records[:1]))(real(*args)))


def anybody_commits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClassicGroups, "commit_error", lambda self, name, request, version: ErrorCode.NONE)
    patch.setattr(ClassicGroups, "commit_timers", lambda self, name, request, now_ms: {})


def what_members_read_expires(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClassicGroups, "subscription", lambda self, name: ())


def offsets_get_old_before_their_group_is_empty(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClassicGroups, "expiry_base_ms", lambda self, name: SINCE_COMMIT)


def a_retention_of_its_own_is_passed_over(patch: pytest.MonkeyPatch) -> None:
    real = expiries.is_old
    patch.setattr(expiries, "is_old", lambda committed, *about: real(committed._replace(expire_ms=-1), *about))


def nothing_is_looked_at_twice(patch: pytest.MonkeyPatch) -> None:
    real = Offsets.expired

    def expired(self: Offsets, key: Any, now_ms: int) -> Any:
        decision = real(self, key, now_ms)
        return decision._replace(
            timers={which: when for which, when in decision.timers.items() if which != committed_offsets.CHECK}
        )

    patch.setattr(Offsets, "expired", expired)


def groups_go_and_their_offsets_stay(patch: pytest.MonkeyPatch) -> None:
    real = group_deletions.Deletions.decide

    def decide(self: Any, sent: Any, request: Any) -> Any:
        decision = real(self, sent, request)
        return decision._replace(records=[record for record in decision.records if not hasattr(record, "partition")])

    patch.setattr(group_deletions.Deletions, "decide", decide)


def deletions_are_not_logged(patch: pytest.MonkeyPatch) -> None:
    real = deletions.decide_deletion
    patch.setattr(deletions, "decide_deletion", lambda *args: real(*args)._replace(records=()))


def offsets_of_a_topic_count_for_its_namesake(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fetches, "is_gone", lambda committed, topics: False)


PLANTED: list[Plant] = [
    fetches_are_answered_from_memory,
    tombstones_are_not_replayed,
    the_first_offset_stays,
    a_change_is_not_noted_in_the_journal,
    half_of_a_commit_is_kept,
    anybody_commits,
    what_members_read_expires,
    offsets_get_old_before_their_group_is_empty,
    a_retention_of_its_own_is_passed_over,
    nothing_is_looked_at_twice,
    groups_go_and_their_offsets_stay,
    deletions_are_not_logged,
    offsets_of_a_topic_count_for_its_namesake,
]


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in range(SEEDS):
        try:
            random_run(seed)
        except AssertionError:
            return
    raise AssertionError("not found")
