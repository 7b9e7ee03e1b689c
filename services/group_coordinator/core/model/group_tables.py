"""What groups of both protocols have alike: a name, facts, and tables with a row for each member."""

from collections.abc import Callable, MutableMapping
from typing import Any, Final, Generic, TypeVar

F = TypeVar("F")
M = TypeVar("M")

_NOW: Final = "now"


class GroupTables(Generic[F, M]):
    """The base of a group. `tables` makes a table: of the shard's journal, or of one that is thrown away."""

    __slots__ = ("_facts", "members", "name", "statics")

    def __init__(self, name: str, facts: F, tables: Callable[[], MutableMapping[Any, Any]]) -> None:
        self.name = name
        self._facts: MutableMapping[str, F] = tables()
        self.members: MutableMapping[str, M] = tables()
        self.statics: MutableMapping[str, str] = tables()
        """Instance id → member id."""
        self._facts[_NOW] = facts

    @property
    def facts(self) -> F:
        return self._facts[_NOW]

    @facts.setter
    def facts(self, facts: F) -> None:
        self._facts[_NOW] = facts
