"""A group as a decision sees it: with its own earlier records replayed, which the group itself does not have yet."""

from collections.abc import MutableMapping
from typing import Any

from services.group_coordinator.core.overlay import Overlay


class Scratch:
    """Stands before a kind of group among the bases of its scratch. Of a table that nothing asks for, nothing is made."""

    __slots__ = ()
    name: str
    _under: Any
    _now: Any

    def __init__(self, under: Any) -> None:
        self.name = under.name  # type: ignore[misc]  # a slot of the other base
        self._under = under
        self._now = under.facts

    def __getattr__(self, table: str) -> Any:
        overlay: Overlay[Any, Any] = Overlay(getattr(self._under, table))
        setattr(self, table, overlay)
        return overlay

    @property
    def facts(self) -> Any:
        return self._now

    @facts.setter
    def facts(self, facts: Any) -> None:
        self._now = facts


def add(counts: MutableMapping[Any, int], key: object, by: int) -> None:
    """What is counted no more has no entry."""
    count = counts.get(key, 0) + by
    if count:
        counts[key] = count
    else:
        counts.pop(key, None)
