"""A working copy of a group: a decision's own records are replayed on it before the group has them."""

from typing import Any

from services.group_coordinator.core.model.overlay import Overlay


class WorkingCopy:
    """The first base class of a group's working copy. It makes an overlay of a table when that is first used."""

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
