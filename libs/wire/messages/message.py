"""What the classes of messages share. The generator writes the rest of each class out, so that bytecode caches hold all of it: a
dataclass is compiled when its module is imported, and some 230 of them took a sixth of a gateway's start.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar, Final

NEW: Final[Any] = object()
"""The default of a field whose value is made for each message: an empty list, or a struct of defaults."""


class Message:
    """A struct of Kafka's protocol: equal to another by its fields, shown with them, and not hashable, since it changes."""

    __slots__: ClassVar[tuple[str, ...]] = ()
    __hash__ = None  # type: ignore[assignment]

    _values: ClassVar[Callable[[Any], object]]

    def __init_subclass__(cls) -> None:
        cls._values = attrgetter(*cls.__slots__) if cls.__slots__ else lambda message: ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        values = type(self)._values
        return values(self) == values(other)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({values})"
