"""The cost of a request, which does not grow with its group, unless it ends a rebalance."""

from collections.abc import Iterator
from typing import Any

import pytest

from services.group_coordinator.core.model.overlay import Overlay
from tests.group_coordinator.classic.stage import Stage


def rows_changed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """By a join that begins a rebalance, a join again, a new join, a heartbeat, a leave. Fails if one looks at all members."""
    ids, generation = stage.stable(stage.settings.size_max - 10)

    def no_walk(self: Overlay[Any, Any]) -> Iterator[Any]:
        assert len(self) < 5, "looks at all members"
        return real(self)

    real = Overlay.__iter__
    changed = []
    with monkeypatch.context() as patch:
        patch.setattr(Overlay, "__iter__", no_walk)
        for ask in (
            lambda: stage.join(version=3),
            lambda: stage.join(ids[1], version=3),
            lambda: stage.join(version=3),
            lambda: stage.heartbeat(ids[2], generation),
            lambda: stage.leave(ids[2]),
        ):
            stage.holds = True
            journal = stage.shard.journal
            before = journal.mark
            ask()
            changed.append(journal.mark - before)
            stage.holds = False
            stage.settle()
    return changed


def test_joins_heartbeats_and_leaves_cost_the_same_in_a_large_group(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = Stage(size_max=16), Stage(size_max=510)
    changed = rows_changed(small, monkeypatch)
    assert rows_changed(large, monkeypatch) == changed
    assert changed[3] == 0, "a heartbeat changes no table"
